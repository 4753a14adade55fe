'use strict';

const { STATUS_CODES } = require('node:http');

/** A response of the middleware's own, as application/problem+json (RFC 9457) with idem's member `code`. */
function problem(status, code, detail, headers = {}) {
    const body = { type: 'about:blank', title: STATUS_CODES[status], status, code, detail };
    return { status, headers: { 'content-type': 'application/problem+json', ...headers }, body: Buffer.from(JSON.stringify(body)) };
}

/** Nothing of the request was kept, or a repetition will show what was: the client may send it again in a second. */
const retryLater = (code, detail) => problem(503, code, detail, { 'retry-after': '1' });

const internalError = () => problem(500, 'internal', 'The request was not processed. The log of the server has the reason.');

module.exports = { problem, retryLater, internalError };
