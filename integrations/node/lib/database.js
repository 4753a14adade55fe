'use strict';

/**
 * What this package needs of a driver or ORM.
 *
 * query(text, parameters): runs one statement, returns its rows.
 * transaction(work): calls work({ handle, query }) in a transaction, commits when its promise resolves, and rolls back when it rejects.
 * `handle` is what the application's own statements are run on.
 */
class Database {
    #handle;
    #rows;
    #begin;

    /**
     * @param handle the driver's or ORM's pool
     * @param rows (handle, text, parameters) → promise of the rows; the handle is the pool's or a transaction's
     * @param begin (work) → calls work(transaction's handle) in a transaction
     */
    constructor(handle, rows, begin) {
        this.#handle = handle;
        this.#rows = rows;
        this.#begin = begin;
    }

    query(text, parameters) {
        return this.#rows(this.#handle, text, parameters);
    }

    transaction(work) {
        return this.#begin((handle) => work({ handle, query: (text, parameters) => this.#rows(handle, text, parameters) }));
    }
}

module.exports = { Database };
