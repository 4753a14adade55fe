// pgx: parameters are encoded as the type that the server expects.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type pgxHandle struct {
	*pgx.Conn
	querier
}

func (h pgxHandle) run(sql string, args []any) (columns []string, rows [][]any, err error) {
	result, err := h.querier.Query(context.Background(), sql, args...)
	if err != nil {
		return
	}
	defer result.Close()
	for result.Next() {
		values, err := result.Values()
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, values)
	}
	for _, field := range result.FieldDescriptions() {
		columns = append(columns, string(field.Name))
	}
	return columns, rows, result.Err()
}

func (h pgxHandle) transaction(work func(handle) error) error {
	return h.Conn.BeginFunc(context.Background(), func(tx pgx.Tx) error { return work(pgxHandle{h.Conn, tx}) })
}

func (h pgxHandle) batch(statements []statement) error {
	batch := &pgx.Batch{}
	for _, statement := range statements {
		batch.Queue(statement.SQL, statement.native(h)...)
	}
	return h.Conn.SendBatch(context.Background(), batch).Close()
}

func (h pgxHandle) argument(kind string, text string, value json.RawMessage) any {
	switch kind {
	case "json": // a []byte would be a bytea under the simple protocol
		return string(value)
	case "texts", "jsons":
		return strings_(value)
	case "bigints":
		return bigints(value)
	}
	return text
}

func main() {
	config, err := pgx.ParseConfig("")
	must(err)
	config.PreferSimpleProtocol = os.Getenv("IDEM_POOLED") != ""
	connection, err := pgx.ConnectConfig(context.Background(), config)
	must(err)
	sqlstate = func(err error) string {
		var error_ *pgconn.PgError
		if errors.As(err, &error_) {
			return error_.Code
		}
		return ""
	}
	must(serve(pgxHandle{connection, connection}))
}
