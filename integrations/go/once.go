package idem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand"
	"time"
)

// Result of Once and Leased.
type Result[T any] struct {
	Value    T
	Replayed bool // the work was done before
	Omitted  bool // the value was too large to be stored, or was removed: a replay has none
	Stored   bool
	Attempt  int // of Leased: 1 the first time
}

const defaultWait = 10 * time.Second

// Once runs the work once for a key: claim, work and result in one transaction. A repetition gets the stored value, which has passed through encoding/json.
//
// A serialization failure, or a connection that is lost before COMMIT, runs the work again in a new transaction. When the connection is lost in COMMIT, the
// next claim finds out. Use tx alone: what another connection writes is not protected.
//
// Options: Scope, Fingerprint, TTL, Wait (default: 10 s), Attempts, Schema. Errors: the work's; ErrInFlight, ErrMismatch, ErrInDoubt, ErrCommitUnknown.
func Once[T any](ctx context.Context, db *sql.DB, key string, work func(ctx context.Context, tx *sql.Tx) (T, error), given ...Option) (Result[T], error) {
	var result Result[T]
	known, err := read("Once", given, "scope", "fingerprint", "ttl", "wait", "attempts")
	if err != nil {
		return result, err
	}
	wait, attempts := known.duration("wait", defaultWait), 4
	if option, ok := known["attempts"]; ok {
		attempts = option.value.(int)
	}
	until := now() + wait
	wasCommitting := false
	for attempt := 1; ; attempt++ {
		var (
			stage string
			err   error
		)
		flight := flightKey{db, "once", known.schema(), known.text("scope"), key}
		land, waited := inFlight.fly(ctx, flight, atLeastZero(until-now()), func() (bool, time.Duration, error) {
			result, stage, err = attemptOnce(ctx, db, key, known, work)
			// What another process holds is asked again and again, so that no waiter keeps a connection.
			var own *Error
			isBusy := stage == "begin" && errors.Is(err, ErrInFlight) && errors.As(err, &own)
			if isBusy {
				return true, own.RetryAfter, nil
			}
			return false, 0, nil
		})
		if waited != nil {
			return result, waited
		}
		land()
		if err == nil {
			return result, nil
		}
		wasCommitting = wasCommitting || stage == "commit" && !isDefinite(err)
		isAgain := isSerialization(err) || stage == "run" && isLost(err) || stage != "run" && isUnavailable(err)
		var own *Error
		if errors.As(err, &own) || ctx.Err() != nil || !isAgain || attempt >= attempts {
			if wasCommitting && own == nil && !isDefinite(err) {
				err = newError(ErrCommitUnknown, fmt.Sprintf("the connection was lost in the COMMIT of key %q", key), err)
			}
			return result, err
		}
		sleep := 100 * time.Millisecond << attempt
		if isSerialization(err) {
			sleep = time.Duration(rand.Int63n(int64(20*time.Millisecond) * int64(attempt)))
		}
		if err := pause(ctx, sleep, nil); err != nil {
			return result, err
		}
	}
}

func atLeastZero(d time.Duration) time.Duration {
	if d < 0 {
		return 0
	}
	return d
}

func attemptOnce[T any](ctx context.Context, db *sql.DB, key string, known options, work func(context.Context, *sql.Tx) (T, error)) (
	result Result[T], stage string, err error) {
	schema := Schema(known.schema())
	stage = "begin"
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return result, stage, err
	}
	defer tx.Rollback()
	ticket, err := Begin(ctx, tx, key, known.without("wait", "attempts")...)
	if err != nil {
		return result, stage, err
	}
	if ticket.Outcome == "completed" {
		result, err = replayed[T](ticket)
		return result, stage, err
	}
	if ticket.Outcome == "in_doubt" { // COMMIT records the doubt
		if err := tx.Commit(); err != nil {
			return result, stage, err
		}
	}
	if ticket.Outcome != "acquired" {
		return result, stage, refused(ticket, key)
	}
	stage = "run"
	if result.Value, err = work(ctx, tx); err != nil {
		return result, stage, err
	}
	stage = "complete"
	packed, err := pack(result.Value)
	if err != nil {
		return result, stage, err
	}
	finish := []Option{Response(packed), schema}
	if scope, ok := known["scope"]; ok {
		finish = append(finish, scope)
	}
	result.Stored, err = Complete(ctx, tx, key, finish...)
	if err != nil {
		return result, stage, err
	}
	result.Omitted = !result.Stored
	stage = "commit"
	return result, stage, tx.Commit()
}

func replayed[T any](ticket Ticket) (Result[T], error) {
	result := Result[T]{Replayed: true, Omitted: ticket.ResponseOmitted, Stored: !ticket.ResponseOmitted, Attempt: ticket.Attempt}
	return result, unpack(ticket.Response, &result.Value)
}

// refused is what a ticket says that is neither new nor completed.
func refused(ticket Ticket, key string) error {
	switch ticket.Outcome {
	case "mismatch":
		return newError(ErrMismatch, fmt.Sprintf("key %q was used with another fingerprint", key), nil)
	case "in_doubt":
		return newError(ErrInDoubt, fmt.Sprintf("key %q is in doubt: an earlier attempt may have done its work", key), nil)
	}
	err := newError(ErrInFlight, fmt.Sprintf("key %q is in flight", key), nil)
	err.RetryAfter = ticket.RetryAfter
	return err
}
