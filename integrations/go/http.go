package idem

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"
)

// Options of Middleware. Scope is required.
type Options struct {
	// Scope names the authenticated client, such as "shop/17": the space in which a key is unique. A request with an empty scope is 500.
	Scope func(*http.Request) string
	// Schema in which idem is installed. Default: idem.
	Schema string
	// Header field with the key. Default: Idempotency-Key.
	Header string
	// Methods that are handled also without a key. Default: all but GET, HEAD, OPTIONS and TRACE.
	Methods []string
	// KeyOptional runs a request without a key that would otherwise be rejected with 400. It may be done twice.
	KeyOptional bool
	// Route is part of what makes two requests the same. Default: the path with its query.
	Route func(*http.Request) string
	// Lease selects leased mode, for work outside of the database. It is renewed while the handler runs; its length is how long a crash blocks the key.
	// Default: transactional mode.
	Lease time.Duration
	// Wait is how long to wait for another request with the key, instead of 409.
	Wait time.Duration
	// TTL is how long a key and its response are kept. Default: the scope's.
	TTL time.Duration
	// MaxBody bytes of a request; a longer one is 413. Default: 1 MiB.
	MaxBody int64
	// MaxResponse bytes are kept until COMMIT and stored. A longer response is sent as it comes, and not stored. Default: 1 MiB.
	MaxResponse int
	// RollBackOversize answers 500 in place of a response that is too large to be stored, and rolls back. Not with Lease.
	RollBackOversize bool
	// Fingerprint replaces route and body as what makes two requests the same: 1 to 255 bytes. Nil: not for this request.
	Fingerprint func(r *http.Request, body []byte) []byte
	// KeyFrom finds the key where the header field is missing. Empty: none.
	KeyFrom func(r *http.Request, body []byte) string
	// Skip leaves a request alone.
	Skip func(*http.Request) bool
	// OnError writes the application's own form of an error of the middleware's own, whose header fields are set. False: it has written nothing.
	OnError func(w http.ResponseWriter, r *http.Request, status int, code string) bool
	// OnOutcome is told of each request that was handled.
	OnOutcome func(Outcome)
	// Logf gets a line for what the operator has to know. Default: log.Printf.
	Logf func(format string, args ...any)
}

// Outcome of a request.
type Outcome struct {
	Scope, Key, KeyHash string // KeyHash: the first 16 bytes of the key's SHA-256, in hexadecimal
	Method, Route       string
	Outcome             string // run, replay or reject
	Replayed            bool
	Status              int   // 0: nothing was sent
	Err                 error // what the handler gave to Fail
	Fence               int64 // of leased mode
	Duration            time.Duration
}

// Exchange is what the handler has of the middleware: From(r.Context()).
type Exchange struct {
	Scope string
	Key   string // empty: the request has none
	// Tx is the transaction that claims the key. Write with it alone: what another connection writes is not protected. The middleware ends it. Nil in leased
	// mode.
	Tx *sql.Tx
	// Fence of the lease; 0 in transactional mode.
	Fence      int64
	middleware *middleware
	call       *request
	failure    error
	holder     *holder
	acts       []func(context.Context, *sql.Tx) error
	work       *Work
	isReleased bool
}

type exchangeKey struct{}

