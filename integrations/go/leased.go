package idem

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const defaultLease = 30 * time.Second

// Work is what the work of Leased has of its lease.
type Work struct {
	Key, Scope string
	Fence      int64
	Attempt    int
	steps      map[string]json.RawMessage // null: intended
	db         *sql.DB
	schema     Option
	holder     *holder
	isKept     bool // an act has run whose output is not stored, or a step is in doubt
}

// Gate is what an act of a step gives to the system outside.
type Gate struct {
	Key   string // scope/key/step: the key for that system
	Fence int64
}

// Fate is what a reconcile finds out about a step that an attempt before this one intended.
type Fate[T any] struct {
	what   string
	output T
}

// Done: the step was taken, and this is its output.
func Done[T any](output T) Fate[T] { return Fate[T]{"done", output} }

// NotDone: the step was not taken. It is taken now.
func NotDone[T any]() Fate[T] { return Fate[T]{what: "not done"} }

// Unknown: nobody can tell. The work ends with ErrInDoubt, and the key is kept.
func Unknown[T any]() Fate[T] { return Fate[T]{what: "unknown"} }

func newOwner() string {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes)
}

// persist repeats a call whose answer was lost. A claim of the same owner, a step and a completion change nothing the second time.
func persist(ctx context.Context, call func() error) (wasLost bool, err error) {
	for _, sleep := range []time.Duration{0, 200 * time.Millisecond, 800 * time.Millisecond, -1} {
		if err = call(); err == nil || sleep < 0 || isDefinite(err) || !isUnavailable(err) {
			return wasLost, err
		}
		wasLost = true
		if pause(ctx, sleep, nil) != nil {
			return wasLost, err
		}
	}
	return wasLost, err
}

// Leased runs work outside of a transaction, under a lease that is renewed while it runs. Its steps are not repeated by a later attempt. A repetition gets the
// stored value. The context of the work ends when the lease is lost.
//
// When the work returns an error, the key is released, and the next call runs it at once; but not if a step has run whose output could not be stored.
//
// Options: Scope, Fingerprint, TTL, Wait (default: 10 s), LeaseFor (default: 30 s), KeepOnError, Schema. Errors: the work's; ErrInFlight, ErrMismatch,
// ErrInDoubt, ErrLeaseLost, ErrCommitUnknown, ErrOutputNotStored.
func Leased[T any](ctx context.Context, db *sql.DB, key string, work func(ctx context.Context, w *Work) (T, error), given ...Option) (Result[T], error) {
	var none Result[T]
	known, err := read("Leased", given, "scope", "fingerprint", "ttl", "wait", "lease", "keep_on_error")
	if err != nil {
		return none, err
	}
	length, schema, scope := known.duration("lease", defaultLease), Schema(known.schema()), Scope(known.text("scope"))
	claim := append(known.without("wait", "keep_on_error", "lease"), LeaseFor(length), Owner(newOwner()))
	var (
		ticket Ticket
		h      *holder
	)
	ask := func() (bool, time.Duration, error) {
		h = nil
		_, err := persist(ctx, func() error {
			connection, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer connection.Close()
			// The term begins where the claim is first sent, not where it waits for a connection of the pool.
			if h == nil {
				h = newHolder(length, func(ctx context.Context) error {
					return Renew(ctx, db, key, ticket.Fence, LeaseFor(length), scope, schema)
				})
			}
			ticket, err = Begin(ctx, connection, key, claim...)
			return err
		})
		return ticket.Outcome == "in_flight", ticket.RetryAfter, err
	}
	land, err := inFlight.fly(ctx, flightKey{db, "leased", known.schema(), known.text("scope"), key}, known.duration("wait", defaultWait), ask)
	if err != nil {
		return none, err
	}
	defer land()
	switch ticket.Outcome {
	case "completed":
		return replayed[T](ticket)
	case "acquired", "taken_over":
	default:
		return none, refused(ticket, key)
	}
	if !h.begin() {
		return none, newError(ErrLeaseLost, fmt.Sprintf("the lease of key %q ran out before the work began", key), nil)
	}
	w := &Work{
		Key: key, Scope: known.text("scope"), Fence: ticket.Fence, Attempt: ticket.Attempt, steps: ticket.Steps, db: db, schema: schema, holder: h,
	}
	if w.steps == nil {
		w.steps = map[string]json.RawMessage{}
	}
	_, keeps := known["keep_on_error"]
	return runLeased(ctx, w, !keeps, work)
}

