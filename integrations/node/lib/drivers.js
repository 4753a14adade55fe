'use strict';

const { Database } = require('./database.js');

const pgRows = async (client, text, parameters) => (await client.query(text, parameters)).rows;

// The application may keep the client for longer than the transaction lasts. By then another request may have the connection.
function lend(client) {
    let over = false;
    const handle = Object.create(client, {
        query: {
            value: (...args) => {
                if (over) throw new Error('the transaction of this client is over: the response ends it');
                return client.query(...args);
            },
        },
        release: { value: () => {} },
    });
    return { handle, takeBack: () => { over = true; } };
}

// Without a listener for `error`, a connection that is lost ends the process.
async function withClient(pool, work) {
    const client = await pool.connect();
    let isBroken = false;
    const onError = () => { isBroken = true; };
    client.on('error', onError);
    try {
        return await work(client, onError);
    } finally {
        client.off('error', onError);
        client.release(isBroken);
    }
}

const pgTransaction = (pool, work) => withClient(pool, async (client, onError) => {
    const { handle, takeBack } = lend(client);
    try {
        await client.query('BEGIN');
        const result = await work(handle);
        takeBack();
        const { command } = await client.query('COMMIT');
        // The answer to the COMMIT of a transaction that had failed.
        if (command === 'ROLLBACK') throw Object.assign(new Error('the transaction had failed and was rolled back'), { code: '25P02' });
        return result;
    } catch (error) {
        takeBack();
        await client.query('ROLLBACK').catch(onError);
        throw error;
    }
});

// A statement that fails on pool.query() closes the connection. On a client of the pool it does not.
const pgQuery = (handle, text, parameters) => (isPool(handle) ? withClient(handle, (client) => pgRows(client, text, parameters)) : pgRows(handle, text, parameters));

const isPool = (handle) => typeof handle?.connect === 'function' && 'totalCount' in handle;

const fromPg = (handle) => new Database(handle, pgQuery, (work) => pgTransaction(handle, work));

const fromPostgresJs = (sql) => new Database(sql, (handle, text, parameters) => handle.unsafe(text, parameters), (work) => sql.begin(work));

/** A Database of: a Database, a Pool or Client of node-postgres, or the `sql` of postgres.js, its transactions included. */
function toDatabase(handle) {
    if (handle instanceof Database) return handle;
    if (typeof handle === 'function' && typeof handle.unsafe === 'function') return fromPostgresJs(handle);
    if (typeof handle?.query === 'function') return fromPg(handle);
    throw new TypeError('"database" must be a Pool of pg, the sql of postgres, or what a hook such as idem-postgres/knex returns');
}

module.exports = { toDatabase };
