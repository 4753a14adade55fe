// The reference app of `idem http-test --reference` for net/http, with lib/pq.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.org/idem"
	_ "github.com/lib/pq"
)

const name = "sslmode=disable binary_parameters=yes application_name=" // for pgbouncer

var (
	own, pool = open("reference", 10), open("conformance", 3)
	mutex     sync.Mutex
	runs      = map[string]int{}
)

func open(application string, most int) *sql.DB {
	db, err := sql.Open("postgres", name+application)
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(most)
	return db
}

type input struct {
	Item                        json.RawMessage
	Pause, Status, Throw, Bytes int
}

func ran(key string) {
	mutex.Lock()
	defer mutex.Unlock()
	runs[key]++
}

func insert(ctx context.Context, tx *sql.Tx, key string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "INSERT INTO effects (key) VALUES ($1) RETURNING id", key).Scan(&id)
	return id, err
}

func answer(w http.ResponseWriter, in input, id int64) {
	status := in.Status
	if status == 0 {
		status = http.StatusCreated
	}
	body, _ := json.Marshal(map[string]any{"id": id, "item": in.Item})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/orders/%d", id))
	w.WriteHeader(status)
	if missing := in.Bytes - len(body); missing > 0 {
		body = append(body, strings.Repeat(" ", missing)...)
	}
	w.Write(body)
}

func work(w http.ResponseWriter, r *http.Request) error {
	var in input
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return &idem.StatusError{Status: http.StatusBadRequest, Err: err}
	}
	x := idem.From(r.Context())
	ran(x.Key)
	id, err := insert(r.Context(), x.Tx, x.Key)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(in.Pause) * time.Millisecond)
	if in.Throw != 0 {
		return &idem.StatusError{Status: in.Throw, Err: errors.New("thrown")}
	}
	answer(w, in, id)
	return nil
}

func late(w http.ResponseWriter, r *http.Request) error {
	x, ctx := idem.From(r.Context()), r.Context()
	time.AfterFunc(200*time.Millisecond, func() { insert(ctx, x.Tx, x.Key) })
	return work(w, r)
}

func underLease(w http.ResponseWriter, r *http.Request) error {
	var in input
	json.NewDecoder(r.Body).Decode(&in)
	x := idem.From(r.Context())
	ran(x.Key)
	time.Sleep(time.Duration(in.Pause) * time.Millisecond)
	x.WithResponse(func(ctx context.Context, tx *sql.Tx) error {
		_, err := insert(ctx, tx, x.Key)
		return err
	})
	answer(w, in, x.Fence)
	return nil
}

func stream(w http.ResponseWriter, r *http.Request) error {
	x := idem.From(r.Context())
	ran(x.Key)
	id, err := insert(r.Context(), x.Tx, x.Key)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusCreated)
	for _, part := range []string{"a", "b", fmt.Sprintf("c %d", id)} {
		fmt.Fprint(w, part)
		w.(http.Flusher).Flush()
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func effects(w http.ResponseWriter, r *http.Request) {
	key, count := r.URL.Query().Get("key"), 0
	if err := own.QueryRow("SELECT count(*) FROM effects WHERE key = $1", key).Scan(&count); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	mutex.Lock()
	defer mutex.Unlock()
	json.NewEncoder(w).Encode(map[string]int{"count": count, "runs": runs[key]})
}

func hook(press func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := press(); err != nil {
			log.Print(err)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func main() {
	profile := os.Getenv("PROFILE")
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY, key text)",
		"SELECT idem.idem_http_scope_set('conformance', profile => '" + profile + "')",
	} {
		if _, err := own.Exec(statement); err != nil {
			log.Fatal(err)
		}
	}
	options := idem.Options{Scope: func(r *http.Request) string {
		scope := "conformance/" + r.Header.Get("Authorization")
		if profile == "acp" || profile == "ucp" {
			scope += " " + r.Method + " " + r.URL.Path
		}
		return scope
	}}
	once := idem.Middleware(pool, options)
	options.Lease, options.Wait = time.Second, 10*time.Second
	leased := idem.Middleware(pool, options)

	mux := http.NewServeMux()
	for path, handler := range map[string]http.Handler{
		"/orders": once(idem.HandlerFunc(work)), "/other": once(idem.HandlerFunc(work)), "/double": once(once(idem.HandlerFunc(work))),
		"/late": once(idem.HandlerFunc(late)), "/stream": once(idem.HandlerFunc(stream)), "/leased": leased(idem.HandlerFunc(underLease)),
		"/effects":    http.HandlerFunc(effects),
		"/hooks/kill": hook(func() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }),
		"/hooks/disconnect": hook(func() error {
			_, err := own.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'")
			return err
		}),
		"/hooks/lose-commit": hook(func() error {
			cutter, err := strconv.Atoi(os.Getenv("CUTTER"))
			if err != nil {
				return err
			}
			return syscall.Kill(cutter, syscall.SIGUSR1)
		}),
	} {
		mux.Handle(path, handler)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().String()[strings.LastIndex(listener.Addr().String(), ":")+1:])
	log.Fatal(http.Serve(listener, mux))
}
