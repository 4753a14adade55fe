import entry from './core.js';

export const { Core, Capture, readBody, current } = entry;