func runLeased[T any](ctx context.Context, w *Work, releases bool, work func(context.Context, *Work) (T, error)) (result Result[T], err error) {
	// The caller's context may be over, and the lease must end all the same.
	last := detached{ctx}
	fail := func() {
		if w.holder.end((*term).threw) == "release" && !w.isKept && releases {
			Release(last, w.db, w.Key, Fence(w.Fence), Scope(w.Scope), w.schema) // what is not released is retried when the lease has run out
		}
	}
	lost := func(cause error) error {
		return newError(ErrLeaseLost, fmt.Sprintf("the lease of key %q has passed to another attempt", w.Key), cause)
	}
	isDone := false
	defer func() {
		if !isDone { // a panic
			fail()
		}
	}()
	below, cancel := w.holder.under(ctx)
	defer cancel()
	result.Value, err = work(below, w)
	isDone = true
	if err != nil {
		fail()
		return result, err
	}
	if w.holder.end((*term).returned) != "complete" {
		return result, lost(nil)
	}
	result.Attempt = w.Attempt
	packed, err := pack(result.Value)
	wasLost := false
	if err == nil {
		wasLost, err = persist(last, func() (err error) {
			result.Stored, err = Complete(last, w.db, w.Key, Fence(w.Fence), Response(packed), Scope(w.Scope), w.schema)
			return err
		})
	}
	result.Omitted = !result.Stored
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, ErrStaleFence):
		return result, lost(err)
	case wasLost && !isDefinite(err):
		return result, newError(ErrCommitUnknown, fmt.Sprintf("the completion of key %q is not known to have committed", w.Key), err)
	}
	return result, newError(ErrOutputNotStored, fmt.Sprintf("the work of key %q has run, and its result could not be stored: the key is kept", w.Key), err)
}

// Step takes a step outside of the database, such as a charge, once over all attempts: the step is intended, act runs, and its output is stored. A later
// attempt gets the output. Where an attempt ended between the two, reconcile finds out whether the step was taken; nil: act runs again, with the same
// Gate.Key, which the system outside must refuse or repeat.
//
// Errors: those of act and reconcile; ErrInDoubt, ErrLeaseLost, ErrOutputNotStored.
func Step[T any](ctx context.Context, w *Work, name string, act func(context.Context, Gate) (T, error), reconcile func(context.Context, Gate) (Fate[T], error)) (T, error) {
	var output T
	intended, wasIntended := w.steps[name]
	if isOutput(intended) {
		return output, unpack(intended, &output)
	}
	if err := ctx.Err(); err != nil {
		return output, err
	}
	gate := Gate{Key: w.Scope + "/" + w.Key + "/" + name, Fence: w.Fence}
	if !wasIntended {
		if err := w.fenced(w.step(ctx, w.db, name, nil)); err != nil {
			return output, err
		}
	} else if reconcile != nil {
		found, err := reconcile(ctx, gate)
		if err != nil {
			return output, err
		}
		if found.what == "done" {
			return found.output, w.record(ctx, name, found.output)
		}
		if found.what != "not done" {
			w.isKept = true
			doubt := newError(ErrInDoubt, fmt.Sprintf("step %q of key %q is in doubt", name, w.Key), nil)
			doubt.Step = name
			return output, doubt
		}
	}
	w.steps[name] = nil
	output, err := act(ctx, gate)
	if err != nil {
		return output, err
	}
	return output, w.record(ctx, name, output)
}

// Write runs work and notes it as a step, in one transaction under the fence.
func Write[T any](ctx context.Context, w *Work, name string, work func(ctx context.Context, tx *sql.Tx) (T, error)) (T, error) {
	var output T
	if done := w.steps[name]; isOutput(done) {
		return output, unpack(done, &output)
	}
	if err := ctx.Err(); err != nil {
		return output, err
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return output, err
	}
	defer tx.Rollback()
	if output, err = work(ctx, tx); err != nil {
		return output, err
	}
	packed, err := packStep(output)
	if err != nil {
		return output, err
	}
	if err = w.fenced(w.step(ctx, tx, name, packed)); err != nil {
		return output, err
	}
	if err = tx.Commit(); err == nil {
		w.steps[name] = packed
	}
	return output, err
}

func isOutput(stored json.RawMessage) bool { return len(stored) > 0 && string(stored) != "null" }

// The JSON value null would be an intention.
func packStep(output any) (json.RawMessage, error) {
	packed, err := pack(output)
	if err == nil && string(packed) == "null" {
		packed = json.RawMessage("{}")
	}
	return packed, err
}

func (w *Work) step(ctx context.Context, q Querier, name string, output json.RawMessage) error {
	required := []Option{text("key", w.Key), bigint("fence", w.Fence), text("step", name)}
	if output != nil {
		required = append(required, jsonb("output", output))
	}
	_, err := value[bool](ctx, q, "boolean", "idem_step", []Option{Scope(w.Scope), w.schema}, []string{"scope"}, required...)
	return err
}

// From here on a retry would take the step again.
func (w *Work) record(ctx context.Context, name string, output any) error {
	last := detached{ctx}
	packed, err := packStep(output)
	if err == nil {
		_, err = persist(last, func() error { return w.fenced(w.step(last, w.db, name, packed)) })
	}
	if err != nil {
		w.isKept = true
		if errors.Is(err, ErrLeaseLost) {
			return err
		}
		return newError(ErrOutputNotStored, fmt.Sprintf("step %q of key %q has run, and its output could not be stored: the key is kept", name, w.Key), err)
	}
	w.steps[name] = packed
	return nil
}

func (w *Work) fenced(err error) error {
	if !errors.Is(err, ErrStaleFence) {
		return err
	}
	w.holder.tell((*term).stale)
	return newError(ErrLeaseLost, fmt.Sprintf("the lease of key %q has passed to another attempt", w.Key), err)
}

// detached has the values of a context, and outlives it.
type detached struct{ parent context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }
func (d detached) Value(key any) any         { return d.parent.Value(key) }
