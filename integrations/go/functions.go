package idem

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"time"
)

// Ticket is the answer of Begin and Execute.
type Ticket struct {
	Outcome         string // acquired, taken_over, completed, in_flight, in_doubt or mismatch
	Fence           int64
	Attempt         int
	StatusCode      int             // 0: none
	Response        json.RawMessage // nil: none
	ResponseOmitted bool
	Steps           map[string]json.RawMessage // null: intended
	RetryAfter      time.Duration              // of in_flight; 0: not known
}

const ticketColumns = `outcome::text, coalesce(fence, 0)::bigint, coalesce(attempt, 0)::int, coalesce(status_code, 0)::int, response::text,
	coalesce(response_omitted, false), steps::text, coalesce(retry_after_ms, 0)::int`

func (c *call) ticket(ctx context.Context, q Querier) (Ticket, error) {
	var (
		t               Ticket
		response, steps sql.NullString
		ms              int64
	)
	if err := c.row(ctx, q, ticketColumns, &t.Outcome, &t.Fence, &t.Attempt, &t.StatusCode, &response, &t.ResponseOmitted, &steps, &ms); err != nil {
		return t, err
	}
	t.RetryAfter = time.Duration(ms) * time.Millisecond
	if response.Valid {
		t.Response = json.RawMessage(response.String)
	}
	if steps.Valid {
		return t, json.Unmarshal([]byte(steps.String), &t.Steps)
	}
	return t, nil
}

// Claim claims a key for this transaction. True: the key is new; do the work, and the commit completes the key. False: the work of this key has committed, or
// this transaction has claimed it before. It waits for an uncommitted holder. On a *sql.DB it means at most once: the key is done when the call returns.
// Options: TTL, Scope. Errors: ErrInFlight: the key is leased or in doubt.
func Claim(ctx context.Context, q Querier, key string, given ...Option) (bool, error) {
	return value[bool](ctx, q, "boolean", "idem_claim", given, []string{"ttl", "scope"}, text("key", key))
}

// MustClaim is Claim, but a duplicate is ErrAlreadyDone.
func MustClaim(ctx context.Context, q Querier, key string, given ...Option) error {
	_, err := value[bool](ctx, q, "boolean", "idem_must_claim", given, []string{"ttl", "scope"}, text("key", key))
	return err
}

// TryClaim is Claim that never waits: acquired, completed, in_flight, in_doubt. Options: TTL, Scope.
func TryClaim(ctx context.Context, q Querier, key string, given ...Option) (string, error) {
	return value[string](ctx, q, "text", "idem_try_claim", given, []string{"ttl", "scope"}, text("key", key))
}

// Begin claims a key, and returns a ticket. Once and Leased call it. Options: Fingerprint, TTL, LeaseFor, Owner, Wait, Scope.
func Begin(ctx context.Context, q Querier, key string, given ...Option) (Ticket, error) {
	known, err := read("Begin", given, "fingerprint", "ttl", "lease", "owner", "wait", "scope")
	if err != nil {
		return Ticket{}, err
	}
	c, err := newCall("idem_begin", known, text("key", key))
	if err != nil {
		return Ticket{}, err
	}
	return c.ticket(ctx, q)
}

// Complete completes a leased key, or attaches a response to this transaction's own claim. False: the response was too large and is not stored.
// Options: Response, StatusCode, Fence, Scope.
func Complete(ctx context.Context, q Querier, key string, given ...Option) (bool, error) {
	return value[bool](ctx, q, "boolean", "idem_complete", given, []string{"response", "status_code", "fence", "scope"}, text("key", key))
}

// Release gives a leased key back without a result. Options: Fence (without it, this transaction's own claim), Scope.
func Release(ctx context.Context, q Querier, key string, given ...Option) error {
	_, err := value[bool](ctx, q, "boolean", "idem_release", given, []string{"fence", "scope"}, text("key", key))
	return err
}

// Renew starts the lease of a key again. Options: LeaseFor, Scope.
func Renew(ctx context.Context, q Querier, key string, fence int64, given ...Option) error {
	_, err := value[string](ctx, q, "text", "idem_renew", given, []string{"lease", "scope"}, text("key", key), bigint("fence", fence))
	return err
}

// Execute runs one statement once for a key, in one round trip; a repetition gets its rows. args are the statement's parameters. Options: Fingerprint, TTL,
// Scope.
func Execute(ctx context.Context, q Querier, key, statement string, args []any, given ...Option) (Ticket, error) {
	known, err := read("Execute", given, "fingerprint", "ttl", "scope")
	if err != nil {
		return Ticket{}, err
	}
	if args == nil {
		args = []any{}
	}
	c, err := newCall("idem_execute", known, text("key", key), text("statement", statement), jsonb("args", args))
	if err != nil {
		return Ticket{}, err
	}
	return c.ticket(ctx, q)
}

// Serialize lets other calls with the same key wait until this transaction ends. Option: Scope.
func Serialize(ctx context.Context, q Querier, key string, given ...Option) error {
	_, err := value[bool](ctx, q, "boolean", "idem_serialize", given, []string{"scope"}, text("key", key))
	return err
}

// AssertFence checks that a lock is held with this fence, and keeps it held until this transaction ends. Option: Scope. Error: ErrStaleFence.
func AssertFence(ctx context.Context, q Querier, name string, fence int64, given ...Option) error {
	_, err := value[bool](ctx, q, "boolean", "idem_assert_fence", given, []string{"scope"}, text("name", name), bigint("fence", fence))
	return err
}

