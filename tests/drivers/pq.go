// lib/pq, by database/sql: parameters are text of unknown type, but for []byte and arrays.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"

	"github.com/lib/pq"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type pqHandle struct {
	*sql.DB
	querier
}

func (h pqHandle) run(sql string, args []any) (columns []string, rows [][]any, err error) {
	result, err := h.querier.QueryContext(context.Background(), sql, args...)
	if err != nil {
		return
	}
	defer result.Close()
	if columns, err = result.Columns(); err != nil {
		return
	}
	types, err := result.ColumnTypes()
	if err != nil {
		return
	}
	for result.Next() {
		values, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			places[i] = &values[i]
		}
		if err = result.Scan(places...); err != nil {
			return
		}
		for i, value := range values {
			if bytes, ok := value.([]byte); ok && types[i].DatabaseTypeName() != "BYTEA" {
				values[i] = asText(bytes)
			}
		}
		rows = append(rows, values)
	}
	return columns, rows, result.Err()
}

func (h pqHandle) transaction(work func(handle) error) error {
	tx, err := h.DB.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := work(pqHandle{h.DB, tx}); err != nil {
		must(tx.Rollback())
		return err
	}
	return tx.Commit()
}

func (h pqHandle) batch([]statement) error { return errors.New("lib/pq has no batches") }

func (h pqHandle) argument(kind string, text string, value json.RawMessage) any {
	switch kind {
	case "json":
		return string(value)
	case "texts", "jsons":
		return pq.Array(strings_(value))
	case "bigints":
		return pq.Array(bigints(value))
	}
	return text
}

func main() {
	options := ""
	if os.Getenv("IDEM_POOLED") != "" {
		options = "binary_parameters=yes" // a statement and its parameters in one message
	}
	db, err := sql.Open("postgres", options)
	must(err)
	db.SetMaxOpenConns(1)
	sqlstate = func(err error) string {
		var error_ *pq.Error
		if errors.As(err, &error_) {
			return string(error_.Code)
		}
		return ""
	}
	must(serve(pqHandle{db, db}))
}
