package idem

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// HeldLock is a lease lock that is renewed while it is held: docs/locks.md.
type HeldLock struct {
	Name, Scope string
	// Fence: call AssertFence in each transaction that writes, and give it to other systems, which refuse a smaller one than the greatest they have seen.
	Fence  int64
	db     *sql.DB
	schema Option
	holder *holder
	ctx    context.Context
	cancel context.CancelFunc
	land   func() // until then, other callers in this process wait without a question
}

// Context ends when the lock is lost, or the caller's context does.
func (l *HeldLock) Context() context.Context { return l.ctx }

// Unlock frees the lock.
func (l *HeldLock) Unlock() error {
	l.holder.end((*term).returned)
	l.cancel()
	defer l.land()
	_, err := value[bool](context.Background(), l.db, "boolean", "idem_unlock", []Option{Scope(l.Scope), l.schema}, []string{"scope"},
		text("name", l.Name), bigint("fence", l.Fence))
	return err
}

// Lock holds a lock, and renews it every third of its lease. A caller that waits holds no connection.
// Options: Scope, LeaseFor (default: 30 s), Wait (default: not at all), Schema. Error: ErrLockBusy.
func Lock(ctx context.Context, db *sql.DB, name string, given ...Option) (*HeldLock, error) {
	known, err := read("Lock", given, "scope", "lease", "wait")
	if err != nil {
		return nil, err
	}
	length := known.duration("lease", defaultLease)
	l := &HeldLock{Name: name, Scope: known.text("scope"), db: db, schema: Schema(known.schema())}
	// An owner gets its lock again when the answer to its first call was lost.
	take := []Option{LeaseFor(length), Owner(newOwner()), Scope(l.Scope), l.schema}
	var fence sql.NullInt64
	ask := func() (bool, time.Duration, error) {
		l.holder = nil
		_, err := persist(ctx, func() error {
			connection, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer connection.Close()
			if l.holder == nil {
				l.holder = newHolder(length, l.renew(length))
			}
			fence, err = value[sql.NullInt64](ctx, connection, "bigint", "idem_lock", take, []string{"lease", "owner", "scope"}, text("name", name))
			return err
		})
		l.Fence = fence.Int64
		return !fence.Valid, 0, err
	}
	land, err := inFlight.fly(ctx, flightKey{db, "lock", known.schema(), l.Scope, name}, known.duration("wait", 0), ask)
	if err != nil {
		return nil, err
	}
	l.land = land
	if !fence.Valid {
		land()
		return nil, newError(ErrLockBusy, fmt.Sprintf("lock %q is held by another caller", name), nil)
	}
	if !l.holder.begin() {
		land()
		return nil, newError(ErrLockBusy, fmt.Sprintf("lock %q was granted too late", name), nil)
	}
	l.ctx, l.cancel = l.holder.under(ctx)
	return l, nil
}

func (l *HeldLock) renew(length time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		isHeld, err := value[bool](ctx, l.db, "boolean", "idem_lock_renew", []Option{LeaseFor(length), Scope(l.Scope), l.schema},
			[]string{"lease", "scope"}, text("name", l.Name), bigint("fence", l.Fence))
		if err == nil && !isHeld {
			return newError(ErrStaleFence, "the lock has passed to another holder", nil)
		}
		return err
	}
}
