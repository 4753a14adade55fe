import entry from './mcp.js';

export const { idempotency } = entry;
