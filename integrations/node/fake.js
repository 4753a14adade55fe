'use strict';

const { Database, lend } = require('./lib/database.js');
const { FakeKeys } = require('./lib/fake_keys.js');

// The arguments of the middleware's statements, which are not named; those of Idem are.
const positions = {
    idem_http_begin: ['scope', 'method', 'route', 'idempotency_key', 'body_bytes', 'lease', 'wait', 'ttl', 'fingerprint', 'content_type'],
    idem_http_complete: ['scope', 'idempotency_key', 'status', 'headers', 'body_bytes', 'fence'],
    idem_renew: ['key', 'fence', 'lease', 'scope'],
    idem_release: ['key', 'fence', 'scope'],
    idem_step: ['key', 'fence', 'step', 'output', 'scope'],
    idem_lookup: ['key', 'scope'],
};
/** The name of the function in a statement of this package, and its arguments. */
function parse(statement, parameters) {
    const [, name] = /(?:FROM|^SELECT) "[^"]*"\.(\w+)\(/.exec(statement) ?? [];
    if (name === undefined) throw new Error('the fake knows the statements of idem-postgres only');
    const named = [...statement.matchAll(/(\w+) => \$(\d+)/g)].map(([, argument, number]) => [argument, parameters[number - 1]]);
    const placed = positions[name]?.map((argument, index) => [argument, parameters[index]]) ?? [];
    const args = Object.fromEntries(/\((\w+) => \$1\b/.test(statement) ? named : placed);
    for (const argument of Object.keys(args)) if (args[argument] === undefined) delete args[argument];
    return { name, args: statement.includes('omit => true') ? { ...args, omit: true } : args };
}

/** Takes the place of a database in unit tests: fake.d.ts describes it. */
class FakeDatabase extends Database {
    #keys = new FakeKeys();
    #client;

    constructor({ client } = {}) {
        super();
        this.#client = client ?? { query: () => { throw new Error('the fake runs no SQL of yours: give it a client, fakeDatabase({ client })'); } };
    }

    query(statement, parameters) {
        return this.#run(statement, parameters, null);
    }

    async transaction(work) {
        const undo = new Map();
        const { handle, takeBack } = lend(this.#client);
        try {
            const result = await work({ handle, query: (statement, parameters) => this.#run(statement, parameters, undo) });
            this.#keys.commit(undo);
            return result;
        } catch (error) {
            this.#keys.restore(undo);
            throw error;
        } finally {
            takeBack();
        }
    }

    clear() {
        this.#keys.clear();
    }

    async #run(statement, parameters, undo) {
        const { name, args } = parse(statement, parameters);
        const row = this.#keys.call(name, args, undo);
        return row === undefined ? [] : [row];
    }
}

const fakeDatabase = (options) => new FakeDatabase(options);

module.exports = { fakeDatabase };
