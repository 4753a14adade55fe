import entry from './fastify.js';

export const { idempotency } = entry;
