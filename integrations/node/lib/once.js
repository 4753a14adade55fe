'use strict';

const { builtin } = require('./builtin.js');
const { setTimeout: sleep } = builtin('node:timers/promises');
const { check, checkOptions } = require('./check.js');
const { toDatabase } = require('./drivers.js');
const { milliseconds } = require('./duration.js');
const { CommitUnknown, InDoubt, InFlight, Mismatch, isDefinite, isLost, isSerialization, isUnavailable } = require('./errors.js');
const { flightsOf } = require('./flights.js');
const { Idem } = require('./functions.js');
const { pack, unpack } = require('./json.js');

const undo = new Error('rolled back by idem-postgres');

/** Raises what a ticket that is neither new nor completed says. */
function refuse(ticket, key) {
    if (ticket.outcome === 'mismatch') throw new Mismatch(`key "${key}" was used with another fingerprint`);
    if (ticket.outcome === 'in_doubt') throw new InDoubt(`key "${key}" is in doubt: an earlier attempt may have done its work`);
    throw new InFlight(`key "${key}" is in flight`, undefined, undefined, ticket.retryAfterMs);
}

const replay = (ticket) => ({ value: unpack(ticket.response), replayed: true, omitted: ticket.responseOmitted === true, stored: ticket.responseOmitted !== true });

/** Tells the program, whose next call gets no value. */
const isStored = (stored) => ({ omitted: !stored, stored });

/**
 * Runs the work once for a key: claim, work and result in one transaction. index.d.ts describes it.
 *
 * A serialization failure or a connection that is lost before COMMIT runs the work again, in a new transaction, `attempts` times at most. When the
 * connection is lost in COMMIT, the next claim finds out.
 */
async function once(handle, key, options, work) {
    check('key', key, 'text');
    checkOptions(options, { scope: 'text', fingerprint: 'bytea', ttl: 'interval', wait: 'pause', signal: 'signal', attempts: 'attempts', schema: 'name' });
    check('work', work, 'function');
    const { scope = '', wait = '10 s', signal, attempts = 4, schema = 'idem' } = options;
    const database = toDatabase(handle);
    const call = { database, key, options, work, scope, schema };
    const until = performance.now() + milliseconds(wait);
    let wasCommitting = false;
    for (let attempt = 1; ; attempt++) {
        // One call for each key: the others wait here. What another process holds is asked again and again, so that no waiter keeps a connection.
        const ask = async () => {
            const tried = await attemptOnce(call);
            return { ...tried, isBusy: tried.stage === 'begin' && tried.error instanceof InFlight, retryAfterMs: tried.error?.retryAfterMs ?? undefined };
        };
        const left = Math.max(0, until - performance.now());
        const { answer, land } = await flightsOf(database.pool).claim(JSON.stringify(['once', schema, scope, key]), { wait: left, signal }, ask);
        land();
        const { result, error, stage } = answer;
        if (result) return result;
        wasCommitting ||= stage === 'commit' && !isDefinite(error);
        const isAgain = isSerialization(error) || (stage === 'run' ? isLost(error) : isUnavailable(error));
        if (!isAgain || attempt >= attempts) {
            throw wasCommitting && !isDefinite(error) ? new CommitUnknown(`the connection was lost in the COMMIT of key "${key}"`, undefined, error) : error;
        }
        await sleep(isSerialization(error) ? 20 * attempt * Math.random() : 100 * 2 ** attempt, undefined, { signal });
    }
}

/** → { result } or { error, stage } */
async function attemptOnce({ database, key, options, work, scope, schema }) {
    const { fingerprint, ttl, signal } = options;
    let stage = 'begin', result = null, doubt = null;
    try {
        await database.transaction(async (connection) => {
            const idem = new Idem(connection, { schema });
            const ticket = await idem.begin(key, { scope, fingerprint, ttl, wait: '0 ms' });
            if (ticket.outcome === 'completed') {
                result = replay(ticket);
                throw undo;
            }
            // COMMIT records the doubt.
            if (ticket.outcome === 'in_doubt') {
                doubt = ticket;
                return;
            }
            if (ticket.outcome !== 'acquired') refuse(ticket, key);
            signal?.throwIfAborted();
            stage = 'run';
            const value = await work({ client: connection.handle, idem, key, scope });
            signal?.throwIfAborted();
            stage = 'complete';
            // undefined is a call without a result.
            const stored = await idem.complete(key, { scope, response: value === undefined ? undefined : pack(value) });
            stage = 'commit';
            result = { value, replayed: false, ...isStored(stored) };
        });
        if (doubt) refuse(doubt, key);
        return { result };
    } catch (error) {
        return error === undo ? { result } : { error, stage };
    }
}

module.exports = { once, refuse, replay, isStored };
