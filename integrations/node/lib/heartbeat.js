'use strict';

const { sqlstate } = require('./errors.js');

/**
 * Renews a lease every third of it.
 *
 * @param lease in milliseconds
 * @param renew () → promise of false if the lease has passed to another holder; may reject
 * @returns { signal, stop }: the signal is aborted when the lease is lost, or when no renewal has succeeded for its length
 */
function heartbeat(lease, renew) {
    const lost = new AbortController();
    let stopped = false, next, deadline;
    const stop = () => {
        stopped = true;
        clearTimeout(next);
        clearTimeout(deadline);
    };
    // A renewal that meets the end of the work is no loss.
    const lose = (reason) => {
        if (stopped) return;
        stop();
        lost.abort(reason);
    };
    const plan = (start) => {
        clearTimeout(deadline);
        deadline = setTimeout(lose, start + lease - performance.now(), new Error('the lease could not be renewed')).unref();
    };
    const beat = async () => {
        const asked = performance.now();
        try {
            if ((await renew()) === false) return lose(new Error('the lease has passed to another holder'));
            if (!stopped) plan(asked);
        } catch (error) {
            if (sqlstate(error) === 'ID001') return lose(error);
        }
        if (!stopped) next = setTimeout(beat, lease / 3).unref();
    };
    plan(performance.now());
    next = setTimeout(beat, lease / 3).unref();
    return { signal: lost.signal, stop };
}

module.exports = { heartbeat };
