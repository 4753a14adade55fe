'use strict';

const { toDatabase } = require('./drivers.js');

const unkeyedMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];

const requireType = (value, type, name, what) => {
    if (typeof value !== type) throw new TypeError(`"${name}" must be ${what}`);
};

/** Checks the options of a middleware, which index.d.ts describes, and adds the defaults. */
function readOptions(options = {}) {
    const { scope, header = 'Idempotency-Key', methods, keyRequired, route, lease, wait, ttl, maxBody = 1024 * 1024, schema = 'idem',
        rollbackOn = (status) => status >= 500, onOutcome, logger } = options;
    requireType(scope, 'function', 'scope', 'a function of the request that returns the authenticated client and the API');
    requireType(header, 'string', 'header', 'a name');
    requireType(rollbackOn, 'function', 'rollbackOn', 'a function of the status');
    if (route !== undefined) requireType(route, 'function', 'route', 'a function of the request');
    if (onOutcome !== undefined) requireType(onOutcome, 'function', 'onOutcome', 'a function');
    if (methods !== undefined && !Array.isArray(methods)) throw new TypeError('"methods" must be an array');
    if (keyRequired !== undefined && keyRequired !== false) throw new TypeError('"keyRequired" is false or not given');
    if (lease !== undefined && !(lease >= 1)) throw new TypeError('"lease" must be a number of milliseconds');
    if (!(maxBody >= 0)) throw new TypeError('"maxBody" must be a number of bytes');
    return {
        database: toDatabase(options.database), scope, header: header.toLowerCase(), keyRequired, route, lease, wait, ttl, maxBody, schema, rollbackOn, onOutcome, logger,
        isKeyed: methods ? (method) => methods.includes(method) : (method) => !unkeyedMethods.includes(method),
    };
}

module.exports = { readOptions };
