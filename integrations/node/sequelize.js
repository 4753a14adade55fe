'use strict';

const { Database, lendAsIs } = require('./lib/database.js');

/** The database of a Sequelize instance. The handler's client is the Sequelize Transaction: pass it as the option `transaction`. */
function fromSequelize(sequelize) {
    const rows = (transaction, text, parameters) => sequelize.query(text, { bind: parameters, transaction, type: 'SELECT' });
    return new Database(null, rows, (work) => sequelize.transaction(work), lendAsIs);
}

module.exports = { fromSequelize };
