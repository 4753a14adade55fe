package idem_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/idem"
	"example.org/idem/portable"
)

var ctx = context.Background()

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func pool(t *testing.T, most int) *sql.DB {
	db := open()
	db.SetMaxOpenConns(most)
	t.Cleanup(func() { db.Close() })
	return db
}

func inTx(t *testing.T, db *sql.DB, work func(tx *sql.Tx)) {
	t.Helper()
	tx, err := db.BeginTx(ctx, nil)
	must(t, err)
	defer tx.Rollback()
	work(tx)
	must(t, tx.Commit())
}

func orders(t *testing.T, db *sql.DB, item string) (count int) {
	t.Helper()
	must(t, db.QueryRow("SELECT count(*) FROM orders WHERE item = $1", item).Scan(&count))
	return count
}

func insert(tx *sql.Tx, item string) error {
	_, err := tx.Exec("INSERT INTO orders (item) VALUES ($1)", item)
	return err
}

func TestInstall(t *testing.T) {
	db := pool(t, 4)
	var wait sync.WaitGroup
	for i := 0; i < 3; i++ { // several pods at once
		wait.Add(1)
		go func() {
			defer wait.Done()
			if err := portable.Install(ctx, db, "other"); err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	found, err := portable.Status(ctx, db, "other")
	must(t, err)
	same(t, found, portable.State{Edition: "portable", Version: portable.Version})
	must(t, portable.Verify(ctx, db, "other"))
	claimed, err := idem.Claim(ctx, db, "k", idem.Schema("other"))
	must(t, err)
	same(t, claimed, true)
	must(t, portable.Uninstall(ctx, db, "other"))
	if err := portable.Verify(ctx, db, "other"); !errors.Is(err, idem.ErrNotInstalled) {
		t.Fatal(err)
	}
	if _, err := idem.Claim(ctx, db, "k", idem.Schema("nowhere")); !errors.Is(err, idem.ErrNotInstalled) {
		t.Fatal(err)
	}
}

// A role that may create schemas has made idem's before, with a function of the name that the package might call.
func TestInstallRunsNoCodeOfAStranger(t *testing.T) {
	db := pool(t, 2)
	for _, statement := range []string{
		"CREATE ROLE squatter", "CREATE SCHEMA taken AUTHORIZATION squatter", "CREATE TABLE ran ()", "GRANT INSERT ON ran TO public",
		`CREATE FUNCTION taken.idem_version(OUT edition text, OUT version text, OUT server text) LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.ran DEFAULT VALUES; SELECT 'portable', '1.0.0', '15' INTO edition, version, server; END $$`,
		"ALTER FUNCTION taken.idem_version() OWNER TO squatter",
	} {
		_, err := db.Exec(statement)
		must(t, err)
	}
	defer db.Exec("DROP SCHEMA taken CASCADE; DROP TABLE ran; DROP ROLE squatter")
	var state interface{ SQLState() string }
	if err := portable.Install(ctx, db, "taken"); !errors.As(err, &state) || state.SQLState() != "42501" {
		t.Fatal(err)
	}
	var count int
	must(t, db.QueryRow("SELECT count(*) FROM ran").Scan(&count))
	same(t, count, 0)
}

func TestClaims(t *testing.T) {
	db := pool(t, 2)
	inTx(t, db, func(tx *sql.Tx) {
		claimed, err := idem.Claim(ctx, tx, "c1", idem.Scope("go"), idem.TTL(time.Hour))
		must(t, err)
		same(t, claimed, true)
	})
	claimed, err := idem.Claim(ctx, db, "c1", idem.Scope("go"))
	must(t, err)
	same(t, claimed, false)
	err = idem.MustClaim(ctx, db, "c1", idem.Scope("go"))
	var own *idem.Error
	if !errors.Is(err, idem.ErrAlreadyDone) || !errors.As(err, &own) || own.SQLState != "ID006" {
		t.Fatal(err)
	}
	outcome, err := idem.TryClaim(ctx, db, "c1", idem.Scope("go"))
	must(t, err)
	same(t, outcome, "completed")
	if _, err := idem.Claim(ctx, db, "c1", idem.LeaseFor(time.Second)); err == nil || err.Error() != `idem: idem_claim has no option "lease"` {
		t.Fatal(err)
	}
	ticket, err := idem.Begin(ctx, db, "c2", idem.LeaseFor(time.Minute), idem.Scope("go"))
	must(t, err)
	same(t, ticket.Outcome, "acquired")
	must(t, idem.Renew(ctx, db, "c2", ticket.Fence, idem.LeaseFor(time.Minute), idem.Scope("go")))
	stored, err := idem.Complete(ctx, db, "c2", idem.Fence(ticket.Fence), idem.Response(map[string]int{"id": 7}), idem.StatusCode(201), idem.Scope("go"))
	must(t, err)
	same(t, stored, true)
	ticket, err = idem.Begin(ctx, db, "c2", idem.LeaseFor(time.Minute), idem.Scope("go"))
	must(t, err)
	same(t, fmt.Sprint(ticket.Outcome, ticket.StatusCode, string(ticket.Response)), `completed201{"id": 7}`)
	if err := idem.Release(ctx, db, "c2", idem.Fence(ticket.Fence+1), idem.Scope("go")); !errors.Is(err, idem.ErrStaleFence) {
		t.Fatal(err)
	}
	for i := 0; i < 2; i++ {
		ticket, err = idem.Execute(ctx, db, "c3", "INSERT INTO orders (item) VALUES ($1) RETURNING item", []any{"executed"}, idem.Scope("go"))
		must(t, err)
		same(t, string(ticket.Response), `[{"item": "executed"}]`)
	}
	same(t, orders(t, db, "executed"), 1)
}

func TestOnce(t *testing.T) {
	db := pool(t, 3)
	var ran int32
	work := func(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
		atomic.AddInt32(&ran, 1)
		time.Sleep(50 * time.Millisecond)
		return map[string]string{"text": "a\x00b <&>"}, insert(tx, "once")
	}
	var wait sync.WaitGroup
	for i := 0; i < 10; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			result, err := idem.Once(ctx, db, "o1", work)
			if err != nil || result.Value["text"] != "a\x00b <&>" || !result.Stored {
				t.Error(result, err)
			}
		}()
	}
	wait.Wait()
	same(t, ran, 1)
	same(t, orders(t, db, "once"), 1)
	failed := errors.New("declined")
	_, err := idem.Once(ctx, db, "o2", func(ctx context.Context, tx *sql.Tx) (int, error) {
		must(t, insert(tx, "failed"))
		return 0, failed
	})
	same(t, err, failed)
	same(t, orders(t, db, "failed"), 0)
	again, err := idem.Once(ctx, db, "o2", func(context.Context, *sql.Tx) (int, error) { return 7, nil }, idem.Fingerprint([]byte("a")))
	must(t, err)
	same(t, again.Value, 7)
	if _, err = idem.Once(ctx, db, "o2", func(context.Context, *sql.Tx) (int, error) { return 7, nil }, idem.Fingerprint([]byte("b"))); !errors.Is(err, idem.ErrMismatch) {
		t.Fatal(err)
	}
	inTx(t, db, func(tx *sql.Tx) {
		_, err := idem.Claim(ctx, tx, "o3")
		must(t, err)
		if _, err := idem.Once(ctx, db, "o3", work, idem.Wait(20*time.Millisecond)); !errors.Is(err, idem.ErrInFlight) {
			t.Fatal(err)
		}
	})
	_, err = db.Exec("SELECT idem.idem_scope_set('doubt', on_lease_expiry => 'manual')")
	must(t, err)
	_, err = idem.Begin(ctx, db, "o6", idem.LeaseFor(20*time.Millisecond), idem.Scope("doubt"))
	must(t, err)
	time.Sleep(50 * time.Millisecond)
	if _, err := idem.Once(ctx, db, "o6", work, idem.Scope("doubt")); !errors.Is(err, idem.ErrInDoubt) {
		t.Fatal(err)
	}
	var state string
	must(t, db.QueryRow("SELECT state::text FROM idem.idem_keys WHERE scope = 'doubt'").Scan(&state))
	same(t, state, "d")
	tries := 0 // a serialization failure runs the work again
	_, err = idem.Once(ctx, db, "o4", func(ctx context.Context, tx *sql.Tx) (int, error) {
		if tries++; tries < 3 {
			_, err := tx.Exec("DO $$ BEGIN RAISE serialization_failure; END $$")
			return 0, err
		}
		return tries, nil
	})
	must(t, err)
	same(t, tries, 3)
	over, cancel := context.WithCancel(ctx)
	if _, err := idem.Once(over, db, "o5", func(ctx context.Context, tx *sql.Tx) (int, error) {
		cancel()
		return 1, insert(tx, "cancelled")
	}); err == nil {
		t.Fatal("a cancelled call has succeeded")
	}
	same(t, orders(t, db, "cancelled"), 0)
}

