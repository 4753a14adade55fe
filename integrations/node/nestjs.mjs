import entry from './nestjs.js';

export const { IdempotencyInterceptor } = entry;
