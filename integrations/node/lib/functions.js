'use strict';

const { check, checkOptions } = require('./check.js');
const { toDatabase } = require('./drivers.js');
const { typed } = require('./errors.js');
const { heartbeat } = require('./heartbeat.js');
const { encode, placeholder, quoteIdentifier } = require('./values.js');

// The types of idem's parameters, by their names here; those that are not here are text.
const types = {
    keys: 'text[]', fingerprint: 'bytea', ttl: 'interval', lease: 'interval', wait: 'interval', delay: 'interval', retryAfter: 'interval',
    fence: 'bigint', ids: 'bigint[]', statusCode: 'int', maxMessages: 'int', response: 'jsonb', output: 'jsonb', args: 'jsonb', payload: 'jsonb',
    headers: 'jsonb', target: 'regclass',
};
const nullable = ['fromState'];
const sqlName = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const milliseconds = (column) => `(extract(epoch FROM ${column}) * 1000)::float8 AS ${column}`;
const ticketColumns = `outcome::text AS outcome, fence::text AS fence, attempt, ${milliseconds('lease_until')}, status_code, response::text AS response,
    response_omitted, steps::text AS steps, retry_after_ms`;
const infoColumns = `state, status_code, response::text AS response, response_omitted, attempt, steps::text AS steps, ${milliseconds('created_at')},
    ${milliseconds('expires_at')}, ${milliseconds('lease_until')}`;

const bigint = (text) => (text === null ? null : BigInt(text));
const json = (text) => (text === null ? null : JSON.parse(text));
const date = (number) => (number === null ? null : new Date(Number(number)));

const ticket = (row) => ({
    outcome: row.outcome, fence: bigint(row.fence), attempt: row.attempt, leaseUntil: date(row.lease_until), statusCode: row.status_code,
    response: json(row.response), responseOmitted: row.response_omitted, steps: json(row.steps), retryAfterMs: row.retry_after_ms,
});

/**
 * idem's functions on one connection, transaction or pool; index.d.ts describes them. On a pool each call is a transaction of its own.
 *
 * Errors of idem are raised as classes of IdemError, all others as the driver raises them.
 */
class Idem {
    #connection;
    #schema;

    constructor(connection, options = {}) {
        checkOptions(options, { schema: 'name' });
        const { schema = 'idem' } = options;
        // A Database, or the transaction of one, is taken as it is.
        this.#connection = typeof connection?.transaction !== 'function' && 'handle' in Object(connection) ? connection : toDatabase(connection);
        this.#schema = quoteIdentifier(schema);
    }

    claim(key, options) {
        return this.#value('boolean', 'idem_claim', { key }, options, ['ttl', 'scope']);
    }

    async claimMany(keys, options) {
        const rows = await this.#rows('key', 'idem_claim_many', { keys }, options, ['ttl', 'scope'], { alias: 'AS key' });
        return rows.map((row) => row.key);
    }

    tryClaim(key, options) {
        return this.#value('text', 'idem_try_claim', { key }, options, ['ttl', 'scope']);
    }

    async begin(key, options) {
        const [row] = await this.#rows(ticketColumns, 'idem_begin', { key }, options, ['fingerprint', 'ttl', 'lease', 'owner', 'wait', 'scope']);
        return ticket(row);
    }

    complete(key, options) {
        return this.#value('boolean', 'idem_complete', { key }, options, ['response', 'statusCode', 'fence', 'scope']);
    }

    release(key, fence, options) {
        return this.#value('boolean', 'idem_release', { key, fence }, options, ['scope']);
    }

    async renew(key, fence, options) {
        const [row] = await this.#rows(milliseconds('until'), 'idem_renew', { key, fence }, options, ['lease', 'scope'], { alias: 'AS until' });
        return date(row.until);
    }

    step(key, fence, step, output, options) {
        return this.#value('boolean', 'idem_step', { key, fence, step, ...(output === undefined ? {} : { output }) }, options, ['scope']);
    }

    async execute(key, statement, args = [], options = {}) {
        check('args', args, 'array');
        const [row] = await this.#rows(ticketColumns, 'idem_execute', { key, statement, args }, options, ['fingerprint', 'ttl', 'scope']);
        return ticket(row);
    }

