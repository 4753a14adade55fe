'use strict';

const { builtin } = require('./builtin.js');
const { createHash } = builtin('node:crypto');

let api = null;
try {
    api = require('@opentelemetry/api');
} catch {
    // It is optional.
}

/** Keys may be personal data: logs of others get a digest. */
const keyHash = (key) => (key === null ? null : createHash('sha256').update(key).digest('hex').slice(0, 32));

/** Sets the attributes of the span in which the request is handled. */
function annotate({ keyHash: hash, outcome, attempt, replayed }) {
    const span = api?.trace.getActiveSpan();
    if (!span) return;
    if (hash !== null) span.setAttribute('idempotency.key_hash', hash);
    span.setAttribute('idempotency.outcome', outcome);
    if (attempt !== undefined) span.setAttribute('idempotency.attempt', attempt);
    span.setAttribute('idempotency.replayed', replayed);
}

module.exports = { keyHash, annotate };
