package idem

import "time"

// term is a lease as a state machine without a clock, a timer or a database: each event has its time, on one monotonic clock, and returns what to do now:
// "renew" (send a renewal), "work" (begin the work), "lost expired" or "lost stale", "complete", "release". tests/vectors/lease.json has its cases.
//
// It is counted from when the claim or the renewal was sent, not from when its answer came.
type term struct {
	length    time.Duration
	state     termState
	hasWorked bool
	sent      time.Duration
	until     time.Duration
	next      time.Duration
	renewal   time.Duration // when the renewal that is in flight was sent
	isRenewed bool          // whether one is in flight
}

type termState int

const (
	claiming termState = iota
	waiting            // acquired, but the work waits for a renewal
	working
	expired
	stale
	over
)

func (t *term) isHeld() bool { return t.state == waiting || t.state == working }

// due is when the machine wants a tick; false: never.
func (t *term) due() (time.Duration, bool) {
	if t.isRenewed || t.until < t.next {
		return t.until, t.isHeld()
	}
	return t.next, t.isHeld()
}

func (t *term) claim(at time.Duration) []string {
	t.sent = at
	return nil
}

func (t *term) acquired(at time.Duration) []string {
	t.count(t.sent)
	if at >= t.until {
		return t.lose(expired)
	}
	if at < t.next {
		return t.work()
	}
	t.state = waiting
	return t.renew(at)
}

func (t *term) tick(at time.Duration) []string {
	if !t.isHeld() {
		return nil
	}
	if at >= t.until {
		return t.lose(expired)
	}
	if !t.isRenewed && at >= t.next {
		return t.renew(at)
	}
	return nil
}

func (t *term) renewed(at time.Duration) []string {
	if !t.isHeld() || !t.isRenewed {
		return nil
	}
	t.count(t.renewal)
	t.isRenewed = false
	if t.state != waiting {
		return nil
	}
	if at >= t.until {
		return t.lose(expired)
	}
	return t.work()
}

func (t *term) failed(at time.Duration) []string {
	if t.isHeld() {
		t.isRenewed = false
		t.next = at + t.length/10
	}
	return nil
}

func (t *term) stale(time.Duration) []string {
	if t.isHeld() {
		return t.lose(stale)
	}
	if t.state == expired {
		t.state = stale
	}
	return nil
}

func (t *term) returned(time.Duration) []string { return t.end("complete") }

func (t *term) threw(time.Duration) []string { return t.end("release") }

func (t *term) count(sent time.Duration) {
	t.until = sent + t.length
	t.next = sent + t.length/3
}

func (t *term) renew(at time.Duration) []string {
	t.renewal, t.isRenewed = at, true
	return []string{"renew"}
}

func (t *term) work() []string {
	t.state, t.hasWorked = working, true
	return []string{"work"}
}

func (t *term) lose(how termState) []string {
	t.state = how
	if how == stale {
		return []string{"lost stale"}
	}
	return []string{"lost expired"}
}

// The fence decides in the database whether a lease that has expired was taken over.
func (t *term) end(how string) []string {
	ends := t.hasWorked && (t.state == working || t.state == expired)
	t.state = over
	if ends {
		return []string{how}
	}
	return nil
}
