'use strict';

const { builtin } = require('./builtin.js');
const { setTimeout: sleep } = builtin('node:timers/promises');

const first = 20, longest = 250;

/**
 * One call for each key in a process: the others wait here, where they hold no connection, and the call itself sleeps between short questions.
 *
 * So a waiter never holds a connection that the renewal of a lease needs.
 */
class Flights {
    #byKey = new Map();

    /**
     * @param key of the flight
     * @param wait how long to ask again, in milliseconds
     * @param ask () → promise of { isBusy, retryAfterMs, … }
     * @returns { answer, land }: the last answer, and what ends the flight, to be called when the work is over
     */
    async claim(key, { wait = 0, signal }, ask) {
        const until = performance.now() + wait;
        const left = () => until - performance.now();
        const pause = (ms) => sleep(Math.max(0, Math.min(ms, left())), undefined, { signal, ref: true });
        while (this.#byKey.has(key) && left() > 0) await this.#other(key, left(), signal);
        const land = this.#takeOff(key);
        try {
            for (let backoff = first; ; backoff = Math.min(backoff * 2, longest)) {
                signal?.throwIfAborted();
                const answer = await ask();
                if (!answer.isBusy || left() <= 0) return { answer, land };
                await pause(Math.min(backoff * (0.5 + Math.random() / 2), answer.retryAfterMs ?? Infinity));
            }
        } catch (error) {
            land();
            throw error;
        }
    }

    /** Waits for the other flight, at most `ms`. */
    async #other(key, ms, signal) {
        const timer = new AbortController();
        const waits = [this.#byKey.get(key), sleep(ms, undefined, { signal: timer.signal }).catch(() => {})];
        let give;
        if (signal) waits.push(new Promise((_, reject) => signal.addEventListener('abort', give = () => reject(signal.reason), { once: true })));
        try {
            signal?.throwIfAborted();
            await Promise.race(waits);
        } finally {
            timer.abort();
            if (give) signal.removeEventListener('abort', give);
        }
    }

    // A caller whose time is over asks once beside the flight, and does not take its place.
    #takeOff(key) {
        if (this.#byKey.has(key)) return () => {};
        let end;
        const flight = new Promise((resolve) => { end = resolve; });
        this.#byKey.set(key, flight);
        return () => {
            if (this.#byKey.get(key) === flight) this.#byKey.delete(key);
            end();
        };
    }
}

const byPool = new WeakMap();

/** The flights on a pool, which all its users share. */
function flightsOf(pool) {
    if (!byPool.has(pool)) byPool.set(pool, new Flights());
    return byPool.get(pool);
}

module.exports = { flightsOf };
