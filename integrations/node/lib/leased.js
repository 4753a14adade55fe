'use strict';

const { check } = require('./check.js');
const { isDefinite, isSerialization, sqlstate } = require('./errors.js');
const { heartbeat } = require('./heartbeat.js');
const { internalError, retryLater } = require('./problem.js');

/**
 * Claims under a lease and commits that, runs outside of a transaction, and stores the response under the fence.
 *
 * When the handler fails, the key is released. Its steps stay, so the next attempt knows what was done outside.
 *
 * Arguments and result as of transactional().
 */
async function leased(engine, call, run) {
    const { database, statements, lease } = engine;
    let answer;
    if (call.field === null && engine.keyRequired === false) answer = { action: 'run', fence: null };
    else {
        try {
            answer = await database.transaction((connection) => statements.begin(connection, call, engine));
        } catch (error) {
            return { outcome: 'reject', response: beginFailed(engine, error) };
        }
        call.key = answer.key;
        call.added = answer.headers;
    }
    if (answer.action !== 'run') return { outcome: answer.action, response: answer.response };
    const { fence } = answer;
    // Without a key there is nothing to hold.
    if (fence === null) return finish(engine, await run({ scope: call.scope, key: null }), { store: (response) => response, release() {} });

    const beats = heartbeat(lease, () => statements.renew(database, call, fence, lease));
    const withResponse = [];
    let released = false;
    const release = async () => {
        beats.stop();
        await statements.release(database, call, fence);
        released = true;
    };
    const context = {
        scope: call.scope, key: call.key, fence, signal: beats.signal,
        step: async (name, output) => {
            check('name', name, 'text');
            return statements.step(database, call, fence, name, output);
        },
        steps: () => statements.steps(database, call),
        withResponse: (work) => {
            check('work', work, 'function');
            withResponse.push(work);
        },
        release,
    };
    const store = async (response) => {
        if (released) return response;
        let isUnstored = false, isCommitting = false;
        try {
            await database.transaction(async (connection) => {
                for (const work of withResponse) await work(connection.handle);
                isUnstored = (await statements.complete(connection, call, response, fence)) === 'released';
                if (isUnstored) throw new Error('the scope does not store the status');
                isCommitting = true;
            });
            return response;
        } catch (error) {
            if (isUnstored) {
                await tryRelease(engine, release);
                return response;
            }
            return storeFailed(engine, error, isCommitting);
        }
    };
    try {
        return { fence, ...await finish(engine, await run(context), { store, release: () => released || release() }) };
    } finally {
        beats.stop();
    }
}

function beginFailed({ log }, error) {
    if (isSerialization(error)) return retryLater('serialization_failure', 'The transaction met another one and was rolled back.');
    log('error', 'idem: begin failed', error);
    return isDefinite(error) ? internalError() : retryLater('unavailable', 'The database could not be reached. Nothing was done.');
}

async function finish(engine, result, { store, release }) {
    const { response } = result;
    const failed = result.passed || result.error;
    if (failed || engine.rollbackOn(response.status)) {
        await tryRelease(engine, release);
        return failed ? engine.afterFailure(result) : { outcome: 'run', response };
    }
    return { outcome: 'run', response: await store(response) };
}

async function tryRelease({ log }, release) {
    try {
        await release();
    } catch (error) {
        log('error', 'idem: the key could not be released; its lease will end', error);
    }
}

// The handler has done its work. A repetition waits for the end of the lease, unless the COMMIT has succeeded.
function storeFailed({ log }, error, isCommitting) {
    log('error', 'idem: the response of leased work could not be stored', error);
    if (sqlstate(error) === 'ID001') return retryLater('lease_lost', 'The lease ran out, and another request took over.');
    const detail = 'The response could not be stored. Repeat the request with the same key.';
    if (isSerialization(error)) return retryLater('serialization_failure', detail);
    if (isDefinite(error)) return internalError();
    return retryLater(isCommitting ? 'commit_unknown' : 'unavailable', detail);
}

module.exports = { leased };
