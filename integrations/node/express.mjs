import entry from './express.js';

export const { idempotency, keepRawBody } = entry;
