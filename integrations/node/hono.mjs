import entry from './hono.js';

export const { idempotency } = entry;
