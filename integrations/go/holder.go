package idem

import (
	"context"
	"errors"
	"sync"
	"time"
)

var start = time.Now()

func now() time.Duration { return time.Since(start) }

// holder runs a term: a timer watches its end and never waits for the database; renewals are sent beside it.
//
// It is made before the claim is sent. After the claim, begin: false, the lease is lost and the work must not begin. ctx ends when the lease is lost, also
// where no timer could fire: its Err looks at the clock.
type holder struct {
	mutex  sync.Mutex
	term   term
	renew  func(context.Context) error
	timer  *time.Timer
	begun  chan bool
	told   bool // begun has been sent
	ctx    context.Context
	cancel context.CancelFunc
}

// newHolder. renew returns ErrStaleFence if the lease has passed to another holder; another error is tried again.
func newHolder(length time.Duration, renew func(context.Context) error) *holder {
	h := &holder{term: term{length: length}, renew: renew, begun: make(chan bool, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.tell((*term).claim)
	return h
}

func (h *holder) begin() bool {
	h.tell((*term).acquired)
	return <-h.begun
}

// end returns "complete", "release" or nothing, when the work has returned or failed.
func (h *holder) end(event func(*term, time.Duration) []string) string {
	asks := h.tell(event)
	h.cancel()
	if len(asks) == 0 {
		return ""
	}
	return asks[0]
}

func (h *holder) isLost() bool {
	h.tell((*term).tick)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.term.state == expired || h.term.state == stale
}

func (h *holder) tell(event func(*term, time.Duration) []string) []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	asks := event(&h.term, now())
	for _, ask := range asks {
		switch ask {
		case "renew":
			go h.send()
		case "work":
			h.decide(true)
		case "lost expired", "lost stale":
			h.decide(false)
			h.cancel()
		}
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	if due, ok := h.term.due(); ok {
		h.timer = time.AfterFunc(due-now(), func() { h.tell((*term).tick) })
	}
	return asks
}

func (h *holder) decide(isHeld bool) {
	if !h.told {
		h.told = true
		h.begun <- isHeld
	}
}

// A renewal that hangs is given up at the end of the work, or of the lease.
func (h *holder) send() {
	err := h.renew(h.ctx)
	switch {
	case err == nil:
		h.tell((*term).renewed)
	case errors.Is(err, ErrStaleFence):
		h.tell((*term).stale)
	default:
		h.tell((*term).failed)
	}
}

// workContext ends when the lease is lost, or the caller's does.
type workContext struct {
	context.Context
	holder *holder
}

func (c workContext) Err() error {
	if c.holder.isLost() {
		return context.Canceled
	}
	return c.Context.Err()
}

// under makes the context of the work, and what ends it.
func (h *holder) under(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-h.ctx.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return workContext{ctx, h}, cancel
}
