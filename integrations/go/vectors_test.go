package idem

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func readVectors(t *testing.T, name string, place any) {
	bytes, err := os.ReadFile(filepath.Join(vectorsDirectory(), name))
	if err != nil {
		t.Skip("the vectors are in idem's repository")
	}
	if err := json.Unmarshal(bytes, place); err != nil {
		t.Fatal(err)
	}
}

func vectorsDirectory() string {
	if named := os.Getenv("IDEM_VECTORS"); named != "" {
		return named
	}
	return "../../tests/vectors"
}

func TestLeaseVectors(t *testing.T) {
	type step struct {
		At    int64    `json:"at"`
		Event string   `json:"event"`
		Asks  []string `json:"asks"`
		Due   *int64   `json:"due"`
	}
	var vectors struct {
		Cases []struct {
			Name   string
			Lease  int64
			Script []step
		}
	}
	readVectors(t, "lease.json", &vectors)
	events := map[string]func(*term, time.Duration) []string{
		"claim": (*term).claim, "acquired": (*term).acquired, "tick": (*term).tick, "renewed": (*term).renewed, "failed": (*term).failed,
		"stale": (*term).stale, "returned": (*term).returned, "threw": (*term).threw,
	}
	for _, vector := range vectors.Cases {
		t.Run(vector.Name, func(t *testing.T) {
			lease := term{length: time.Duration(vector.Lease) * time.Millisecond}
			for _, want := range vector.Script {
				got := step{At: want.At, Event: want.Event, Asks: events[want.Event](&lease, time.Duration(want.At)*time.Millisecond)}
				if got.Asks == nil {
					got.Asks = []string{}
				}
				if due, ok := lease.due(); ok {
					ms := due.Milliseconds()
					got.Due = &ms
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("at %d, %s: asks %v, due %v; want %v, %v", want.At, want.Event, got.Asks, shown(got.Due), want.Asks, shown(want.Due))
				}
			}
		})
	}
}

func shown(due *int64) any {
	if due == nil {
		return nil
	}
	return *due
}

// script is a database that answers in the order of a case, and notes what it was asked.
type script struct {
	answers []struct {
		Call   string
		Answer json.RawMessage
	}
	calls         []string
	isAfterCommit bool
}

type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

func (s *script) next(call string) (json.RawMessage, error) {
	if call == "begin" && s.isAfterCommit {
		call = "replay"
	}
	s.calls = append(s.calls, call)
	if len(s.answers) == 0 || s.answers[0].Call != strings.Fields(call)[0] {
		return nil, errors.New("unexpected " + call)
	}
	answer := s.answers[0].Answer
	s.answers = s.answers[1:]
	var failure struct {
		Lost     bool
		SQLState string `json:"sqlstate"`
	}
	if json.Unmarshal(answer, &failure) == nil {
		if failure.Lost {
			return nil, driver.ErrBadConn
		}
		if failure.SQLState != "" {
			return nil, stateError(failure.SQLState)
		}
	}
	return answer, nil
}

func (s *script) Connect(context.Context) (driver.Conn, error) { return &scripted{s: s}, nil }
func (s *script) Driver() driver.Driver                        { return nil }

type scripted struct {
	s        *script
	isSilent bool // a transaction whose end the script does not write
}

func (c *scripted) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c *scripted) Close() error                        { return nil }
func (c *scripted) Begin() (driver.Tx, error) {
	c.isSilent = false
	return c, nil
}

func (c *scripted) Commit() error {
	if c.isSilent {
		return nil
	}
	answer, err := c.s.next("commit")
	if err == driver.ErrBadConn && contains(c.s.calls, "complete") {
		c.s.isAfterCommit = true
	}
	if err == nil && string(answer) == `"rolled_back"` {
		return errors.New("unexpected command tag ROLLBACK")
	}
	return err
}

func (c *scripted) Rollback() error {
	if !c.isSilent {
		c.s.calls = append(c.s.calls, "rollback")
	}
	return nil
}

