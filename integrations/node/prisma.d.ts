import type { Database } from './index';

/**
 * The database of a PrismaClient; the handler's client is the client of the interactive transaction.
 *
 * `options` are those of $transaction. Prisma rolls back a transaction that takes longer than `timeout`, in milliseconds; here a minute by default.
 */
export function fromPrisma(prisma: any, options?: { timeout?: number; maxWait?: number; isolationLevel?: any }): Database;
