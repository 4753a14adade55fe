import entry from './nestjs.js';

export const { IDEMPOTENCY, Idempotent, IdempotencyInterceptor } = entry;
