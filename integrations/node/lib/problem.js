'use strict';

const { builtin } = require('./builtin.js');
const { STATUS_CODES } = builtin('node:http');

/** A response of the middleware's own, as application/problem+json (RFC 9457) with idem's member `code`. */
function problem(status, code, detail, headers = {}) {
    const body = { type: 'about:blank', title: STATUS_CODES[status], status, code, detail };
    return { status, headers: { 'content-type': 'application/problem+json', ...headers }, body: Buffer.from(JSON.stringify(body)), code };
}

/** Nothing of the request was kept, or a repetition will show what was: the client may send it again in a second. */
const retryLater = (code, detail) => problem(503, code, detail, { 'retry-after': '1' });

const serializationFailure = () => retryLater('serialization_failure', 'The transaction met another one and was rolled back.');
const unavailable = () => retryLater('unavailable', 'The database could not be reached, or the connection was lost. Nothing was done.');
const internalError = (detail = 'The request was not processed. The log of the server has the reason.') => problem(500, 'internal', detail);

module.exports = { problem, retryLater, serializationFailure, unavailable, internalError };