func TestLeased(t *testing.T) {
	db := pool(t, 3)
	var ran int32
	var wait sync.WaitGroup
	for i := 0; i < 10; i++ { // longer than the lease, with duplicates that fill the pool
		wait.Add(1)
		go func() {
			defer wait.Done()
			result, err := idem.Leased(ctx, db, "l1", func(ctx context.Context, w *idem.Work) (string, error) {
				atomic.AddInt32(&ran, 1)
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(2500 * time.Millisecond):
					return "done", nil
				}
			}, idem.LeaseFor(time.Second), idem.Wait(time.Minute))
			if err != nil || result.Value != "done" {
				t.Error(result, err)
			}
		}()
	}
	wait.Wait()
	same(t, ran, 1)

	// A later attempt does not repeat a step.
	var charges []string
	attempt := func(isLast bool) (idem.Result[string], error) {
		return idem.Leased(ctx, db, "l2", func(ctx context.Context, w *idem.Work) (string, error) {
			id, err := idem.Step(ctx, w, "charge", func(ctx context.Context, gate idem.Gate) (string, error) {
				charges = append(charges, gate.Key)
				return "ch_1", nil
			}, nil)
			if err != nil || !isLast {
				return "", errors.New("later")
			}
			return idem.Write(ctx, w, "book", func(ctx context.Context, tx *sql.Tx) (string, error) { return id, insert(tx, "booked "+id) })
		}, idem.Scope("go"))
	}
	if _, err := attempt(false); err == nil || err.Error() != "later" {
		t.Fatal(err)
	}
	result, err := attempt(true)
	must(t, err)
	same(t, fmt.Sprintf("%s %d %v", result.Value, result.Attempt, charges), "ch_1 2 [go/l2/charge]")
	same(t, orders(t, db, "booked ch_1"), 1)

	// A step that was intended, and nobody knows.
	doubt := func(found idem.Fate[string]) error {
		_, err := idem.Leased(ctx, db, "l3", func(ctx context.Context, w *idem.Work) (string, error) {
			return idem.Step(ctx, w, "charge", func(context.Context, idem.Gate) (string, error) { return "", errors.New("timeout") },
				func(context.Context, idem.Gate) (idem.Fate[string], error) { return found, nil })
		}, idem.LeaseFor(300*time.Millisecond), idem.Wait(5*time.Second))
		return err
	}
	same(t, doubt(idem.NotDone[string]()), "timeout")
	err = doubt(idem.Unknown[string]())
	var own *idem.Error
	if !errors.Is(err, idem.ErrInDoubt) || !errors.As(err, &own) || own.Step != "charge" {
		t.Fatal(err)
	}
	must(t, doubt(idem.Done("ch_2"))) // when the lease of the key that was kept is over

	// An output that cannot be stored keeps the key.
	_, err = idem.Leased(ctx, db, "l4", func(ctx context.Context, w *idem.Work) (any, error) {
		return idem.Step(ctx, w, "charge", func(context.Context, idem.Gate) (any, error) { return json.Number("1e400000"), nil }, nil)
	})
	if !errors.Is(err, idem.ErrOutputNotStored) {
		t.Fatal(err)
	}
	if _, err = idem.Leased(ctx, db, "l4", func(context.Context, *idem.Work) (any, error) { return nil, nil }, idem.Wait(0)); !errors.Is(err, idem.ErrInFlight) {
		t.Fatal(err)
	}

	// A lease that another attempt has taken is no success.
	_, err = idem.Leased(ctx, db, "l5", func(ctx context.Context, w *idem.Work) (any, error) {
		must(t, idem.Release(ctx, db, "l5", idem.Fence(w.Fence)))
		_, err := idem.Begin(ctx, db, "l5", idem.LeaseFor(time.Minute))
		must(t, err)
		return idem.Write(ctx, w, "late", func(ctx context.Context, tx *sql.Tx) (any, error) { return nil, insert(tx, "late") })
	})
	if !errors.Is(err, idem.ErrLeaseLost) {
		t.Fatal(err)
	}
	same(t, orders(t, db, "late"), 0)
}