func (c *scripted) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case strings.Contains(query, "idem_http_begin"):
		answer, err := c.s.next("begin")
		c.isSilent = c.s.calls[len(c.s.calls)-1] == "replay"
		if err != nil {
			return nil, err
		}
		var begun struct {
			Action, Code, Body string
			Status, Fence      int64
		}
		if err := json.Unmarshal(answer, &begun); err != nil {
			return nil, err
		}
		headers, body := "{}", []byte(nil)
		var key driver.Value = "k"
		switch {
		case begun.Action == "replay":
			headers, body = `{"Idempotent-Replayed": "true"}`, []byte(begun.Body)
		case begun.Action == "reject":
			body, _ = json.Marshal(map[string]string{"code": begun.Code})
			headers = `{"Content-Type": "application/problem+json"}`
			if begun.Code == "in_flight" {
				headers = `{"Content-Type": "application/problem+json", "Retry-After": 1}`
			}
		case begun.Code == "unkeyed":
			key = nil
		}
		return &oneRow{[]driver.Value{begun.Action, begun.Status, headers, body, begun.Fence, begun.Code, key}}, nil
	case strings.Contains(query, "idem_http_complete"):
		name := "complete"
		if strings.Contains(query, "omit") {
			name = "complete omit"
		}
		answer, err := c.s.next(name)
		return &oneRow{[]driver.Value{strings.Trim(string(answer), `"`)}}, err
	case strings.Contains(query, "idem_release"):
		_, err := c.s.next("release")
		return &oneRow{[]driver.Value{true}}, err
	}
	return nil, errors.New("unexpected " + query)
}

type oneRow struct{ values []driver.Value }

func (r *oneRow) Columns() []string { return make([]string, len(r.values)) }
func (r *oneRow) Close() error      { return nil }
func (r *oneRow) Next(values []driver.Value) error {
	if r.values == nil {
		return io.EOF
	}
	copy(values, r.values)
	r.values = nil
	return nil
}

type flowCase struct {
	Name, Mode string
	Key        *string
	Options    struct {
		StoreErrors []int
		MaxResponse int
		Oversize    string
		Lease       int64
	}
	Database []struct {
		Call   string
		Answer json.RawMessage
	}
	Handler struct {
		Responds *struct {
			Status  int
			Body    string
			Headers map[string]string
		}
		Streams *struct {
			Status int
			Chunks []int
		}
		Throws          string
		ThrowsStatus    int    `json:"throws_status"`
		ThrowsSQLState  string `json:"throws_sqlstate"`
		LosesConnection bool   `json:"loses_connection"`
		WritesLate      bool   `json:"writes_late"`
		Silent          bool
		Background      bool
		Gone            string
		Mounted         int
	}
	Expect struct {
		Calls []string
		Ran   int
		Sent  any
	}
}

// skipped: why a case has no form in Go.
func (c *flowCase) skipped() string {
	switch {
	case c.Handler.Silent:
		return "a handler that blocks cannot be ended"
	case c.Handler.Background:
		return "the middleware has no background tasks"
	case len(c.Options.StoreErrors) > 0:
		return "a handler stores an error by writing it without Fail"
	}
	return ""
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestHTTPFlowVectors(t *testing.T) {
	var vectors struct{ Cases []flowCase }
	readVectors(t, "http_flow.json", &vectors)
	usual := lookups
	lookups = []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond}
	defer func() { lookups = usual }()
	for i := range vectors.Cases {
		vector := &vectors.Cases[i]
		t.Run(vector.Name, func(t *testing.T) {
			if why := vector.skipped(); why != "" {
				t.Skip(why)
			}
			replay(t, vector)
		})
	}
}

