import type { Database } from './index';

/** The database of a Knex instance; the handler's client is its transaction. */
export function fromKnex(knex: any): Database;
