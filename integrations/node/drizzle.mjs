import entry from './drizzle.js';

export const { fromDrizzle } = entry;
