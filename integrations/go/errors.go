package idem

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"time"
)

// What went wrong, for errors.Is. The error itself is an *Error.
var (
	// ErrStaleFence is ID001: the key or lock is no longer held with this fence. Roll back.
	ErrStaleFence = errors.New("stale fence")
	// ErrInvalidTransition is ID003: a transition that the state machine does not have.
	ErrInvalidTransition = errors.New("invalid transition")
	// ErrStaleVersion is ID004: the row has another version than the one that was read.
	ErrStaleVersion = errors.New("stale version")
	// ErrInFlight is ID005: the key is in flight or in doubt. Error.RetryAfter says when a retry is worthwhile, if that is known.
	ErrInFlight = errors.New("in flight")
	// ErrAlreadyDone is ID006: the key was claimed before.
	ErrAlreadyDone = errors.New("already done")
	// ErrMismatch: the key was used with another fingerprint.
	ErrMismatch = errors.New("mismatch")
	// ErrInDoubt: an earlier attempt may have done the work, and an operator decides. Error.Step is the step that is in doubt, if one is.
	ErrInDoubt = errors.New("in doubt")
	// ErrLeaseLost: the lease has passed to another attempt, or ran out.
	ErrLeaseLost = errors.New("lease lost")
	// ErrLockBusy: another caller has the lock.
	ErrLockBusy = errors.New("lock busy")
	// ErrCommitUnknown: the connection was lost in COMMIT, and it is not known whether it succeeded.
	ErrCommitUnknown = errors.New("commit unknown")
	// ErrOutputNotStored: the work has run, and its output cannot be stored. The key is kept, so that no retry repeats the work while the lease lasts.
	ErrOutputNotStored = errors.New("output not stored")
	// ErrNotInstalled: the schema has no idem, or an older one than this package.
	ErrNotInstalled = errors.New("idem is not installed")
)

// Error is an error of idem. errors.Is tells its kind, errors.As finds the driver's error in it.
type Error struct {
	Kind       error         // one of the variables above
	SQLState   string        // the server's, if it raised the error
	RetryAfter time.Duration // of ErrInFlight; 0: not known
	Step       string        // of ErrInDoubt; empty: the key
	message    string
	cause      error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return "idem: " + e.message
	}
	return "idem: " + e.message + ": " + e.cause.Error()
}

func (e *Error) Is(target error) bool { return target == e.Kind }

func (e *Error) Unwrap() error { return e.cause }

func newError(kind error, message string, cause error) *Error {
	return &Error{Kind: kind, SQLState: sqlState(cause), message: message, cause: cause}
}

var kinds = map[string]error{
	"ID001": ErrStaleFence, "ID003": ErrInvalidTransition, "ID004": ErrStaleVersion, "ID005": ErrInFlight, "ID006": ErrAlreadyDone,
}

// sqlState is the SQLSTATE of a driver's error: lib/pq and pgx have this method. Empty if the server sent none.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// typed makes an error of a call of idem one of the kinds above, if it is idem's own or says that idem is not there.
func typed(err error, schema string) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	state := sqlState(err)
	if kind, ok := kinds[state]; ok {
		return newError(kind, kind.Error(), err)
	}
	// The work's own SQL, in Execute, may miss another schema or function.
	if state == "3F000" && strings.Contains(err.Error(), schema) || state == "42883" && strings.Contains(err.Error(), "idem_") {
		return newError(ErrNotInstalled, "idem is not installed in schema "+schema+", or is older than this package; call idem.Install", err)
	}
	return err
}

// A serialization failure or a deadlock: the same transaction may succeed when it is run again.
func isSerialization(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}

// COMMIT was answered by ROLLBACK: what lib/pq and pgx say then.
func isRolledBack(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "unexpected command tag ROLLBACK") || strings.Contains(text, "commit unexpectedly resulted in rollback") ||
		strings.Contains(text, "Could not complete operation in a failed transaction")
}

// The caller's context or its transaction has ended, before anything was sent.
func isCallers(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrTxDone)
}

// The server said that the transaction failed. Otherwise the connection was lost, and a COMMIT may have succeeded.
func isDefinite(err error) bool {
	state := sqlState(err)
	return isRolledBack(err) || state != "" && !strings.HasPrefix(state, "08") && !strings.HasPrefix(state, "57P")
}

// The server is gone, full, starting, or read only: the same call may succeed later. For errors of this package's own statements.
func isUnavailable(err error) bool {
	state := sqlState(err)
	if state == "" {
		return !isRolledBack(err) && !isCallers(err)
	}
	return state == "25006" || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57P")
}

// The connection was lost: the same for an error of a handler, which has errors of its own.
func isLost(err error) bool {
	state := sqlState(err)
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P")
}
