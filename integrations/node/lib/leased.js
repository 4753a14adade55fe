'use strict';

const { builtin } = require('./builtin.js');
const { setTimeout: sleep } = builtin('node:timers/promises');
const { check } = require('./check.js');
const { StreamedResponse, isDefinite, isSerialization, isUnavailable, sqlstate, typed } = require('./errors.js');
const { flightsOf } = require('./flights.js');
const { Holder } = require('./lease.js');
const { internalError, retryLater, serializationFailure, unavailable } = require('./problem.js');

/**
 * Claims under a lease and commits that, runs outside of a transaction, and stores the response under the fence.
 *
 * When the handler fails, the key is released. Its steps stay, so the next attempt knows what was done outside.
 *
 * Arguments and result as of transactional().
 */
async function leased(core, call, run) {
    if (call.field === null && core.keyRequired === false) return unkeyed(core, call, run);
    const { database, statements, lease } = core;
    const wait = core.wait ?? 0;
    let flight;
    try {
        flight = await flightsOf(database.pool).claim(JSON.stringify(['http', core.schema, call.scope, call.field]), { wait }, async () => {
            let holder;
            // The term begins where the claim is sent, not where it waits for a connection of the pool.
            const answer = await database.transaction(async (connection) => {
                holder = new Holder(lease, () => statements.renew(database, call, answer.fence, lease));
                const begun = await statements.begin(connection, call, { lease, ttl: core.ttl });
                // One statement more, for onOutcome alone.
                if (core.onOutcome && begun.action === 'run' && begun.fence !== null) begun.attempt = await statements.attempt(connection, call, begun.key);
                return begun;
            });
            return { answer, holder, isBusy: answer.action === 'reject' && answer.code === 'in_flight', retryAfterMs: Number(answer.response?.headers['Retry-After']) * 1000 || undefined };
        });
    } catch (error) {
        return { outcome: 'reject', response: claimFailed(core, call, error) };
    }
    try {
        const { answer, holder } = flight.answer;
        core.note(call, answer);
        if (answer.action !== 'run') return { outcome: answer.action, response: answer.response };
        // Without a key there is nothing to hold.
        if (answer.fence === null) return await unkeyed(core, call, run);
        return { fence: answer.fence, attempt: answer.attempt, ...await held(core, call, answer.fence, holder, run) };
    } finally {
        flight.land();
    }
}

async function unkeyed(core, call, run) {
    const result = await run({ scope: call.scope, key: null });
    return core.refusal(call, result) ?? { outcome: 'run', response: result.response };
}

async function held(core, call, fence, holder, run) {
    if (!(await holder.begin())) {
        core.log('error', 'the lease ran out before the work began', holder.signal.reason, call);
        return { outcome: 'reject', response: leaseLost() };
    }
    const { database, statements } = core;
    const work = [];
    let isReleased = false;
    const context = {
        scope: call.scope, key: call.key, fence, signal: holder.signal,
        step: async (name, output) => {
            check('name', name, 'text');
            return statements.step(database, call, fence, name, output);
        },
        steps: () => statements.steps(database, call),
        withResponse: (act) => {
            check('work', act, 'function');
            work.push(act);
        },
        release: async () => {
            if (isReleased) return;
            holder.end('threw');
            await statements.release(database, call, fence);
            isReleased = true;
        },
    };
    const result = await run(context);
    if (isReleased) return core.refusal(call, result) ?? { outcome: 'run', response: result.response };
    const refusal = core.refusal(call, result);
    // The key of work whose response cannot be stored is kept: a repetition would do the work again.
    const hasFailed = result.passed || (result.error && !(result.error instanceof StreamedResponse));
    const ask = holder.end(refusal && hasFailed ? 'threw' : 'returned');
    if (ask === 'release') await tryRelease(core, call, fence);
    if (refusal) return refusal;
    return { outcome: 'run', response: ask === 'complete' ? await store(core, call, fence, work, result.response) : leaseLost() };
}

const leaseLost = () => retryLater('lease_lost', 'The lease ran out, and another request may have taken over.');

function claimFailed(core, call, error) {
    if (isSerialization(error)) return serializationFailure();
    core.log('error', 'begin failed', typed(error, core.schema), call);
    return isUnavailable(error) ? unavailable() : internalError();
}

async function tryRelease(core, call, fence) {
    try {
        await core.statements.release(core.database, call, fence);
    } catch (error) {
        core.log('error', 'the key could not be released; its lease will end', error, call);
    }
}

/** The completion of the same response is repeated where its connection was lost. */
async function store(core, call, fence, work, response) {
    let isCommitting, wasCommitting = false, failure;
    for (const pause of [0, 0, 200, 800]) {
        await sleep(pause);
        // A COMMIT that was lost may have done the work of withResponse: the fence is still good only if it has not.
        const acts = wasCommitting && work.length > 0 && !(await isHeld(core, call, fence)) ? [] : work;
        isCommitting = false;
        try {
            let stored;
            await core.database.transaction(async (connection) => {
                for (const act of acts) await act(connection.handle);
                stored = await core.statements.complete(connection, call, response, fence);
                if (stored === 'released') throw new Error('the scope does not store the status');
                isCommitting = true;
            }).catch((error) => {
                if (stored !== 'released') throw error;
            });
            if (stored === 'released') await tryRelease(core, call, fence);
            if (stored === 'omitted') core.warnOmitted(call);
            return response;
        } catch (error) {
            failure = error;
            wasCommitting ||= isCommitting;
            if (isDefinite(error) || !isUnavailable(error)) break;
        }
    }
    return storeFailed(core, call, failure, wasCommitting);
}

/** True also where that cannot be told: then the completion, which waits for the lost transaction, fails in the same way. */
async function isHeld(core, call, fence) {
    try {
        await core.statements.renew(core.database, call, fence, core.lease);
    } catch (error) {
        return sqlstate(error) !== 'ID001';
    }
    return true;
}

// The handler has done its work. A repetition waits for the end of the lease, unless the COMMIT has succeeded.
function storeFailed(core, call, error, wasCommitting) {
    core.log('error', 'the response of leased work could not be stored', error, call);
    if (sqlstate(error) === 'ID001') return leaseLost();
    const detail = 'The response could not be stored. Repeat the request with the same key.';
    if (isSerialization(error)) return retryLater('serialization_failure', detail);
    if (isDefinite(error) && !isUnavailable(error)) return internalError();
    return retryLater(wasCommitting ? 'commit_unknown' : 'unavailable', detail);
}

module.exports = { leased };
