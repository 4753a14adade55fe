import entry from './kysely.js';

export const { fromKysely } = entry;
