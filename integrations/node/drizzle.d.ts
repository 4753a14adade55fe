import type { Database } from './index';

/** The database of a Drizzle instance on node-postgres or postgres.js; the handler's client is its transaction. */
export function fromDrizzle(drizzle: any): Database;
