'use strict';

const { builtin } = require('./builtin.js');
const { setTimeout: sleep } = builtin('node:timers/promises');
const { RolledBack, isDefinite, isSerialization, isUnavailable, sqlstate, typed } = require('./errors.js');
const { Idem } = require('./functions.js');
const { internalError, problem, retryLater, serializationFailure, unavailable } = require('./problem.js');

// What makes the transaction roll back when `outcome` says what to answer.
const undo = new Error('rolled back by idem-postgres');

/**
 * Claims, runs and completes in one transaction.
 *
 * @param run (context) → promise of { response, error, passed }, as of Capture; does not reject
 * @returns { outcome, response, error }; no response if the handler passed or its error is to be thrown
 */
async function transactional(core, call, run) {
    const { database, statements } = core;
    let stage = 'begin', outcome = null, response;
    const rollback = (answer) => {
        outcome = answer;
        throw undo;
    };
    try {
        await database.transaction(async (connection) => {
            if (call.field !== null || core.keyRequired !== false) {
                const answer = await statements.begin(connection, call, core);
                core.note(call, answer);
                if (answer.action !== 'run') {
                    outcome = { outcome: answer.action, response: answer.response };
                    // COMMIT records the doubt.
                    if (answer.code === 'in_doubt') return;
                    throw undo;
                }
            }
            stage = 'run';
            const result = await run({ scope: call.scope, key: call.key, client: connection.handle, functions: new Idem(connection, { schema: core.schema }) });
            const refusal = core.refusal(call, result);
            if (refusal) rollback(refusal);
            ({ response } = result);
            stage = 'complete';
            if ((await statements.complete(connection, call, response)) === 'omitted') {
                if (core.oversize === 'rollback') rollback({ outcome: 'run', response: core.tooLarge(call) });
                core.warnOmitted(call);
            }
            stage = 'commit';
        });
        return outcome ?? { outcome: 'run', response };
    } catch (error) {
        return outcome ?? { outcome: 'run', response: await afterError(core, call, stage, response, error) };
    }
}

async function afterError(core, call, stage, response, error) {
    if (isSerialization(error)) return serializationFailure();
    const code = sqlstate(error);
    if (stage === 'complete') {
        // One of the scope's unstored_statuses.
        if (code === '25000') return response;
        // The handler has caught the error of a statement and answered it. Nothing can be stored, and nothing was done.
        if (code === '25P02' && response.status >= 400) return response;
    }
    core.log('error', `${stage} failed`, typed(error, core.schema), call);
    if (error instanceof RolledBack) return problem(500, 'rolled_back', 'The transaction was rolled back. Nothing was done.');
    if (stage === 'complete' && code === 'ID001') {
        return internalError('The handler has ended the transaction by itself, so its work may have been committed. The response was not stored.');
    }
    if (stage === 'commit' && !isDefinite(error)) return findCommitted(core, call, response);
    return isUnavailable(error) ? unavailable() : internalError();
}

// The connection was lost in COMMIT. The server may take a moment to notice that, and to end the transaction if it had not committed.
async function findCommitted(core, call, response) {
    if (call.key === null) {
        return problem(500, 'commit_unknown', 'The connection to the database was lost in COMMIT. The request may or may not have been processed.');
    }
    for (const pause of [0, 200, 800]) {
        await sleep(pause);
        const action = await lookUp(core, call);
        if (action === 'replay') return response;
        if (action === 'run') return retryLater('not_committed', 'The connection to the database was lost in COMMIT, which did not happen. Nothing was done.');
    }
    return retryLater('commit_unknown', 'The connection to the database was lost in COMMIT. Repeat the request with the same key.');
}

async function lookUp(core, call) {
    let action;
    try {
        await core.database.transaction(async (connection) => {
            ({ action } = await core.statements.begin(connection, call));
            throw undo;
        });
    } catch (error) {
        if (action === undefined) core.log('error', 'could not look up the outcome of COMMIT', error, call);
    }
    return action;
}

module.exports = { transactional };
