package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.org/idem"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi"
	chimiddleware "github.com/go-chi/chi/middleware"
	"github.com/labstack/echo/v4"
)

var errDeclined = errors.New("declined")

// What each router's handler does: an order, or an error after it.
func order(r *http.Request) error {
	if _, err := idem.From(r.Context()).Tx.ExecContext(r.Context(), "INSERT INTO orders (item) VALUES ($1)", r.URL.Path); err != nil {
		return err
	}
	if strings.HasSuffix(r.URL.Path, "/failed") {
		return errDeclined
	}
	if strings.HasSuffix(r.URL.Path, "/panic") {
		panic(errDeclined)
	}
	return nil
}

func TestRouters(t *testing.T) {
	db := pool(t, 3)
	once := idem.Middleware(db, idem.Options{Scope: func(*http.Request) string { return "routers" }, Logf: t.Logf})
	gin.SetMode(gin.ReleaseMode)

	plain := once(idem.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if err := order(r); err != nil {
			return err
		}
		_, err := io.WriteString(w, "made")
		return err
	}))

	withChi := chi.NewRouter()
	withChi.Use(chimiddleware.Recoverer, once)
	withChi.Method("POST", "/chi/*", idem.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if err := order(r); err != nil {
			return err
		}
		_, err := io.WriteString(w, "made")
		return err
	}))

	engine := gin.New()
	engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, err any) {
		idem.Fail(c.Request.Context(), nil)
		c.AbortWithStatus(http.StatusInternalServerError)
	}))
	engine.POST("/gin/*rest", func(c *gin.Context) {
		if err := order(c.Request); err != nil {
			idem.Fail(c.Request.Context(), err)
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		c.String(http.StatusOK, "made")
	})

	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // echo writes the response of an error after its middlewares
		return echo.WrapMiddleware(once)(func(c echo.Context) error {
			if err := next(c); err != nil {
				idem.Fail(c.Request().Context(), err)
				c.Error(err)
			}
			return nil
		})
	})
	e.POST("/echo/*", func(c echo.Context) error {
		if err := order(c.Request()); err != nil {
			return err
		}
		return c.String(http.StatusOK, "made")
	})

	for name, router := range map[string]http.Handler{"plain": plain, "chi": withChi, "gin": once(engine), "echo": e} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(router)
			defer server.Close()
			post := func(path string) (int, string, bool) {
				request, err := http.NewRequest("POST", server.URL+path, strings.NewReader("{}"))
				must(t, err)
				request.Header.Set("Idempotency-Key", `"`+strings.ReplaceAll(path, "/", "-")+`"`)
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					return 0, "", false // a panic of net/http's own
				}
				defer response.Body.Close()
				body, _ := io.ReadAll(response.Body)
				return response.StatusCode, string(body), response.Header.Get("Idempotent-Replayed") != ""
			}
			for i, path := range []string{"/" + name + "/made", "/" + name + "/made"} {
				status, body, isReplayed := post(path)
				if status != 200 || body != "made" || isReplayed != (i == 1) {
					t.Fatal(status, body, isReplayed)
				}
			}
			same(t, orders(t, db, "/"+name+"/made"), 1)
			kinds := []string{"failed"}
			if name == "chi" || name == "gin" {
				kinds = append(kinds, "panic")
			}
			for _, kind := range kinds {
				for i := 0; i < 2; i++ {
					if status, _, isReplayed := post("/" + name + "/" + kind); status != 500 || isReplayed {
						t.Fatal(kind, status, isReplayed)
					}
				}
				same(t, orders(t, db, "/"+name+"/"+kind), 0)
			}
		})
	}
}

// A leased handler: its step is not repeated by a repetition, its error is told, and a lease that is lost is 503.
func TestLeasedHandler(t *testing.T) {
	db := pool(t, 3)
	var logged []string
	var outcome idem.Outcome
	attempts, charges := 0, []string{}
	leased := idem.Middleware(db, idem.Options{
		Scope: func(*http.Request) string { return "leased" }, Lease: time.Second, OnOutcome: func(o idem.Outcome) { outcome = o },
		Logf: func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) },
	})
	server := httptest.NewServer(leased(idem.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		x, ctx := idem.From(r.Context()), r.Context()
		attempts++
		if r.URL.Path == "/lost" {
			if err := idem.Release(ctx, db, x.Key, idem.Fence(x.Fence), idem.Scope(x.Scope)); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		work, err := x.Work(ctx)
		if err != nil {
			return err
		}
		id, err := idem.Step(ctx, work, "charge", func(ctx context.Context, gate idem.Gate) (string, error) {
			charges = append(charges, gate.Key)
			return "ch_1", nil
		}, nil)
		if err != nil || attempts == 1 {
			if err == nil {
				err = errDeclined
			}
			return err
		}
		x.WithResponse(func(ctx context.Context, tx *sql.Tx) error { return insert(tx, id) })
		_, err = io.WriteString(w, id)
		return err
	})))
	defer server.Close()
	post := func(path string) (int, string) {
		request, err := http.NewRequest("POST", server.URL+path, strings.NewReader("{}"))
		must(t, err)
		request.Header.Set("Idempotency-Key", `"leased`+path[1:]+`"`)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	status, _ := post("/pay")
	same(t, fmt.Sprint(status, outcome.Err, len(logged)), "500 declined 1")
	for i := 0; i < 2; i++ {
		status, body := post("/pay")
		same(t, fmt.Sprintf("%d %s %v", status, body, charges), "200 ch_1 [leased/leasedpay/charge]")
	}
	same(t, orders(t, db, "ch_1"), 1)
	status, body := post("/lost")
	same(t, fmt.Sprint(status, strings.Contains(body, "lease_lost")), "503 true")
}
