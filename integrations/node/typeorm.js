'use strict';

const { Database } = require('./lib/database.js');

/** The database of a TypeORM DataSource. The handler's client is the EntityManager of the transaction. */
const fromTypeOrm = (dataSource) =>
    new Database(dataSource, (handle, text, parameters) => handle.query(text, parameters), (work) => dataSource.transaction(work));

module.exports = { fromTypeOrm };
