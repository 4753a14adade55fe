'use strict';

const { Database } = require('./lib/database.js');

/**
 * The database of a PrismaClient. The handler's client is the client of the interactive transaction.
 *
 * @param options of $transaction. Prisma rolls back a transaction that takes longer than `timeout`, in milliseconds; here a minute by default.
 */
const fromPrisma = (prisma, options = { timeout: 60_000 }) =>
    new Database(prisma, (handle, text, parameters) => handle.$queryRawUnsafe(text, ...parameters), (work) => prisma.$transaction(work, options));

module.exports = { fromPrisma };
