import type { Database } from './index';

/** The database of a DataSource; the handler's client is the EntityManager of the transaction. */
export function fromTypeOrm(typeorm: any): Database;
