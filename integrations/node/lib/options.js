'use strict';

const { check, checkOptions } = require('./check.js');
const { toDatabase } = require('./drivers.js');

const unkeyedMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];

const kindOf = {
    database: 'any', scope: 'scope', header: 'name', methods: 'methods', keyRequired: 'false', route: 'function', lease: 'timer', wait: 'interval',
    ttl: 'interval', maxBody: 'size', schema: 'name', rollbackOn: 'function', onOutcome: 'function', logger: 'logger',
};

/** Checks the options of a middleware, which index.d.ts describes, and adds the defaults. */
function readOptions(options = {}) {
    checkOptions(options, kindOf);
    const { scope, header = 'Idempotency-Key', methods, keyRequired, route, lease, wait, ttl, maxBody = 1024 * 1024, schema = 'idem',
        rollbackOn = (status) => status >= 500, onOutcome, logger } = options;
    check('scope', scope, 'scope');
    return {
        database: toDatabase(options.database), scope, header: header.toLowerCase(), keyRequired, route, lease, wait, ttl, maxBody, schema, rollbackOn, onOutcome, logger,
        isKeyed: methods ? (method) => methods.includes(method) : (method) => !unkeyedMethods.includes(method),
    };
}

module.exports = { readOptions };