func TestLock(t *testing.T) {
	db := pool(t, 3)
	var holders, most int32
	var wait sync.WaitGroup
	for i := 0; i < 8; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			lock, err := idem.Lock(ctx, db, "report", idem.LeaseFor(time.Second), idem.Wait(time.Minute))
			if err != nil {
				t.Error(err)
				return
			}
			if now := atomic.AddInt32(&holders, 1); now > atomic.LoadInt32(&most) {
				atomic.StoreInt32(&most, now)
			}
			time.Sleep(300 * time.Millisecond)
			if lock.Context().Err() != nil {
				t.Error("lost")
			}
			atomic.AddInt32(&holders, -1)
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	same(t, most, 1)
	lock, err := idem.Lock(ctx, db, "report")
	must(t, err)
	if _, err := idem.Lock(ctx, db, "report"); !errors.Is(err, idem.ErrLockBusy) {
		t.Fatal(err)
	}
	inTx(t, db, func(tx *sql.Tx) { must(t, idem.AssertFence(ctx, tx, "report", lock.Fence)) })
	must(t, lock.Unlock())
	tx, err := db.BeginTx(ctx, nil)
	must(t, err)
	defer tx.Rollback()
	if err := idem.AssertFence(ctx, tx, "report", lock.Fence); !errors.Is(err, idem.ErrStaleFence) {
		t.Fatal(err)
	}
}

