import entry from './agents.js';

export const { idempotency, ToolRefused } = entry;
