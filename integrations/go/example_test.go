package idem_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"example.org/idem"
)

// The tests of idem's repository add a driver; without one the examples are compiled and not run.
func TestMain(m *testing.M) {
	if len(sql.Drivers()) == 0 {
		os.Args = append(os.Args, "-test.run=^Test")
	}
	os.Exit(m.Run())
}

func open() *sql.DB {
	db, err := sql.Open(sql.Drivers()[0], "sslmode=disable") // libpq's environment: PGHOST, PGDATABASE …
	if err != nil {
		panic(err)
	}
	return db
}

func ExampleOnce() {
	db, ctx := open(), context.Background()
	for i := 0; i < 2; i++ {
		order, err := idem.Once(ctx, db, "order 17", func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES ('apples')")
			return "apples", err
		}, idem.Scope("shop/once"))
		fmt.Println(order.Value, order.Replayed, err)
	}
	// Output:
	// apples false <nil>
	// apples true <nil>
}

func ExampleLeased() {
	db, ctx := open(), context.Background()
	charge := func(ctx context.Context, gate idem.Gate) (string, error) {
		fmt.Println("charged with key", gate.Key) // the gateway takes the key, too
		return "ch_17", nil
	}
	for i := 0; i < 2; i++ {
		payment, err := idem.Leased(ctx, db, "payment 17", func(ctx context.Context, w *idem.Work) (string, error) {
			id, err := idem.Step(ctx, w, "charge", charge, nil)
			if err != nil {
				return "", err
			}
			return idem.Write(ctx, w, "book", func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES ($1)", id)
				return id, err
			})
		}, idem.Scope("shop/17"))
		fmt.Println(payment.Value, payment.Replayed, err)
	}
	// Output:
	// charged with key shop/17/payment 17/charge
	// ch_17 false <nil>
	// ch_17 true <nil>
}

func ExampleLock() {
	db, ctx := open(), context.Background()
	lock, err := idem.Lock(ctx, db, "nightly report")
	if err != nil {
		fmt.Println(err) // idem.ErrLockBusy: another host has it
		return
	}
	defer lock.Unlock()
	fmt.Println(lock.Context().Err(), lock.Fence > 0) // work with the context, which ends when the lock is lost
	// Output: <nil> true
}

func ExampleMiddleware() {
	db := open()
	create := idem.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		tx := idem.From(r.Context()).Tx // the transaction that claims the key
		var id int
		if err := tx.QueryRowContext(r.Context(), "INSERT INTO orders (item) VALUES ('pears') RETURNING id").Scan(&id); err != nil {
			return err // rolls back
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "one order")
		return nil
	})
	once := idem.Middleware(db, idem.Options{Scope: func(r *http.Request) string { return "shop/17" }})
	server := httptest.NewServer(once(create))
	defer server.Close()
	for i := 0; i < 2; i++ {
		request, _ := http.NewRequest("POST", server.URL+"/orders", strings.NewReader(`{"item": "pears"}`))
		request.Header.Set("Idempotency-Key", `"8e03978e"`)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(response.Body)
		fmt.Printf("%d %s, replayed: %q\n", response.StatusCode, body, response.Header.Get("Idempotent-Replayed"))
	}
	// Output:
	// 201 one order, replayed: ""
	// 201 one order, replayed: "true"
}
