import type { Database } from './index';

/** The database of a Kysely instance; the handler's client is its transaction. */
export function fromKysely(kysely: any): Database;
