package idem

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"
)

// lookups of a COMMIT whose answer was lost. The server may take a moment to notice that, and to end the transaction if it had not committed.
var lookups = []time.Duration{0, 200 * time.Millisecond, 800 * time.Millisecond}

// runner runs one request.
type runner struct {
	m       *middleware
	call    *request
	w       http.ResponseWriter
	r       *http.Request
	outcome *Outcome
	send    func(*response)
}

// transactional claims, runs and completes in one transaction.
func (run *runner) transactional() {
	m, call := run.m, run.call
	// The transaction and the work outlive the client.
	ctx := detached{run.r.Context()}
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		run.send(m.afterError(ctx, call, "begin", nil, err))
		return
	}
	defer tx.Rollback()
	if call.field != nil || !m.KeyOptional {
		a, err := m.begin(ctx, tx, call, 0, m.Wait, m.TTL)
		if err != nil {
			tx.Rollback()
			run.send(m.afterError(ctx, call, "begin", nil, err))
			return
		}
		if a.action != "run" {
			run.outcome.Outcome = a.action
			if a.code == "in_doubt" { // COMMIT records the doubt
				err = tx.Commit()
			} else {
				tx.Rollback()
			}
			if err != nil {
				a.response = m.afterError(ctx, call, "begin", nil, err)
			}
			run.send(a.response)
			return
		}
	}
	x := &Exchange{Scope: call.scope, Key: call.key, Tx: tx, middleware: m, call: call}
	run.handle(ctx, x, func(own *response) *response {
		refusal := m.settle(ctx, x, own)
		tx.Rollback()
		return refusal
	})
}

// handle calls the handler, and sends what becomes of its response.
func (run *runner) handle(ctx context.Context, x *Exchange, settle func(*response) *response) {
	c := newCapture(run.w, run.m.MaxResponse, func(own *response) *response {
		refusal := settle(own)
		for name, values := range run.call.added {
			if own.header[name] == nil {
				own.header[name] = values
			}
		}
		return refusal
	})
	run.outcome.Outcome = "run"
	r := run.r.WithContext(context.WithValue(ctx, exchangeKey{}, x))
	r.Body, r.ContentLength = newBody(run.call.body), int64(len(run.call.body))
	isDone := false
	defer func() {
		if !isDone && !c.isOver { // a panic, which goes on
			x.failure = errors.New("the handler has panicked")
			c.isOver = true
			settle(&response{status: http.StatusInternalServerError, header: http.Header{}})
		}
	}()
	run.m.next.ServeHTTP(c, r)
	isDone = true
	c.end(false)
	run.outcome.Err = x.failure
	run.outcome.Status = c.status
	if c.refusal != nil {
		run.send(c.refusal)
	}
}

// settle completes and commits. It returns the response that takes the place of the handler's, if one does.
func (m *middleware) settle(ctx context.Context, x *Exchange, own *response) *response {
	if x.failure != nil {
		return m.ofFailure(x)
	}
	if refusal := m.refused(x.call, own); refusal != nil {
		return refusal
	}
	stored, err := m.complete(ctx, x.Tx, x.call, own, 0)
	if err != nil {
		x.Tx.Rollback()
		return m.afterError(ctx, x.call, "complete", own, err)
	}
	if stored == "omitted" {
		if m.RollBackOversize {
			m.log(x.call, "the response is too large to be stored, and was rolled back", nil)
			return tooLarge()
		}
		m.warnOmitted(x.call)
	}
	if err := x.Tx.Commit(); err != nil {
		return m.afterError(ctx, x.call, "commit", own, err)
	}
	return nil
}

func (m *middleware) warnOmitted(call *request) {
	m.log(call, "the response was sent and not stored, because it is too large: a repetition gets its status without the body", nil)
}

// ofFailure: the client may repeat a failure of the database. Another one is answered by the handler.
func (m *middleware) ofFailure(x *Exchange) *response {
	if isSerialization(x.failure) {
		return serializationFailure()
	}
	if isLost(x.failure) {
		m.log(x.call, "the connection was lost", x.failure)
		return unavailable()
	}
	var with *StatusError
	if !errors.As(x.failure, &with) || with.Status >= 500 {
		m.log(x.call, "the handler has failed", x.failure)
	}
	return nil
}

// refused is a response that must not be stored.
func (m *middleware) refused(call *request, own *response) *response {
	if encoding := own.header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		const detail = "compression belongs outside of the middleware"
		m.log(call, "the response has Content-Encoding: "+encoding+"; "+detail, nil)
		return problem(http.StatusInternalServerError, "response_encoded", detail+".")
	}
	if own.isLarge && m.RollBackOversize {
		m.log(call, "the response is too large to be stored, and was rolled back", nil)
		return tooLarge()
	}
	return nil
}

// afterError returns nil if the handler's own response is to be sent.
func (m *middleware) afterError(ctx context.Context, call *request, stage string, own *response, err error) *response {
	if isSerialization(err) {
		return serializationFailure()
	}
	state := sqlState(err)
	// One of the scope's unstored_statuses; or the handler has caught the error of a statement and answered it. Nothing was done.
	if stage == "complete" && (state == "25000" || state == "25P02" && own.status >= 400) {
		return nil
	}
	m.log(call, stage+" failed", err)
	if isRolledBack(err) {
		return problem(http.StatusInternalServerError, "rolled_back", "The transaction was rolled back. Nothing was done.")
	}
	if stage == "complete" && (state == "ID001" || errors.Is(err, sql.ErrTxDone)) {
		return internalError("The handler has ended the transaction by itself, so its work may have been committed. The response was not stored.")
	}
	if stage == "commit" && !isDefinite(err) {
		return m.findCommitted(ctx, call)
	}
	if isUnavailable(err) {
		return unavailable()
	}
	return internalError("")
}

// findCommitted: the connection was lost in COMMIT.
func (m *middleware) findCommitted(ctx context.Context, call *request) *response {
	if !call.isKeyed {
		return problem(http.StatusInternalServerError, "commit_unknown",
			"The connection to the database was lost in COMMIT. The request may or may not have been processed.")
	}
	for _, sleep := range lookups {
		time.Sleep(sleep)
		switch m.lookUp(ctx, call) {
		case "replay":
			return nil
		case "run":
			return retryLater("not_committed", "The connection to the database was lost in COMMIT, which did not happen. Nothing was done.")
		}
	}
	return retryLater("commit_unknown", "The connection to the database was lost in COMMIT. Repeat the request with the same key.")
}

func (m *middleware) lookUp(ctx context.Context, call *request) string {
	tx, err := m.db.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback()
		again, added := *call, call.added
		var a answer
		if a, err = m.begin(ctx, tx, &again, 0, 0, 0); err == nil {
			call.added = added
			return a.action
		}
	}
	m.log(call, "could not look up the outcome of COMMIT", err)
	return ""
}
