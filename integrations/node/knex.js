'use strict';

const { Database } = require('./lib/database.js');

async function rows(handle, text, parameters) {
    const bindings = [];
    const statement = text.replace(/\$(\d+)/g, (_, number) => {
        bindings.push(parameters[number - 1]);
        return '?';
    });
    return (await handle.raw(statement, bindings)).rows;
}

/** The database of a Knex instance. The handler's client is the Knex transaction. A transaction can be given, too, for the typed functions. */
const fromKnex = (knex) => new Database(knex, rows, (work) => knex.transaction(work));

module.exports = { fromKnex };
