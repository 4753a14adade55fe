import entry from './koa.js';

export const { idempotency } = entry;
