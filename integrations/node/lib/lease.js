'use strict';

const { sqlstate } = require('./errors.js');

/**
 * A lease as a state machine without a clock, a timer or a database: each event has its time, in milliseconds of one monotonic clock, and returns what to do
 * now: 'renew' (send a renewal), 'work' (begin the work), 'lost expired' or 'lost stale', 'complete', 'release'. tests/vectors/lease.json has its cases.
 *
 * The term is counted from when the claim or the renewal was sent, not from when its answer came.
 */
class Lease {
    #length;
    #state = 'claiming'; // waiting: acquired, but the work waits for a renewal; working; expired; stale; over
    #hasWorked = false;
    #sent;
    #until;
    #next;
    #renewal = null; // when the renewal that is in flight was sent

    constructor(length) {
        this.#length = length;
    }

    /** When the machine wants a tick; null: never. */
    get due() {
        if (!this.#isHeld) return null;
        return this.#renewal === null ? Math.min(this.#until, this.#next) : this.#until;
    }

    claim(at) {
        this.#sent = at;
        return [];
    }

    acquired(at) {
        this.#term(this.#sent);
        if (at >= this.#until) return this.#lose('expired');
        if (at < this.#next) return this.#work();
        this.#state = 'waiting';
        return this.#renew(at);
    }

    tick(at) {
        if (!this.#isHeld) return [];
        if (at >= this.#until) return this.#lose('expired');
        return this.#renewal === null && at >= this.#next ? this.#renew(at) : [];
    }

    renewed(at) {
        if (!this.#isHeld || this.#renewal === null) return [];
        this.#term(this.#renewal);
        this.#renewal = null;
        if (this.#state !== 'waiting') return [];
        return at >= this.#until ? this.#lose('expired') : this.#work();
    }

    failed(at) {
        if (!this.#isHeld) return [];
        this.#renewal = null;
        this.#next = at + this.#length / 10;
        return [];
    }

    stale() {
        if (this.#state === 'expired') this.#state = 'stale';
        return this.#isHeld ? this.#lose('stale') : [];
    }

    returned() {
        return this.#end('complete');
    }

    threw() {
        return this.#end('release');
    }

    get #isHeld() {
        return this.#state === 'waiting' || this.#state === 'working';
    }

    #term(sent) {
        this.#until = sent + this.#length;
        this.#next = sent + this.#length / 3;
    }

    #renew(at) {
        this.#renewal = at;
        return ['renew'];
    }

    #work() {
        this.#state = 'working';
        this.#hasWorked = true;
        return ['work'];
    }

    #lose(how) {
        this.#state = how;
        return [`lost ${how}`];
    }

    // The fence decides in the database whether a lease that has expired was taken over.
    #end(how) {
        const asks = this.#hasWorked && (this.#state === 'working' || this.#state === 'expired') ? [how] : [];
        this.#state = 'over';
        return asks;
    }
}

// A longer timer of Node fires at once.
const longestTimer = 2 ** 31 - 1;
const reasons = { 'lost stale': 'the lease has passed to another holder', 'lost expired': 'the lease ran out and could not be renewed in time' };

/**
 * Runs a Lease: a timer watches its end and never waits for the database; renewals are sent beside it.
 *
 * Make it before the claim is sent. After the claim, `await begin()`: false, the lease is lost and the work must not begin. `signal` is aborted when the lease
 * is lost, also where the event loop was busy: `signal.aborted` looks at the clock. end('returned' | 'threw') ends it: 'complete', 'release' or undefined.
 */
class Holder {
    #lease;
    #renew;
    #controller = new AbortController();
    #timer;
    #begun;
    #begin;

    /** @param renew () → promise of false, or rejected with ID001, if the lease has passed to another holder; another rejection is tried again */
    constructor(length, renew) {
        this.#lease = new Lease(length);
        this.#renew = renew;
        this.#begun = new Promise((resolve) => { this.#begin = resolve; });
        this.signal = watched(this.#controller.signal, () => this.#tell('tick'));
        this.#tell('claim');
    }

    begin() {
        this.#tell('acquired');
        return this.#begun;
    }

    end(how) {
        const [ask] = this.#tell(how);
        return ask;
    }

    /** Another call has said that the fence is stale. */
    stale() {
        this.#tell('stale');
    }

    #tell(event) {
        const asks = this.#lease[event](performance.now());
        for (const ask of asks) {
            if (ask === 'renew') this.#send();
            else if (ask === 'work') this.#begin(true);
            else if (reasons[ask]) this.#lose(ask);
        }
        clearTimeout(this.#timer);
        const { due } = this.#lease;
        // 1 ms later, because a timer may fire a fraction early.
        if (due !== null) this.#timer = setTimeout(() => this.#tell('tick'), Math.min(Math.max(0, due - performance.now()) + 1, longestTimer)).unref();
        return asks;
    }

    #lose(ask) {
        this.#begin(false);
        this.#controller.abort(new Error(reasons[ask]));
    }

    async #send() {
        try {
            this.#tell((await this.#renew()) === false ? 'stale' : 'renewed');
        } catch (error) {
            this.#tell(sqlstate(error) === 'ID001' ? 'stale' : 'failed');
        }
    }
}

/** The signal looks at the clock where it is asked: a timer cannot fire while the event loop is busy. */
function watched(signal, look) {
    const { get } = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted');
    const aborted = () => get.call(signal) || (look(), get.call(signal));
    return Object.defineProperties(signal, {
        aborted: { configurable: true, get: aborted },
        throwIfAborted: { configurable: true, value: () => { if (aborted()) throw signal.reason; } },
    });
}

module.exports = { Lease, Holder, watched, longestTimer };
