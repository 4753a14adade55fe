'use strict';

const { sql } = require('drizzle-orm');
const { Database } = require('./lib/database.js');

async function rows(handle, text, parameters) {
    // Every second part is a parameter's number.
    const parts = text.split(/\$(\d+)/).map((part, index) => (index % 2 ? sql`${sql.param(parameters[part - 1])}` : sql.raw(part)));
    const result = await handle.execute(sql.join(parts));
    return result.rows ?? result;
}

/** The database of a Drizzle instance on node-postgres or postgres.js. The handler's client is the Drizzle transaction. */
const fromDrizzle = (drizzle) => new Database(drizzle, rows, (work) => drizzle.transaction(work));

module.exports = { fromDrizzle };
