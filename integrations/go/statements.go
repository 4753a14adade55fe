package idem

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// statements are the calls of one schema for HTTP requests. A call has the header field as it came for the functions of HTTP, and the key in it for others.
type statements struct{ beginHTTP, completeHTTP, omitHTTP string }

func newStatements(schema string) statements {
	idem := quote(schema)
	complete := func(omit string) string {
		return fmt.Sprintf(`SELECT %s.idem_http_complete($1::text, $2::text, $3::text::int, $4::text::jsonb, body_bytes => $5::bytea, fence => $6::text::bigint%s)::text`,
			idem, omit)
	}
	return statements{
		beginHTTP: fmt.Sprintf(`SELECT action, coalesce(status, 0), coalesce(headers::text, '{}'), body_bytes, coalesce(fence, 0), coalesce(code, ''),
	CASE WHEN code IS DISTINCT FROM 'unkeyed' THEN %[1]s.idem_http_key($4::text, $1::text) END
FROM %[1]s.idem_http_begin($1::text, $2::text, $3::text, $4::text, body_bytes => $5::bytea, lease => $6::text::interval, wait => $7::text::interval,
	ttl => $8::text::interval, fingerprint => $9::bytea, content_type => $10::text)`, idem),
		completeHTTP: complete(""),
		omitHTTP:     complete(", omit => true"),
	}
}

type answer struct {
	action, code string
	fence        int64
	response     *response // of replay and reject
}

func optionalInterval(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return interval(d)
}

// NULL for no bytes: neither driver sends a nil slice so.
func optionalBytes(bytes []byte) any {
	if len(bytes) == 0 {
		return nil
	}
	return bytes
}

func optionalText(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

func (m *middleware) begin(ctx context.Context, q Querier, call *request, lease, wait, ttl time.Duration) (answer, error) {
	var (
		a       answer
		status  int
		headers string
		body    []byte
		key     sql.NullString
	)
	bytes := optionalBytes(call.body)
	if call.fingerprint != nil {
		bytes = nil
	}
	rows, err := q.QueryContext(ctx, m.beginHTTP, call.scope, call.method, call.route, optionalText(call.field), bytes, optionalInterval(lease),
		optionalInterval(wait), optionalInterval(ttl), optionalBytes(call.fingerprint), optionalText(call.contentType))
	if err != nil {
		return a, typed(err, m.Schema)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&a.action, &status, &headers, &body, &a.fence, &a.code, &key); err != nil {
			return a, err
		}
	}
	if err := rows.Err(); err != nil {
		return a, typed(err, m.Schema)
	}
	call.key, call.isKeyed = key.String, key.Valid
	header, err := readHeaders(headers)
	if err != nil {
		return a, err
	}
	if a.action == "run" {
		call.added = header
		return a, nil
	}
	if body == nil { // a client that is told of a type of content parses it
		header.Del("Content-Type")
		header.Del("Content-Encoding")
	}
	a.response = &response{status: status, header: header, body: append([]byte(nil), body...)}
	if a.action == "reject" {
		a.response.code = a.code
	}
	return a, nil
}

// A value is a text, a number, or an array of them.
func readHeaders(text string) (http.Header, error) {
	var fields map[string]any
	header := http.Header{}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		for _, each := range values {
			header.Add(name, fmt.Sprint(each))
		}
	}
	return header, nil
}

// complete returns stored; omitted: commit; released: in leased mode, the scope does not store its status, roll back; unkeyed.
func (m *middleware) complete(ctx context.Context, q Querier, call *request, own *response, fence int64) (string, error) {
	statement, body := m.completeHTTP, optionalBytes(own.body)
	if own.isLarge {
		statement, body = m.omitHTTP, nil
	}
	headers, err := json.Marshal(own.header)
	if err != nil {
		return "", err
	}
	var field, number any
	if call.isKeyed {
		field = optionalText(call.field)
	}
	if fence != 0 {
		number = fmt.Sprint(fence)
	}
	rows, err := q.QueryContext(ctx, statement, call.scope, field, fmt.Sprint(own.status), string(headers), body, number)
	if err != nil {
		return "", typed(err, m.Schema)
	}
	defer rows.Close()
	var stored string
	for rows.Next() {
		if err := rows.Scan(&stored); err != nil {
			return "", err
		}
	}
	return stored, typed(rows.Err(), m.Schema)
}
