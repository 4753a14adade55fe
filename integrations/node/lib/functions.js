'use strict';

const { toDatabase } = require('./drivers.js');
const { typed } = require('./errors.js');
const { heartbeat } = require('./heartbeat.js');
const { encode, placeholder, quoteIdentifier } = require('./values.js');

// The types of idem's parameters; those that are not here are text.
const types = {
    keys: 'text[]', fingerprint: 'bytea', ttl: 'interval', lease: 'interval', wait: 'interval', delay: 'interval', retry_after: 'interval',
    fence: 'bigint', ids: 'bigint[]', status_code: 'int', max_messages: 'int', response: 'jsonb', output: 'jsonb', args: 'jsonb', payload: 'jsonb',
    headers: 'jsonb', row: 'jsonb', target: 'regclass',
};

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

    constructor(connection, { schema = 'idem' } = {}) {
        // A Database, or the transaction of one, is taken as it is.
        this.#connection = typeof connection?.transaction !== 'function' && 'handle' in Object(connection) ? connection : toDatabase(connection);
        this.#schema = quoteIdentifier(schema);
    }

    claim(key, options) {
        return this.#value('boolean', 'idem_claim', { key, ...keyOptions(options) });
    }

    async claimMany(keys, options) {
        const rows = await this.#rows('key', 'idem_claim_many', { keys, ...keyOptions(options) }, 'AS key');
        return rows.map((row) => row.key);
    }

    tryClaim(key, options) {
        return this.#value('text', 'idem_try_claim', { key, ...keyOptions(options) });
    }

    async begin(key, { fingerprint, ttl, lease, owner, wait, scope } = {}) {
        const [row] = await this.#rows(ticketColumns, 'idem_begin', { key, fingerprint, ttl, lease, owner, wait, scope });
        return ticket(row);
    }

    complete(key, { response, statusCode, fence, scope } = {}) {
        return this.#value('boolean', 'idem_complete', { key, response, status_code: statusCode, fence, scope });
    }

    release(key, fence, { scope } = {}) {
        return this.#value('boolean', 'idem_release', { key, fence, scope });
    }

    async renew(key, fence, { lease, scope } = {}) {
        const [row] = await this.#rows(milliseconds('until'), 'idem_renew', { key, fence, lease, scope }, 'AS until');
        return date(row.until);
    }

    step(key, fence, step, output, { scope } = {}) {
        return this.#value('boolean', 'idem_step', { key, fence, step, output, scope });
    }

    async execute(key, statement, args = [], { fingerprint, ttl, scope } = {}) {
        const [row] = await this.#rows(ticketColumns, 'idem_execute', { key, statement, args, fingerprint, ttl, scope });
        return ticket(row);
    }

    async lookup(key, { scope } = {}) {
        const [row] = await this.#rows(infoColumns, 'idem_lookup', { key, scope });
        return row === undefined ? null : {
            state: row.state, statusCode: row.status_code, response: json(row.response), responseOmitted: row.response_omitted, attempt: row.attempt,
            steps: json(row.steps), createdAt: date(row.created_at), expiresAt: date(row.expires_at), leaseUntil: date(row.lease_until),
        };
    }

    async lock(name, { ttl = 30_000, owner, wait, scope } = {}) {
        const asked = { name, ttl, owner, wait, scope };
        const fence = bigint(await this.#value('text', 'idem_lock', asked));
        if (fence === null) return null;
        const renew = () => this.#value('boolean', 'idem_lock_renew', { name, fence, ttl, scope });
        const { signal, stop } = heartbeat(ttl, renew);
        return {
            name, fence, signal, renew,
            unlock: () => {
                stop();
                return this.unlock(name, fence, { scope });
            },
        };
    }

    unlock(name, fence, { scope } = {}) {
        return this.#value('boolean', 'idem_unlock', { name, fence, scope });
    }

    assertFence(name, fence, { scope } = {}) {
        return this.#value('boolean', 'idem_assert_fence', { name, fence, scope });
    }

    issueToken({ subject, ttl, scope } = {}) {
        return this.#value('text', 'idem_token_issue', { subject, ttl, scope });
    }

    redeemToken(token, { subject, scope } = {}) {
        return this.#value('text', 'idem_token_redeem', { token, subject, scope });
    }

    async publish(topic, payload, { key, headers, delay, dedupId } = {}) {
        return bigint(await this.#value('text', 'idem_publish', { topic, payload, key, headers, delay, dedup_id: dedupId }));
    }

    async take(topic, { maxMessages, lease } = {}) {
        const rows = await this.#rows('id::text AS id, topic, key, payload::text AS payload, headers::text AS headers, attempt, fence::text AS fence',
            'idem_outbox_take', { topic, max_messages: maxMessages, lease });
        return rows.map((row) => ({
            id: bigint(row.id), topic: row.topic, key: row.key, payload: json(row.payload), headers: json(row.headers), attempt: row.attempt,
            fence: bigint(row.fence),
        }));
    }

    ack(ids, fence) {
        return this.#value('int', 'idem_outbox_ack', { ids, fence });
    }

    nack(ids, fence, { retryAfter } = {}) {
        return this.#value('int', 'idem_outbox_nack', { ids, fence, retry_after: retryAfter });
    }

    consume(consumer, messageId, { ttl, scope } = {}) {
        return this.#value('boolean', 'idem_consume', { consumer, message_id: messageId, ttl, scope });
    }

    async transition(target, key, fromState, toState) {
        const rows = await this.#rows('outcome::text AS outcome, state', 'idem_transition',
            { target, key, from_state: fromState, to_state: toState }, '', { key: 'jsonb' });
        return rows[0];
    }

    async nextId() {
        return bigint(await this.#value('text', 'idem_next_id', {}));
    }

    async #value(type, name, args) {
        const [row] = await this.#rows(`value::${type} AS value`, name, args, 'AS value');
        return row.value;
    }

    // Arguments that are undefined are not passed.
    async #rows(columns, name, args, alias = '', ownTypes = {}) {
        const given = Object.entries(args).filter(([, value]) => value !== undefined);
        const typeOf = (argument) => ownTypes[argument] ?? types[argument] ?? 'text';
        const list = given.map(([argument], index) => `${argument} => ${placeholder(index + 1, typeOf(argument))}`);
        try {
            return await this.#connection.query(`SELECT ${columns} FROM ${this.#schema}.${name}(${list.join(', ')}) ${alias}`,
                given.map(([argument, value]) => encode(value, typeOf(argument))));
        } catch (error) {
            throw typed(error);
        }
    }
}

const keyOptions = ({ ttl, scope } = {}) => ({ ttl, scope });

module.exports = { Idem };
