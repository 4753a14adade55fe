'use strict';

const { check, checkOptions } = require('./check.js');
const { isShared, toDatabase } = require('./drivers.js');
const { milliseconds } = require('./duration.js');

const unkeyedMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];

const kindOf = {
    database: 'any', scope: 'scope', header: 'name', methods: 'methods', keyRequired: 'false', route: 'function', lease: 'timer', wait: 'pause', ttl: 'interval',
    maxBody: 'size', maxResponse: 'size', oversize: 'oversize', storeErrors: 'statuses', fingerprint: 'function', keyFrom: 'function', skip: 'function',
    schema: 'name', onError: 'function', onOutcome: 'function', logger: 'logger',
};
const gone = {
    rollbackOn: 'a returned response is stored whatever its status, and a thrown error rolls back: throw, or let the scope name its unstored_statuses (idem_http_scope_set)',
};

/** Checks the options of a middleware, which index.d.ts describes, and adds the defaults. `lease` and `wait` become milliseconds. */
function readOptions(options = {}) {
    for (const [name, instead] of Object.entries(gone)) {
        if (Object(options)[name] !== undefined) throw new TypeError(`there is no option "${name}": ${instead}`);
    }
    if (typeof options?.query === 'function' || typeof options === 'function') throw new TypeError('the database is an option: { database, scope }');
    checkOptions(options, kindOf);
    const { scope, header = 'Idempotency-Key', methods, lease, wait, maxBody = 1024 * 1024, maxResponse = 1024 * 1024, oversize = 'omit', storeErrors = [],
        schema = 'idem' } = options;
    check('scope', scope, 'scope');
    const database = toDatabase(options.database);
    if (!isShared(options.database)) throw new TypeError('"database" must be a pool: requests that run at the same time cannot share a client or a transaction');
    if (lease !== undefined && oversize === 'rollback') {
        throw new TypeError(`"oversize" 'rollback' does not go with "lease": what leased work has done cannot be rolled back`);
    }
    return {
        ...options, database, header: header.toLowerCase(), maxBody, maxResponse, oversize, storeErrors, schema,
        lease: lease === undefined ? undefined : milliseconds(lease), wait: wait === undefined ? undefined : milliseconds(wait),
        isKeyed: methods ? (method) => methods.includes(method) : (method) => !unkeyedMethods.includes(method),
    };
}

module.exports = { readOptions };
