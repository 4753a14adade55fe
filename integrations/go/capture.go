package idem

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
)

var errRefused = errors.New("idem: the response was refused, and another one is sent")

// capture keeps what a handler sends until it is settled: at its end, or when it is over the limit. What follows then is sent as it comes.
type capture struct {
	w       http.ResponseWriter
	header  http.Header
	status  int
	body    bytes.Buffer
	limit   int
	settle  func(*response) *response // stores the response; another one takes its place
	isOver  bool                      // settled
	refusal *response
}

func newCapture(w http.ResponseWriter, limit int, settle func(*response) *response) *capture {
	return &capture{w: w, header: w.Header().Clone(), limit: limit, settle: settle}
}

func (c *capture) Header() http.Header { return c.header }

func (c *capture) isTouched() bool { return c.status != 0 }

func (c *capture) WriteHeader(status int) {
	if c.status == 0 && status >= 200 {
		c.status = status
	}
}

func (c *capture) Write(chunk []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.refusal != nil {
		return 0, errRefused
	}
	if c.isOver {
		return c.w.Write(chunk)
	}
	c.body.Write(chunk)
	if c.isEvents() {
		c.isOver, c.refusal = true, problem(http.StatusInternalServerError, "streamed",
			"A keyed request cannot be answered by a stream of events: leave its route out of the middleware.")
		return 0, errRefused
	}
	if c.body.Len() > c.limit {
		if c.end(true); c.refusal != nil {
			return 0, errRefused
		}
	}
	return len(chunk), nil
}

// Flush sends nothing before COMMIT.
func (c *capture) Flush() {
	if f, ok := c.w.(http.Flusher); ok && c.isOver && c.refusal == nil {
		f.Flush()
	}
}

func (c *capture) isEvents() bool {
	return strings.HasPrefix(c.header.Get("Content-Type"), "text/event-stream")
}

// end settles the response, and sends it if it is not refused.
func (c *capture) end(isLarge bool) {
	if c.isOver {
		return
	}
	c.isOver = true
	c.WriteHeader(http.StatusOK)
	if _, isSet := c.header["Content-Type"]; !isSet && c.body.Len() > 0 && c.header.Get("Content-Encoding") == "" {
		c.header.Set("Content-Type", http.DetectContentType(c.body.Bytes()))
	}
	own := &response{status: c.status, header: c.header, isLarge: isLarge}
	if !isLarge {
		own.body = c.body.Bytes()
	}
	if c.refusal = c.settle(own); c.refusal != nil {
		return
	}
	header := c.w.Header()
	for name := range header {
		delete(header, name)
	}
	for name, values := range c.header {
		header[name] = values
	}
	c.w.WriteHeader(c.status)
	c.w.Write(c.body.Bytes())
	c.body = bytes.Buffer{}
}
