'use strict';

const { Database, lend } = require('./database.js');
const { ConnectionLost, RolledBack } = require('./errors.js');

const pgRows = async (client, text, parameters) => (await client.query(text, parameters)).rows;

const lendClient = (client) => lend(client, { release() {} });

/**
 * Without a listener for `error`, a connection that is lost ends the process. `use` gets the client and `lost`: its `promise` is rejected when the connection
 * is lost, `isLost` says so.
 */
async function withClient(pool, use) {
    const client = await pool.connect();
    const lost = { isLost: false };
    let onError;
    lost.promise = new Promise((_, reject) => {
        onError = (error) => {
            lost.isLost = true;
            reject(new ConnectionLost(error));
        };
    });
    lost.promise.catch(() => {});
    client.on('error', onError);
    try {
        return await use(client, lost);
    } finally {
        client.off('error', onError);
        client.release(lost.isLost);
    }
}

async function inTransaction(client, lost, work) {
    let result;
    try {
        await client.query('BEGIN');
        // A silent handler does not notice that the connection is lost.
        result = await Promise.race([lost.promise, work(client)]);
    } catch (error) {
        if (!lost.isLost) await client.query('ROLLBACK').catch(() => { lost.isLost = true; });
        throw error;
    }
    // After COMMIT there is nothing to roll back, whatever its answer.
    const { command } = await client.query('COMMIT').catch((error) => {
        lost.isLost ||= error.severity === undefined;
        throw error;
    });
    if (command === 'ROLLBACK') throw new RolledBack();
    return result;
}

const pgTransaction = (pool, work) => withClient(pool, (client, lost) => inTransaction(client, lost, work));

// A statement that fails on pool.query() closes the connection. On a client of the pool it does not.
const pgQuery = (handle, text, parameters) => (isPool(handle) ? withClient(handle, (client) => pgRows(client, text, parameters)) : pgRows(handle, text, parameters));

const isPool = (handle) => typeof handle?.connect === 'function' && 'totalCount' in handle;

const fromPg = (handle) => new Database(handle, pgQuery, (work) => pgTransaction(handle, work), lendClient);

const fromPostgresJs = (sql) => new Database(sql, (handle, text, parameters) => handle.unsafe(text, parameters), (work) => sql.begin(work));

const isPglite = (handle) => typeof handle?.exec === 'function' && typeof handle.query === 'function';

// PGlite does not look at the answer to its COMMIT: the statement before it is always one of this package's, which fails where another has.
const fromPglite = (handle) => new Database(handle, pgRows, (work) => handle.transaction(work));

/** A Database of: a Database, a Pool or Client of node-postgres, the `sql` of postgres.js, or a PGlite; the transactions of these included. */
function toDatabase(handle) {
    if (handle instanceof Database) return handle;
    if (isPglite(handle)) return fromPglite(handle);
    if (typeof handle === 'function' && typeof handle.unsafe === 'function') return fromPostgresJs(handle);
    if (typeof handle?.query === 'function') return fromPg(handle);
    throw new TypeError('"database" must be a Pool of pg, the sql of postgres, a PGlite, or what a hook such as idem-postgres/knex returns');
}

/** False for a single connection or a transaction, on which a call cannot be a transaction of its own. */
const isShared = (handle) => handle instanceof Database || isPool(handle) || (isPglite(handle) && 'ready' in handle) || (typeof handle === 'function' && typeof handle.begin === 'function');

/** One statement without parameters, by the simple protocol where the driver has a choice. */
function execute(handle, text) {
    if (isPglite(handle)) return handle.exec(text);
    return typeof handle.unsafe === 'function' ? handle.unsafe(text).simple() : handle.query(text);
}

/** A Database on which scripts can be run: transaction() gives `execute` as well. Of a driver's handle: what ORMs do with a text of ? and $ is their own. */
function toScripts(handle) {
    if (handle instanceof Database) throw new TypeError('"database" must be the driver\'s own: a Pool or Client of pg, the sql of postgres, or a PGlite');
    const database = toDatabase(handle);
    const isClient = !isPglite(handle) && typeof handle !== 'function' && !isPool(handle);
    const onClient = (client) => ({ handle: client, query: (text, parameters) => pgRows(client, text, parameters) });
    const begin = (work) => (isClient ? inTransaction(handle, { promise: new Promise(() => {}) }, (client) => work(onClient(client))) : database.transaction(work));
    return {
        query: (text, parameters) => database.query(text, parameters),
        transaction: (work) => begin(({ handle: client, query }) => work({ query, execute: (text) => execute(client, text) })),
    };
}

module.exports = { toDatabase, toScripts, isShared };
