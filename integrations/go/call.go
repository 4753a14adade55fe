package idem

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"
)

// Querier is a *sql.DB, *sql.Tx or *sql.Conn.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Option is an optional argument of a function. A function that does not have it returns an error.
type Option struct {
	name, kind string
	value      any
}

// Scope is the space in which a key, lock or name is unique. Default: the empty one.
func Scope(scope string) Option { return Option{"scope", "text", scope} }

// Schema names the schema in which idem is installed. Default: idem.
func Schema(schema string) Option { return Option{"schema", "", schema} }

// TTL is how long a key stays unique. Default: the scope's, else the setting idem.default_ttl.
func TTL(ttl time.Duration) Option { return Option{"ttl", "interval", interval(ttl)} }

// Wait is how long to wait for another holder.
func Wait(wait time.Duration) Option { return Option{"wait", "interval", interval(wait)} }

// LeaseFor is the length of a lease.
func LeaseFor(lease time.Duration) Option { return Option{"lease", "interval", interval(lease)} }

// Owner is a nonce of the caller's: the same owner gets its unfinished claim back.
func Owner(owner string) Option { return Option{"owner", "text", owner} }

// Fingerprint is the request's, to detect a key that is used for another request; 1 to 255 bytes.
func Fingerprint(fingerprint []byte) Option { return Option{"fingerprint", "bytea", fingerprint} }

// Fence of a lease.
func Fence(fence int64) Option { return Option{"fence", "bigint", fence} }

// Response is stored with the key: any value that encoding/json takes.
func Response(response any) Option { return Option{"response", "jsonb", asJSON{response}} }

// StatusCode is stored with the key.
func StatusCode(code int) Option { return Option{"status_code", "int", code} }

// Key of a message: those of one key are delivered in order.
func Key(key string) Option { return Option{"key", "text", key} }

// Headers of a message.
func Headers(headers map[string]any) Option { return Option{"headers", "jsonb", asJSON{headers}} }

// Delay is how long a message is not delivered.
func Delay(delay time.Duration) Option { return Option{"delay", "interval", interval(delay)} }

// DedupID publishes a message once.
func DedupID(id string) Option { return Option{"dedup_id", "text", id} }

// RetryAfter is when a message that was given back is delivered again.
func RetryAfter(pause time.Duration) Option {
	return Option{"retry_after", "interval", interval(pause)}
}

// MaxMessages of a batch. Default: 100.
func MaxMessages(most int) Option { return Option{"max_messages", "int", most} }

// Cost of one call of Allow. Default: 1.
func Cost(cost int) Option { return Option{"cost", "int", cost} }

// StateColumn names the column, if state machines are attached to several.
func StateColumn(column string) Option { return Option{"state_column", "name", column} }

// KeepOnError keeps the key of Leased until its lease ends, when the work returns an error. Default: it is released.
func KeepOnError() Option { return Option{"keep_on_error", "", true} }

// Attempts is how often Once runs its work, after serialization failures and lost connections. Default: 4.
func Attempts(most int) Option { return Option{"attempts", "", most} }

func interval(d time.Duration) string { return fmt.Sprintf("%d microseconds", d.Microseconds()) }

type asJSON struct{ value any }

// options, by name.
type options map[string]Option

func read(function string, given []Option, allowed ...string) (options, error) {
	known := options{}
	for _, option := range given {
		if option.name != "schema" && !contains(allowed, option.name) {
			return nil, fmt.Errorf("idem: %s has no option %q", function, option.name)
		}
		known[option.name] = option
	}
	return known, nil
}

func contains(list []string, text string) bool {
	for _, each := range list {
		if each == text {
			return true
		}
	}
	return false
}

func (o options) schema() string {
	if option, ok := o["schema"]; ok {
		return option.value.(string)
	}
	return "idem"
}

func (o options) text(name string) string {
	text, _ := o[name].value.(string)
	return text
}

func (o options) duration(name string, otherwise time.Duration) time.Duration {
	option, ok := o[name]
	if !ok {
		return otherwise
	}
	var microseconds int64
	fmt.Sscanf(option.value.(string), "%d", &microseconds)
	return time.Duration(microseconds) * time.Microsecond
}

// without returns the options but for these.
func (o options) without(names ...string) []Option {
	var rest []Option
	for name, option := range o {
		if !contains(names, name) {
			rest = append(rest, option)
		}
	}
	return rest
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// call is one call of a function. Its arguments travel as text, which each driver passes unchanged, and the statement casts them; bytes are the exception.
type call struct {
	schema, name string
	arguments    []string
	values       []any
}

func newCall(name string, given options, required ...Option) (*call, error) {
	c := &call{schema: given.schema(), name: name}
	for _, argument := range required {
		if err := c.add(argument); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	sort.Strings(names) // one text for one choice of options
	for _, name := range names {
		if given[name].kind == "" {
			continue
		}
		if err := c.add(given[name]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *call) add(argument Option) error {
	value, cast := argument.value, "::text::"+argument.kind
	switch given := value.(type) {
	case asJSON:
		text, err := json.Marshal(given.value)
		if err != nil {
			return fmt.Errorf("idem: %s: %w", argument.name, err)
		}
		value = string(text)
	case int, int64, float64, bool:
		value = fmt.Sprint(given)
	}
	if argument.kind == "bytea" || argument.kind == "text" {
		cast = "::" + argument.kind
	}
	c.values = append(c.values, value)
	c.arguments = append(c.arguments, fmt.Sprintf("%s => $%d%s", argument.name, len(c.values), cast))
	return nil
}

// statement selects columns of the result, or the whole of it as `value`.
func (c *call) statement(columns string) string {
	return fmt.Sprintf("SELECT %s FROM %s.%s(%s) AS value", columns, quote(c.schema), c.name, strings.Join(c.arguments, ", "))
}

// rows calls scan for each row.
func (c *call) rows(ctx context.Context, q Querier, columns string, scan func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, c.statement(columns), c.values...)
	if err != nil {
		return typed(err, c.schema)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return typed(rows.Err(), c.schema)
}

// row scans the one row of the result.
func (c *call) row(ctx context.Context, q Querier, columns string, places ...any) error {
	found := false
	err := c.rows(ctx, q, columns, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(places...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

func value[T any](ctx context.Context, q Querier, kind, name string, given []Option, allowed []string, required ...Option) (T, error) {
	var result T
	known, err := read(name, given, allowed...)
	if err != nil {
		return result, err
	}
	c, err := newCall(name, known, required...)
	if err != nil {
		return result, err
	}
	return result, c.row(ctx, q, "value::"+kind, &result)
}

func text(name, value string) Option         { return Option{name, "text", value} }
func bigint(name string, value int64) Option { return Option{name, "bigint", value} }
func jsonb(name string, value any) Option    { return Option{name, "jsonb", asJSON{value}} }
func bytea(name string, value []byte) Option { return Option{name, "bytea", value} }
func integer(name string, value int) Option  { return Option{name, "int", value} }
func bigints(name string, ids []int64) Option {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprint(id)
	}
	return Option{name, "bigint[]", "{" + strings.Join(parts, ",") + "}"}
}