    async lookup(key, options) {
        const [row] = await this.#rows(infoColumns, 'idem_lookup', { key }, options, ['scope']);
        return row === undefined ? null : {
            state: row.state, statusCode: row.status_code, response: json(row.response), responseOmitted: row.response_omitted, attempt: row.attempt,
            steps: json(row.steps), createdAt: date(row.created_at), expiresAt: date(row.expires_at), leaseUntil: date(row.lease_until),
        };
    }

    async lock(name, options = {}) {
        checkOptions(options, { ttl: 'timer', owner: 'text', wait: 'interval', scope: 'text' });
        const { ttl = 30_000, owner, wait, scope } = options;
        const fence = bigint(await this.#value('text', 'idem_lock', { name }, { lease: ttl, owner, wait, scope }, ['lease', 'owner', 'wait', 'scope']));
        if (fence === null) return null;
        const renew = () => this.#value('boolean', 'idem_lock_renew', { name, fence }, { lease: ttl, scope }, ['lease', 'scope']);
        const { signal, stop } = heartbeat(ttl, renew);
        return {
            name, fence, signal, renew,
            unlock: () => {
                stop();
                return this.unlock(name, fence, { scope });
            },
        };
    }

    unlock(name, fence, options) {
        return this.#value('boolean', 'idem_unlock', { name, fence }, options, ['scope']);
    }

    assertFence(name, fence, options) {
        return this.#value('boolean', 'idem_assert_fence', { name, fence }, options, ['scope']);
    }

    issueToken(options) {
        return this.#value('text', 'idem_token_issue', {}, options, ['subject', 'ttl', 'scope']);
    }

    redeemToken(token, options) {
        return this.#value('text', 'idem_token_redeem', { token }, options, ['subject', 'scope']);
    }

    async publish(topic, payload, options) {
        return bigint(await this.#value('text', 'idem_publish', { topic, payload }, options, ['key', 'headers', 'delay', 'dedupId']));
    }

    async take(topic, options) {
        const rows = await this.#rows('id::text AS id, topic, key, payload::text AS payload, headers::text AS headers, attempt, fence::text AS fence',
            'idem_outbox_take', { topic }, options, ['maxMessages', 'lease']);
        return rows.map((row) => ({
            id: bigint(row.id), topic: row.topic, key: row.key, payload: json(row.payload), headers: json(row.headers), attempt: row.attempt,
            fence: bigint(row.fence),
        }));
    }

    ack(ids, fence) {
        return this.#value('int', 'idem_outbox_ack', { ids, fence });
    }

    nack(ids, fence, options) {
        return this.#value('int', 'idem_outbox_nack', { ids, fence }, options, ['retryAfter']);
    }

    consume(consumer, messageId, options) {
        return this.#value('boolean', 'idem_consume', { consumer, messageId }, options, ['ttl', 'scope']);
    }

    async transition(target, key, fromState, toState) {
        check('key', key, 'object');
        const rows = await this.#rows('outcome::text AS outcome, state', 'idem_transition', { target, key, fromState, toState }, {}, [], { own: { key: 'jsonb' } });
        return rows[0];
    }

    async nextId() {
        return bigint(await this.#value('text', 'idem_next_id', {}));
    }

    async #value(type, name, required, options, optional) {
        const [row] = await this.#rows(`value::${type} AS value`, name, required, options, optional, { alias: 'AS value' });
        return row.value;
    }

    // `optional`: the names of the options. Those that are undefined are not passed. `own`: types of arguments that differ from `types`.
    async #rows(columns, name, required, options = {}, optional = [], { alias = '', own = {} } = {}) {
        const typeOf = (argument) => own[argument] ?? types[argument] ?? 'text';
        for (const [argument, value] of Object.entries(required)) {
            if (value !== null || !nullable.includes(argument)) check(argument, value, typeOf(argument));
        }
        checkOptions(options, Object.fromEntries(optional.map((option) => [option, typeOf(option)])));
        const given = Object.entries({ ...required, ...options }).filter(([, value]) => value !== undefined);
        const list = given.map(([argument], index) => `${sqlName(argument)} => ${placeholder(index + 1, typeOf(argument))}`);
        try {
            return await this.#connection.query(`SELECT ${columns} FROM ${this.#schema}.${name}(${list.join(', ')}) ${alias}`,
                given.map(([argument, value]) => encode(value, typeOf(argument))));
        } catch (error) {
            throw typed(error);
        }
    }
}

module.exports = { Idem };