func TestMessages(t *testing.T) {
	db := pool(t, 2)
	inTx(t, db, func(tx *sql.Tx) {
		first, err := idem.Publish(ctx, tx, "go", map[string]int{"n": 1}, idem.Key("k"), idem.Headers(map[string]any{"h": "x"}), idem.DedupID("d"))
		must(t, err)
		again, err := idem.Publish(ctx, tx, "go", 2, idem.DedupID("d"))
		must(t, err)
		same(t, again, first)
	})
	messages, err := idem.Take(ctx, db, "go", idem.MaxMessages(5), idem.LeaseFor(time.Minute))
	must(t, err)
	same(t, len(messages), 1)
	message := messages[0]
	same(t, fmt.Sprint(message.Key, string(message.Payload), string(message.Headers), message.Attempt), `k{"n": 1}{"h": "x"}1`)
	count, err := idem.RenewMessages(ctx, db, []int64{message.ID}, message.Fence)
	must(t, err)
	same(t, count, 1)
	count, err = idem.Nack(ctx, db, []int64{message.ID}, message.Fence, idem.RetryAfter(0))
	must(t, err)
	same(t, count, 1)
	messages, err = idem.Take(ctx, db, "go")
	must(t, err)
	same(t, messages[0].Attempt, 2)
	count, err = idem.Ack(ctx, db, []int64{message.ID}, messages[0].Fence)
	must(t, err)
	same(t, count, 1)
	for _, want := range []bool{true, false} {
		isNew, err := idem.Consume(ctx, db, "mailer", "m1")
		must(t, err)
		same(t, isNew, want)
	}
}

func TestOthers(t *testing.T) {
	db := pool(t, 2)
	allowed, _, err := idem.Allow(ctx, db, "login", 0.001, 1)
	must(t, err)
	same(t, allowed, true)
	allowed, retryAfter, err := idem.Allow(ctx, db, "login", 0.001, 1)
	must(t, err)
	same(t, fmt.Sprint(allowed, retryAfter > time.Minute), "false true")
	outcome, _, err := idem.WebhookReceive(ctx, db, "stripe", http.Header{"Stripe-Signature": {"t=1,v1=00"}}, []byte("{}"))
	must(t, err)
	same(t, outcome, "invalid")
	id, err := idem.NextID(ctx, db)
	must(t, err)
	next, err := idem.NextID(ctx, db)
	must(t, err)
	same(t, next > id, true)
	inTx(t, db, func(tx *sql.Tx) { must(t, idem.Serialize(ctx, tx, "s")) })
	outcome, state, err := idem.Transition(ctx, db, "tickets", map[string]any{"id": 1}, "open", "closed")
	must(t, err)
	same(t, outcome+" "+state, "moved closed")
	outcome, state, err = idem.Transition(ctx, db, "tickets", map[string]any{"id": 1}, "", "open")
	must(t, err)
	same(t, outcome+" "+state, "not_allowed closed")
}
