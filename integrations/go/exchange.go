package idem

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// leased claims under a lease and commits that, runs outside of a transaction, and stores the response under the fence. When the handler fails, the key is
// released. Its steps stay, so the next attempt knows what was done outside.
func (run *runner) leased() {
	m, call := run.m, run.call
	ctx := detached{run.r.Context()}
	if call.field == nil && m.KeyOptional {
		run.unkeyed(ctx)
		return
	}
	var (
		a answer
		h *holder
	)
	field := ""
	if call.field != nil {
		field = *call.field
	}
	ask := func() (bool, time.Duration, error) {
		connection, err := m.db.Conn(ctx)
		if err != nil {
			return false, 0, err
		}
		defer connection.Close()
		// The term begins where the claim is sent, not where it waits for a connection of the pool.
		h = newHolder(m.Lease, func(ctx context.Context) error {
			return Renew(ctx, m.db, call.key, a.fence, LeaseFor(m.Lease), Scope(call.scope), Schema(m.Schema))
		})
		tx, err := connection.BeginTx(ctx, nil)
		if err != nil {
			return false, 0, err
		}
		defer tx.Rollback()
		if a, err = m.begin(ctx, tx, call, m.Lease, 0, m.TTL); err != nil {
			return false, 0, err
		}
		return a.code == "in_flight", retryAfterOf(a.response), tx.Commit()
	}
	land := func() {}
	err := error(nil)
	if call.field == nil {
		_, _, err = ask()
	} else {
		land, err = inFlight.fly(run.r.Context(), flightKey{m.db, "http", m.Schema, call.scope, field}, m.Wait, ask)
	}
	if err != nil {
		if run.r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client has left while it waited
		}
		run.send(m.claimFailed(call, err))
		return
	}
	defer land()
	if a.action != "run" {
		run.outcome.Outcome = a.action
		run.send(a.response)
		return
	}
	if a.fence == 0 { // without a key there is nothing to hold
		run.unkeyed(ctx)
		return
	}
	run.outcome.Fence = a.fence
	if !h.begin() {
		m.log(call, "the lease ran out before the work began", nil)
		run.send(leaseLost())
		return
	}
	x := &Exchange{Scope: call.scope, Key: call.key, Fence: a.fence, middleware: m, call: call, holder: h}
	below, cancel := h.under(ctx)
	defer cancel()
	run.handle(below, x, func(own *response) *response { return m.settleLeased(ctx, x, own) })
}

func retryAfterOf(own *response) time.Duration {
	if own == nil {
		return 0
	}
	d, _ := time.ParseDuration(own.header.Get("Retry-After") + "s")
	return d
}

func (run *runner) unkeyed(ctx context.Context) {
	x := &Exchange{Scope: run.call.scope, middleware: run.m, call: run.call}
	run.handle(ctx, x, func(own *response) *response {
		if x.failure != nil {
			return run.m.ofFailure(x)
		}
		return nil
	})
}

func (m *middleware) claimFailed(call *request, err error) *response {
	if isSerialization(err) {
		return serializationFailure()
	}
	m.log(call, "begin failed", err)
	if isUnavailable(err) {
		return unavailable()
	}
	return internalError("")
}

func (m *middleware) settleLeased(ctx context.Context, x *Exchange, own *response) *response {
	if x.isReleased {
		if x.failure != nil {
			return m.ofFailure(x)
		}
		return nil
	}
	if x.failure != nil {
		isLost := x.holder.isLost()
		isKept := x.work != nil && x.work.isKept
		switch {
		case x.holder.end((*term).threw) != "release" || isKept:
		case isLost: // the fence tells whether another request has it
			Release(ctx, m.db, x.Key, Fence(x.Fence), Scope(x.Scope), Schema(m.Schema))
		default:
			m.tryRelease(ctx, x)
		}
		if isLost && (errors.Is(x.failure, context.Canceled) || errors.Is(x.failure, ErrLeaseLost)) {
			m.log(x.call, "the lease ran out while the handler worked", x.failure)
			return leaseLost()
		}
		return m.ofFailure(x)
	}
	// The key of work whose response cannot be stored is kept: a repetition would do the work again.
	ask := x.holder.end((*term).returned)
	if refusal := m.refused(x.call, own); refusal != nil {
		return refusal
	}
	if ask != "complete" {
		return leaseLost()
	}
	return m.store(ctx, x, own)
}

