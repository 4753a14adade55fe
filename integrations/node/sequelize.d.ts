import type { Database } from './index';

/** The database of a Sequelize instance; the handler's client is the Transaction, to be passed as the option `transaction`. */
export function fromSequelize(sequelize: any): Database;
