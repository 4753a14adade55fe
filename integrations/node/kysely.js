'use strict';

const { CompiledQuery } = require('kysely');
const { Database } = require('./lib/database.js');

const rows = async (handle, text, parameters) => (await handle.executeQuery(CompiledQuery.raw(text, parameters))).rows;

/** The database of a Kysely instance. The handler's client is the Kysely transaction. */
const fromKysely = (kysely) => new Database(kysely, rows, (work) => kysely.transaction().execute(work));

module.exports = { fromKysely };
