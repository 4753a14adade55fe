'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const { isDefinite, isSerialization, sqlstate } = require('./errors.js');
const { Idem } = require('./functions.js');
const { internalError, problem, retryLater } = require('./problem.js');

// What makes the transaction roll back when `outcome` says what to answer.
const undo = new Error('rolled back by idem-postgres');

/**
 * Claims, runs and completes in one transaction.
 *
 * @param run (context) → promise of { response, error, passed }, as of Capture; does not reject
 * @returns { outcome, response, error }; no response if the handler passed or its error is to be thrown
 */
async function transactional(engine, call, run) {
    const { database, statements } = engine;
    let stage = 'begin', outcome = null, response;
    const rollback = (answer) => {
        outcome = answer;
        throw undo;
    };
    try {
        await database.transaction(async (connection) => {
            if (call.field !== null || engine.keyRequired !== false) {
                const answer = await statements.begin(connection, call, engine);
                call.key = answer.key;
                call.added = answer.headers;
                if (answer.action !== 'run') rollback({ outcome: answer.action, response: answer.response });
            }
            stage = 'run';
            const result = await run({ scope: call.scope, key: call.key, client: connection.handle, functions: new Idem(connection, { schema: engine.schema }) });
            if (result.passed || result.error) rollback(engine.afterFailure(result));
            ({ response } = result);
            if (engine.rollbackOn(response.status)) rollback({ outcome: 'run', response });
            stage = 'complete';
            await statements.complete(connection, call, response);
            stage = 'commit';
        });
        return { outcome: 'run', response };
    } catch (error) {
        if (outcome) return outcome;
        return { outcome: 'run', response: await afterError(engine, call, stage, response, error) };
    }
}

async function afterError(engine, call, stage, response, error) {
    if (isSerialization(error)) return retryLater('serialization_failure', 'The transaction met another one and was rolled back.');
    if (stage === 'complete') {
        // One of the scope's unstored_statuses.
        if (sqlstate(error) === '25000') return response;
        // The handler has caught the error of a statement and answered it. Nothing can be stored, and nothing was done.
        if (sqlstate(error) === '25P02' && response.status >= 400) return response;
    }
    engine.log('error', `idem: ${stage} failed`, error);
    if (isDefinite(error)) return internalError();
    if (stage !== 'commit') return retryLater('unavailable', 'The database could not be reached, or the connection was lost. Nothing was done.');
    return (await findCommitted(engine, call)) ?? unknownCommit(call);
}

// The connection was lost in COMMIT. The server may take a moment to notice that, and to end the transaction if it had not committed.
async function findCommitted({ database, statements, log }, call) {
    if (call.key === null) return null;
    for (const pause of [0, 200, 1000]) {
        await sleep(pause);
        let answer;
        try {
            await database.transaction(async (connection) => {
                answer = await statements.begin(connection, call);
                throw undo;
            });
        } catch (error) {
            if (answer === undefined) log('error', 'idem: could not look up the outcome of COMMIT', error);
        }
        if (answer?.action === 'replay') return answer.response;
        if (answer?.action === 'run') return null;
    }
    return null;
}

const unknownCommit = ({ key }) => (key === null ?
    problem(500, 'commit_unknown', 'The connection to the database was lost in COMMIT. The request may or may not have been processed.') :
    retryLater('commit_unknown', 'The connection to the database was lost in COMMIT. Repeat the request with the same key.'));

module.exports = { transactional };
