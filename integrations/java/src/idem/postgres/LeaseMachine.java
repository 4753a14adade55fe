package idem.postgres;

/**
 * One lease as a state machine without clock, threads or database: tests/vectors/lease.json. Its caller feeds it each
 * event with the time, does what it asks for, and feeds a tick when {@link #due} has come. Times are of one monotonic
 * clock, in any unit. A lease lasts from before its claim or renewal was sent, because nobody knows when the server
 * granted it. Not safe for use by several threads.
 */
final class LeaseMachine {
    enum Ask { NOTHING, RENEW, WORK, LOST_EXPIRED, LOST_STALE, COMPLETE, RELEASE }

    private enum State { CLAIMING, WAITING, WORKING, EXPIRED, STALE, ENDED }

    /** {@link #due}: nothing is due any more. */
    static final long NEVER = Long.MAX_VALUE;

    private final long length;
    private State state = State.CLAIMING;
    private long sent; // when the claim or the renewal in flight was sent
    private long until;
    private long next; // renewal
    private boolean inFlight;

    LeaseMachine(long length) {
        this.length = length;
    }

    void claim(long at) {
        sent = at;
    }

    /** WORK, RENEW (the work waits for it), or LOST_EXPIRED. */
    Ask acquired(long at) {
        prolong();
        state = State.WAITING;
        if (at >= until) return lose(State.EXPIRED);
        return at >= next ? renew(at) : work();
    }

    Ask tick(long at) {
        if (!isHeld()) return Ask.NOTHING;
        if (at >= until) return lose(State.EXPIRED);
        return at >= next && !inFlight ? renew(at) : Ask.NOTHING;
    }

    /** The answer to a renewal. WORK if the work has waited for it. */
    Ask renewed(long at) {
        if (!isHeld()) return Ask.NOTHING;
        inFlight = false;
        prolong();
        if (state == State.WORKING) return Ask.NOTHING;
        return at >= until ? lose(State.EXPIRED) : work();
    }

    /** The lease has passed on. */
    Ask stale(long at) {
        if (state == State.EXPIRED) state = State.STALE;
        return isHeld() ? lose(State.STALE) : Ask.NOTHING;
    }

    /** A renewal had no answer. */
    void failed(long at) {
        inFlight = false;
        next = at + length / 10;
    }

    /** COMPLETE also after the end of the lease, where the fence decides in the database. */
    Ask returned(long at) {
        return end(Ask.COMPLETE);
    }

    Ask threw(long at) {
        return end(Ask.RELEASE);
    }

    long due() {
        if (!isHeld()) return NEVER;
        return inFlight ? until : Math.min(until, next);
    }

    boolean isLost() {
        return state == State.EXPIRED || state == State.STALE;
    }

    private boolean isHeld() {
        return state == State.WAITING || state == State.WORKING;
    }

    private void prolong() {
        until = sent + length;
        next = sent + length / 3;
    }

    private Ask renew(long at) {
        inFlight = true;
        sent = at;
        return Ask.RENEW;
    }

    private Ask work() {
        state = State.WORKING;
        return Ask.WORK;
    }

    private Ask lose(State how) {
        state = how;
        return how == State.STALE ? Ask.LOST_STALE : Ask.LOST_EXPIRED;
    }

    private Ask end(Ask ask) {
        boolean nothing = state == State.STALE || state == State.ENDED;
        if (state != State.STALE) state = State.ENDED;
        return nothing ? Ask.NOTHING : ask;
    }
}