// From returns the exchange of the request that a handler handles; nil outside of the middleware.
func From(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// Fail says that the work has failed: what the handler answers is sent, but the transaction is rolled back, or the key of a lease released. A response
// without it is stored whatever its status.
func Fail(ctx context.Context, err error) {
	if x := From(ctx); x != nil {
		if err == nil {
			err = errors.New("the handler has failed")
		}
		x.failure = err
	}
}

// HandlerFunc is a handler whose error is given to Fail. If it has written nothing, the response is that of a StatusError, else 500.
type HandlerFunc func(http.ResponseWriter, *http.Request) error

// StatusError is an error that has a status.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %v", e.Status, e.Err) }

func (e *StatusError) Unwrap() error { return e.Err }

// ServeHTTP calls f.
func (f HandlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := f(w, r)
	if err == nil {
		return
	}
	Fail(r.Context(), err)
	if own, ok := w.(interface{ isTouched() bool }); ok && own.isTouched() {
		return
	}
	status := http.StatusInternalServerError
	var with *StatusError
	if errors.As(err, &with) {
		status = with.Status
	}
	http.Error(w, http.StatusText(status), status)
}

type middleware struct {
	Options
	db   *sql.DB
	next http.Handler
	statements
}

// Middleware runs a handler once for each Idempotency-Key: claim, work and response commit in one transaction, and a repetition gets the stored response.
// It belongs inside of authentication, compression and recovery, and panics when its options are wrong.
//
// A handler that returns is a success, whatever status it has written. It calls Fail, or is a HandlerFunc, where its work has failed. A panic rolls back.
// The context of the request outlives the client: work that has begun is finished and stored.
func Middleware(db *sql.DB, options Options) func(http.Handler) http.Handler {
	switch {
	case db == nil:
		panic("idem: Middleware needs a *sql.DB")
	case options.Scope == nil:
		panic("idem: Options.Scope is required; it names the authenticated client")
	case options.Lease > 0 && options.RollBackOversize:
		panic("idem: RollBackOversize does not go with Lease: what leased work has done cannot be rolled back")
	case options.Lease < 0 || options.Wait < 0 || options.TTL < 0 || options.MaxBody < 0 || options.MaxResponse < 0:
		panic("idem: an option is negative")
	}
	m := middleware{Options: options, db: db}
	if m.Schema == "" {
		m.Schema = "idem"
	}
	if m.Header == "" {
		m.Header = "Idempotency-Key"
	}
	if m.MaxBody == 0 {
		m.MaxBody = 1 << 20
	}
	if m.MaxResponse == 0 {
		m.MaxResponse = 1 << 20
	}
	if m.Logf == nil {
		m.Logf = log.Printf
	}
	m.statements = newStatements(m.Schema)
	return func(next http.Handler) http.Handler {
		own := m
		own.next = next
		return &own
	}
}

// request is what the database is told of a request.
type request struct {
	scope, method, route string
	field                *string // the header field as it came; nil: none
	key                  string  // in it, as PostgreSQL has parsed it
	isKeyed              bool
	body                 []byte
	fingerprint          []byte
	contentType          *string
	added                http.Header // for the handler's response
}

func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// One that is open is left alone: the middleware is mounted twice.
	if From(r.Context()) != nil || !m.applies(r) {
		m.next.ServeHTTP(w, r)
		return
	}
	began := time.Now()
	call := &request{method: r.Method, route: routeOf(r), scope: m.Scope(r)}
	if m.Route != nil {
		call.route = m.Route(r)
	}
	// Header.Get would hide a second line of the field.
	if lines := r.Header.Values(m.Header); len(lines) > 0 {
		field := strings.Join(lines, ", ")
		call.field = &field
	}
	if types := r.Header.Values("Content-Type"); len(types) > 0 {
		call.contentType = &types[0]
	}
	outcome := Outcome{Scope: call.scope, Method: call.method, Route: call.route, Outcome: "reject"}
	defer func() {
		if m.OnOutcome == nil {
			return
		}
		outcome.Key, outcome.Duration, outcome.Replayed = call.key, time.Since(began), outcome.Outcome == "replay"
		if call.isKeyed {
			sum := sha256.Sum256([]byte(call.key))
			outcome.KeyHash = hex.EncodeToString(sum[:16])
		}
		m.OnOutcome(outcome)
	}()
	base := w.Header().Clone()
	send := func(own *response) {
		outcome.Status = own.status
		m.send(w, r, base, own)
	}
	if call.scope == "" {
		m.log(call, "Options.Scope returned nothing; it must name the authenticated client", nil)
		send(internalError(""))
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, m.MaxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if int64(len(body)) > m.MaxBody {
		too := problem(http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("The body is over %d bytes.", m.MaxBody))
		too.header.Set("Connection", "close")
		send(too)
		return
	}
	call.body = body
	if call.field == nil && m.KeyFrom != nil {
		if key := m.KeyFrom(r, body); key != "" {
			call.field = &key
		}
	}
	if m.Fingerprint != nil {
		call.fingerprint = m.Fingerprint(r, body)
	}
	run := runner{m: m, call: call, w: w, r: r, outcome: &outcome, send: send}
	if m.Lease > 0 {
		run.leased()
	} else {
		run.transactional()
	}
}

func (m *middleware) applies(r *http.Request) bool {
	if m.Skip != nil && m.Skip(r) {
		return false
	}
	if m.Methods != nil {
		return contains(m.Methods, r.Method) || len(r.Header.Values(m.Header)) > 0
	}
	return !contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, r.Method) || len(r.Header.Values(m.Header)) > 0
}

// The path as it was sent, also below http.StripPrefix.
func routeOf(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

func (m *middleware) log(call *request, message string, err error) {
	key := "-"
	if call.field != nil {
		key = *call.field
	}
	if err == nil {
		m.Logf("idem: %s (%s %s key=%q)", message, call.method, call.route, key)
	} else {
		m.Logf("idem: %s (%s %s key=%q): %v", message, call.method, call.route, key, err)
	}
}

// send writes a response of the middleware's own, beside the header fields that earlier middleware has set.
func (m *middleware) send(w http.ResponseWriter, r *http.Request, base http.Header, own *response) {
	header := w.Header()
	for name := range header {
		delete(header, name)
	}
	for _, fields := range []http.Header{base, own.header} {
		for name, values := range fields {
			header[name] = values
		}
	}
	if own.code != "" && m.OnError != nil && m.OnError(w, r, own.status, own.code) {
		return
	}
	w.WriteHeader(own.status)
	w.Write(own.body)
}
