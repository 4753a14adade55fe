'use strict';

const over = () => new TypeError('the transaction is over: use your own connection for work after the response');

// A program that ends the transaction by hand would keep the key without its response.
const ends = /^\s*(commit|end|abort|rollback(?!\s+(work\s+|transaction\s+)?to\b)|begin|start\s+transaction|prepare\s+transaction)\b/i;

// By the name of the method; a tagged template of postgres.js has no name.
const statements = ['query', 'unsafe', 'raw', '$executeRawUnsafe', '$queryRawUnsafe'];

function refuseEnd(name, first) {
    const isStatement = statements.includes(name) && typeof first === 'string';
    const text = isStatement ? first : first?.text ?? first?.raw?.[0];
    if (typeof text === 'string' && ends.test(text)) {
        throw new TypeError(`${ends.exec(text)[1].toUpperCase()} is not for this handle: its transaction ends when the work returns, and is rolled back when it throws`);
    }
}

/**
 * The handle for as long as its transaction lasts. By the time of a late use another request may have the connection.
 *
 * @param own members that take the place of the handle's
 */
function lend(handle, own = {}) {
    let isOver = false;
    const call = (name, method, target) => new Proxy(method, {
        apply(fn, _, args) {
            if (isOver) throw over();
            refuseEnd(name, args[0]);
            return Reflect.apply(fn, target, args);
        },
    });
    const methods = new Map();
    const lent = new Proxy(handle, {
        get(target, name) {
            if (Object.hasOwn(own, name)) return own[name];
            const value = Reflect.get(target, name, target);
            if (typeof value !== 'function') {
                if (isOver && typeof name === 'string') throw over();
                return value;
            }
            if (name === 'constructor') return value;
            if (methods.get(name)?.value !== value) methods.set(name, { value, method: call(name, value, target) });
            return methods.get(name).method;
        },
        apply(target, self, args) {
            if (isOver) throw over();
            refuseEnd(null, args[0]);
            return Reflect.apply(target, self, args);
        },
    });
    return { handle: lent, takeBack: () => { isOver = true; } };
}

/** For an ORM that refuses a late use itself. */
const lendAsIs = (handle) => ({ handle, takeBack() {} });

/**
 * What this package needs of a driver or ORM.
 *
 * query(text, parameters): runs one statement, returns its rows.
 * transaction(work): calls work({ handle, query }) in a transaction, commits when its promise resolves, and rolls back when it rejects.
 * `handle` is what the application's own statements are run on. It is dead once the transaction is over.
 */
class Database {
    #handle;
    #rows;
    #begin;
    #lend;

    /**
     * @param handle the driver's or ORM's pool
     * @param rows (handle, text, parameters) → promise of the rows; the handle is the pool's or a transaction's
     * @param begin (work) → calls work(transaction's handle) in a transaction. It rejects when the connection is lost, where the driver says so
     */
    constructor(handle, rows, begin, lender = lend) {
        this.#handle = handle;
        this.#rows = rows;
        this.#begin = begin;
        this.#lend = lender;
    }

    /** What tells one pool from another. */
    get pool() {
        return this.#handle ?? this;
    }

    query(text, parameters) {
        return this.#rows(this.#handle, text, parameters);
    }

    async transaction(work) {
        let isOver = false, takeBack = () => {};
        const end = () => {
            isOver = true;
            takeBack();
        };
        try {
            return await this.#begin(async (handle) => {
                const lent = this.#lend(handle);
                ({ takeBack } = lent);
                const query = async (text, parameters) => {
                    if (isOver) throw over();
                    return this.#rows(handle, text, parameters);
                };
                try {
                    return await work({ handle: lent.handle, query });
                } finally {
                    end();
                }
            });
        } finally {
            end();
        }
    }
}

module.exports = { Database, lend, lendAsIs };
