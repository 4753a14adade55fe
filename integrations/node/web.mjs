import entry from './web.js';

export const { idempotency } = entry;