func (m *middleware) tryRelease(ctx context.Context, x *Exchange) {
	if err := Release(ctx, m.db, x.Key, Fence(x.Fence), Scope(x.Scope), Schema(m.Schema)); err != nil {
		m.log(x.call, "the key could not be released; its lease will end", err)
	}
}

var errUnstored = errors.New("the scope does not store the status")

// store repeats the completion of the same response where its connection was lost.
func (m *middleware) store(ctx context.Context, x *Exchange, own *response) *response {
	wasCommitting := false
	var failure error
	for _, sleep := range append([]time.Duration{0}, lookups...) {
		time.Sleep(sleep)
		acts := x.acts
		// A COMMIT that was lost may have done the work of WithResponse: the fence is still good only if it has not.
		if wasCommitting && len(acts) > 0 && !m.isHeld(ctx, x) {
			acts = nil
		}
		stored, isCommitting, err := m.storeOnce(ctx, x, own, acts)
		switch {
		case err == errUnstored:
			m.tryRelease(ctx, x)
			return nil
		case err == nil:
			if stored == "omitted" {
				m.warnOmitted(x.call)
			}
			return nil
		}
		failure = err
		wasCommitting = wasCommitting || isCommitting
		if isDefinite(err) || !isUnavailable(err) {
			break
		}
	}
	m.log(x.call, "the response of leased work could not be stored", failure)
	const detail = "The response could not be stored. Repeat the request with the same key."
	switch {
	case errors.Is(failure, ErrStaleFence):
		return leaseLost()
	case isSerialization(failure):
		return retryLater("serialization_failure", detail)
	case isDefinite(failure) && !isUnavailable(failure):
		return internalError("")
	case wasCommitting:
		return retryLater("commit_unknown", detail)
	}
	return retryLater("unavailable", detail)
}

func (m *middleware) storeOnce(ctx context.Context, x *Exchange, own *response, acts []func(context.Context, *sql.Tx) error) (stored string, isCommitting bool, err error) {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return "", false, err
	}
	defer tx.Rollback()
	for _, act := range acts {
		if err := act(ctx, tx); err != nil {
			return "", false, err
		}
	}
	if stored, err = m.complete(ctx, tx, x.call, own, x.Fence); err != nil {
		return "", false, err
	}
	if stored == "released" {
		return "", false, errUnstored
	}
	return stored, true, tx.Commit()
}

// isHeld is true also where that cannot be told: then the completion, which waits for the lost transaction, fails in the same way.
func (m *middleware) isHeld(ctx context.Context, x *Exchange) bool {
	return !errors.Is(Renew(ctx, m.db, x.Key, x.Fence, LeaseFor(m.Lease), Scope(x.Scope), Schema(m.Schema)), ErrStaleFence)
}

// WithResponse runs act in the transaction that stores the response, in leased mode: the rows and the response commit together, or neither does.
func (x *Exchange) WithResponse(act func(context.Context, *sql.Tx) error) {
	x.acts = append(x.acts, act)
}

// Work is the view of the lease that Step and Write take, in leased mode. Its first call reads the steps of attempts so far.
func (x *Exchange) Work(ctx context.Context) (*Work, error) {
	if x.holder == nil {
		return nil, errors.New("idem: Work is for leased mode: set Options.Lease")
	}
	if x.work != nil {
		return x.work, nil
	}
	w := &Work{
		Key: x.Key, Scope: x.Scope, Fence: x.Fence, steps: map[string]json.RawMessage{}, db: x.middleware.db, schema: Schema(x.middleware.Schema), holder: x.holder,
	}
	c, err := newCall("idem_lookup", options{"scope": Scope(x.Scope), "schema": w.schema}, text("key", x.Key))
	if err != nil {
		return nil, err
	}
	err = c.rows(ctx, w.db, "attempt, coalesce(steps::text, '{}')", func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&w.Attempt, &text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &w.steps)
	})
	if err == nil {
		x.work = w
	}
	return x.work, err
}

// Release gives the key of leased work back. The handler's response is sent, and not stored.
func (x *Exchange) Release(ctx context.Context) error {
	if x.isReleased {
		return nil
	}
	x.holder.end((*term).threw)
	err := Release(ctx, x.middleware.db, x.Key, Fence(x.Fence), Scope(x.Scope), Schema(x.middleware.Schema))
	x.isReleased = err == nil
	return err
}

func newBody(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }
