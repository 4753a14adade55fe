package idem

import (
	"context"
	"math/rand"
	"sync"
	"time"
)

// flights: one call for each key in a process. The others wait here, where they hold no connection, and the call itself sleeps between short questions. So a
// waiter never holds a connection that the renewal of a lease needs.
type flights struct {
	mutex sync.Mutex
	byKey map[flightKey]chan struct{}
}

type flightKey struct {
	db                       any
	kind, schema, scope, key string
}

var inFlight = flights{byKey: map[flightKey]chan struct{}{}}

const (
	firstPause   = 20 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// fly asks until the answer is not busy or the wait is over. The flight lands when the work is over: call land.
func (f *flights) fly(ctx context.Context, key flightKey, wait time.Duration, ask func() (isBusy bool, retryAfter time.Duration, err error)) (land func(), err error) {
	until := now() + wait
	for {
		var other chan struct{}
		if land, other = f.takeOff(key); other == nil {
			break
		}
		left := until - now()
		if left <= 0 {
			// It asks once beside the flight, and does not take its place.
			land = func() {}
			break
		}
		if err := pause(ctx, left, other); err != nil {
			return nil, err
		}
	}
	for backoff := firstPause; ; backoff *= 2 {
		if backoff > longestPause {
			backoff = longestPause
		}
		isBusy, retryAfter, err := ask()
		left := until - now()
		if err != nil {
			land()
			return nil, err
		}
		if !isBusy || left <= 0 {
			return land, nil
		}
		sleep := backoff/2 + time.Duration(rand.Int63n(int64(backoff/2)))
		for _, bound := range []time.Duration{retryAfter, left} {
			if bound > 0 && bound < sleep {
				sleep = bound
			}
		}
		if err := pause(ctx, sleep, nil); err != nil {
			land()
			return nil, err
		}
	}
}

// takeOff returns the flight that has the key, or what ends the own one.
func (f *flights) takeOff(key flightKey) (land func(), other chan struct{}) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if other := f.byKey[key]; other != nil {
		return nil, other
	}
	landed := make(chan struct{})
	f.byKey[key] = landed
	var once sync.Once
	return func() {
		once.Do(func() {
			f.mutex.Lock()
			delete(f.byKey, key)
			f.mutex.Unlock()
			close(landed)
		})
	}, nil
}

// pause sleeps, at most until the channel is closed or the caller's context ends.
func pause(ctx context.Context, d time.Duration, until <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
