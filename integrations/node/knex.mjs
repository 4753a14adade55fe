import entry from './knex.js';

export const { fromKnex } = entry;