func replay(t *testing.T, vector *flowCase) {
	database := &script{}
	for _, each := range vector.Database {
		database.answers = append(database.answers, each)
	}
	db := sql.OpenDB(database)
	defer db.Close()
	ran, late := 0, ""
	var kept *sql.Tx
	handler := HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		ran++
		does := vector.Handler
		kept = From(r.Context()).Tx
		switch {
		case does.Throws != "":
			return errors.New(does.Throws)
		case does.ThrowsStatus != 0:
			return &StatusError{does.ThrowsStatus, errors.New("thrown")}
		case does.ThrowsSQLState != "":
			return stateError(does.ThrowsSQLState)
		case does.LosesConnection:
			return driver.ErrBadConn
		case does.Streams != nil:
			w.WriteHeader(does.Streams.Status)
			for _, size := range does.Streams.Chunks {
				if _, err := w.Write([]byte(strings.Repeat("x", size))); err != nil {
					return nil
				}
			}
			return nil
		}
		for name, value := range does.Responds.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(does.Responds.Status)
		io.WriteString(w, does.Responds.Body)
		return nil
	})
	options := Options{
		Scope: func(*http.Request) string { return "x" }, MaxResponse: vector.Options.MaxResponse, RollBackOversize: vector.Options.Oversize == "rollback",
		Lease: time.Duration(vector.Options.Lease) * time.Millisecond, Logf: func(string, ...any) {},
	}
	var server http.Handler = handler
	for mounted := 0; mounted == 0 || mounted < vector.Handler.Mounted; mounted++ {
		server = Middleware(db, options)(server)
	}
	var body io.Reader = strings.NewReader("{}")
	if vector.Handler.Gone == "body" {
		body = brokenBody{}
	}
	request := httptest.NewRequest("PUT", "/x", body)
	if vector.Key != nil {
		request.Header.Set("Idempotency-Key", *vector.Key)
	}
	if vector.Handler.Gone == "work" {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		request = request.WithContext(ctx)
	}
	recorder := httptest.NewRecorder()
	isAborted := serve(server, recorder, request)
	if vector.Handler.WritesLate {
		if _, err := kept.QueryContext(context.Background(), "late"); errors.Is(err, sql.ErrTxDone) {
			late = "refused"
		}
	}
	var sent any
	if !isAborted && vector.Handler.Gone == "" { // else what is sent reaches nobody
		sent = shownResponse(recorder, vector.Expect.Sent, late)
	}
	if database.calls == nil {
		database.calls = []string{}
	}
	if !reflect.DeepEqual(database.calls, vector.Expect.Calls) || ran != vector.Expect.Ran || !reflect.DeepEqual(sent, vector.Expect.Sent) {
		t.Errorf("calls %v, ran %d, sent %v\nwant  %v, ran %d, sent %v", database.calls, ran, sent, vector.Expect.Calls, vector.Expect.Ran, vector.Expect.Sent)
	}
}

func serve(server http.Handler, w http.ResponseWriter, r *http.Request) (isAborted bool) {
	defer func() {
		if thrown := recover(); thrown != nil {
			if thrown != http.ErrAbortHandler {
				panic(thrown)
			}
			isAborted = true
		}
	}()
	server.ServeHTTP(w, r)
	return false
}

func shownResponse(recorder *httptest.ResponseRecorder, want any, late string) any {
	body := recorder.Body.String()
	status := recorder.Code
	if body == http.StatusText(status)+"\n" { // what HandlerFunc writes
		return "framework"
	}
	all := map[string]any{
		"status": float64(status), "body": body, "length": float64(len(body)), "late_write": late,
		"replayed": recorder.Header().Get("Idempotent-Replayed") == "true",
	}
	if recorder.Header().Get("Content-Type") == "application/problem+json" {
		var own struct{ Code string }
		json.Unmarshal([]byte(body), &own)
		all["code"], all["retry_after"] = own.Code, recorder.Header().Get("Retry-After") != ""
	}
	named, ok := want.(map[string]any)
	if !ok {
		return all
	}
	shown := map[string]any{}
	for name := range named {
		shown[name] = all[name]
	}
	return shown
}