// Consume claims a message for a consumer, in this transaction. False: it was processed before. In both cases it may be acknowledged to the broker after the
// commit. Options: TTL, Scope (default: inbox).
func Consume(ctx context.Context, q Querier, consumer, messageID string, given ...Option) (bool, error) {
	return value[bool](ctx, q, "boolean", "idem_consume", given, []string{"ttl", "scope"}, text("consumer", consumer), text("message_id", messageID))
}

// Publish publishes a message in this transaction, and returns its id. Options: Key, Headers, Delay, DedupID.
func Publish(ctx context.Context, q Querier, topic string, payload any, given ...Option) (int64, error) {
	return value[int64](ctx, q, "bigint", "idem_publish", given, []string{"key", "headers", "delay", "dedup_id"}, text("topic", topic), jsonb("payload", payload))
}

// Message of a topic.
type Message struct {
	ID      int64
	Topic   string
	Key     string // empty: none
	Payload json.RawMessage
	Headers json.RawMessage // nil: none
	Attempt int
	Fence   int64
}

// Take leases messages of a topic, oldest first. Commit, send them, and call Ack or Nack. Options: MaxMessages, LeaseFor.
func Take(ctx context.Context, q Querier, topic string, given ...Option) ([]Message, error) {
	known, err := read("Take", given, "max_messages", "lease")
	if err != nil {
		return nil, err
	}
	c, err := newCall("idem_outbox_take", known, text("topic", topic))
	if err != nil {
		return nil, err
	}
	var messages []Message
	err = c.rows(ctx, q, "id, topic, coalesce(key, ''), payload::text, headers::text, attempt, fence", func(rows *sql.Rows) error {
		var (
			m       Message
			payload string
			headers sql.NullString
		)
		if err := rows.Scan(&m.ID, &m.Topic, &m.Key, &payload, &headers, &m.Attempt, &m.Fence); err != nil {
			return err
		}
		m.Payload = json.RawMessage(payload)
		if headers.Valid {
			m.Headers = json.RawMessage(headers.String)
		}
		messages = append(messages, m)
		return nil
	})
	return messages, err
}

// Ack deletes delivered messages, and returns how many.
func Ack(ctx context.Context, q Querier, ids []int64, fence int64, given ...Option) (int, error) {
	return value[int](ctx, q, "int", "idem_outbox_ack", given, nil, bigints("ids", ids), bigint("fence", fence))
}

// Nack gives back messages that could not be delivered, and returns how many. Option: RetryAfter.
func Nack(ctx context.Context, q Querier, ids []int64, fence int64, given ...Option) (int, error) {
	return value[int](ctx, q, "int", "idem_outbox_nack", given, []string{"retry_after"}, bigints("ids", ids), bigint("fence", fence))
}

// RenewMessages extends the lease of messages, and returns how many. Option: LeaseFor.
func RenewMessages(ctx context.Context, q Querier, ids []int64, fence int64, given ...Option) (int, error) {
	return value[int](ctx, q, "int", "idem_outbox_renew", given, []string{"lease"}, bigints("ids", ids), bigint("fence", fence))
}

// WebhookReceive verifies a webhook, and accepts it once, in this transaction: accepted, duplicate, stale or invalid, and the sender's id. body: the bytes as
// received.
func WebhookReceive(ctx context.Context, q Querier, source string, header http.Header, body []byte, given ...Option) (outcome, messageID string, err error) {
	known, err := read("WebhookReceive", given)
	if err != nil {
		return "", "", err
	}
	c, err := newCall("idem_webhook_receive", known, text("source", source), jsonb("headers", header), bytea("body", append([]byte{}, body...)))
	if err != nil {
		return "", "", err
	}
	return outcome, messageID, c.row(ctx, q, "outcome::text, coalesce(message_id, '')", &outcome, &messageID)
}

// Allow takes units from the token bucket of this name, which holds burst units and regains rate units a second; or none, and then says when to come again.
// Call it on a *sql.DB. Options: Cost, Scope.
func Allow(ctx context.Context, q Querier, name string, rate float64, burst int, given ...Option) (allowed bool, retryAfter time.Duration, err error) {
	known, err := read("Allow", given, "cost", "scope")
	if err != nil {
		return false, 0, err
	}
	c, err := newCall("idem_allow", known, text("name", name), Option{"rate", "float8", rate}, integer("burst", burst))
	if err != nil {
		return false, 0, err
	}
	var ms int64
	err = c.row(ctx, q, "allowed, coalesce(retry_after_ms, 0)::bigint", &allowed, &ms)
	return allowed, time.Duration(ms) * time.Millisecond, err
}

// Transition moves the row with this key from one state to another, as the state machine of its table allows. from empty: any state.
// outcome: moved, already, conflict, not_allowed or not_found. Option: StateColumn.
func Transition(ctx context.Context, q Querier, table string, key map[string]any, from, to string, given ...Option) (outcome, state string, err error) {
	known, err := read("Transition", given, "state_column")
	if err != nil {
		return "", "", err
	}
	fromState := Option{"from_state", "text", from}
	if from == "" {
		fromState.value = nil
	}
	c, err := newCall("idem_transition", known, Option{"target", "regclass", table}, jsonb("key", key), fromState, text("to_state", to))
	if err != nil {
		return "", "", err
	}
	return outcome, state, c.row(ctx, q, "outcome, coalesce(state, '')", &outcome, &state)
}

// NextID returns a number that is greater than all before it. Option: Schema.
func NextID(ctx context.Context, q Querier, given ...Option) (int64, error) {
	return value[int64](ctx, q, "bigint", "idem_next_id", given, nil)
}
