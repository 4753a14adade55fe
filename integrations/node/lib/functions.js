'use strict';

const { builtin } = require('./builtin.js');
const { randomUUID } = builtin('node:crypto');
const { check, checkOptions } = require('./check.js');
const { isShared, toDatabase } = require('./drivers.js');
const { milliseconds: inMs } = require('./duration.js');
const { typed } = require('./errors.js');
const { flightsOf } = require('./flights.js');
const { Holder } = require('./lease.js');
const { encode, placeholder, quoteIdentifier } = require('./values.js');

// The types of idem's parameters, by their names here; those that are not here are text.
const types = {
    keys: 'text[]', fingerprint: 'bytea', ttl: 'interval', lease: 'interval', wait: 'interval', delay: 'interval', retryAfter: 'interval',
    fence: 'bigint', ids: 'bigint[]', statusCode: 'int', maxMessages: 'int', response: 'jsonb', output: 'jsonb', args: 'jsonb', payload: 'jsonb',
    headers: 'jsonb', target: 'regclass', rate: 'float8', burst: 'int', cost: 'int', messages: 'jsonb', bodyBytes: 'bytea', params: 'jsonb',
    signedAt: 'timestamptz', tolerance: 'interval', status: 'int', expectedVersion: 'bigint', changes: 'jsonb', expected: 'jsonb', columnName: 'name',
    delta: 'numeric', minimum: 'numeric', maximum: 'numeric', newRow: 'jsonb', conflictColumns: 'name[]', matchColumns: 'name[]', omit: 'boolean',
};
const nullable = ['fromState', 'idempotencyKey'];
// A row's key is an object of its columns.
const jsonKey = { own: { key: 'jsonb' } };
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

const rowOutcome = (row) => ({ outcome: row.outcome, row: json(row.row_data) });
const rowColumns = 'outcome, row_data::text AS row_data';

/**
 * idem's functions on one connection, transaction or pool; index.d.ts describes them. On a pool each call is a transaction of its own.
 *
 * Errors of idem are raised as classes of IdemError, all others as the driver raises them.
 */
class Idem {
    #connection;
    #options;
    #schema;
    #isShared;

    constructor(connection, options = {}) {
        checkOptions(options, { schema: 'name' });
        const { schema = 'idem' } = options;
        // A Database, or the transaction of one, is taken as it is.
        this.#isShared = isShared(connection);
        this.#connection = typeof connection?.transaction !== 'function' && 'handle' in Object(connection) ? connection : toDatabase(connection);
        this.#options = options;
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

    mustClaim(key, options) {
        return this.#value('boolean', 'idem_must_claim', { key }, options, ['ttl', 'scope']);
    }

    /** With a lease, on a pool, it waits here and not in the database: a renewal may need the connection. */
    async begin(key, options = {}) {
        const names = ['fingerprint', 'ttl', 'lease', 'owner', 'wait', 'scope'];
        const begin = async (given) => {
            const [row] = await this.#rows(ticketColumns, 'idem_begin', { key }, given, names);
            return ticket(row);
        };
        if (!this.#isShared || options?.lease === undefined || options?.wait === undefined) return begin(options);
        const { wait, ...rest } = options;
        check('wait', wait, 'pause');
        const ask = async () => {
            const answer = await begin(rest);
            return { ...answer, isBusy: answer.outcome === 'in_flight' };
        };
        const { answer: { isBusy, ...answer }, land } = await this.#fly(['begin', options.scope ?? '', key], { wait: inMs(wait) }, ask);
        land();
        return answer;
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
        checkOptions(options, { lease: 'timer', owner: 'text', wait: 'pause', scope: 'text', signal: 'signal' });
        const { lease = '30 s', owner = randomUUID(), wait = '0 s', scope, signal } = options;
        const ask = async () => {
            let holder;
            const fence = bigint(await this.#onConnection((idem) => {
                holder = new Holder(inMs(lease), () => this.#value('boolean', 'idem_lock_renew', { name, fence }, { lease, scope }, ['lease', 'scope']));
                return idem.#value('text', 'idem_lock', { name }, { lease, owner, scope }, ['lease', 'owner', 'scope']);
            }));
            if (fence === null) return { isBusy: true };
            if (await holder.begin()) return { fence, holder };
            // The answer came too late to begin: give it back, and ask again while there is time.
            await this.unlock(name, fence, { scope });
            return { isBusy: true };
        };
        const { answer: { fence, holder }, land } = await this.#fly(['lock', scope ?? '', name], { wait: inMs(wait), signal }, ask);
        land();
        if (fence === undefined) return null;
        return {
            name, fence, signal: holder.signal,
            unlock: () => {
                holder.end('returned');
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

    outboxRenew(ids, fence, options) {
        return this.#value('int', 'idem_outbox_renew', { ids, fence }, options, ['lease']);
    }

    /** The ids, in the order of the messages: { payload, key, headers, delay, dedupId }. */
    async publishMany(topic, messages) {
        check('messages', messages, 'array');
        const kindOf = { payload: 'jsonb', key: 'text', headers: 'jsonb', delay: 'interval', dedupId: 'text' };
        const sent = messages.map((message) => {
            checkOptions(message, kindOf);
            check('payload', message.payload, 'jsonb');
            return Object.fromEntries(Object.entries(message).map(([name, value]) => [sqlName(name), name === 'delay' ? encode(value, 'interval') : value]));
        });
        const rows = await this.#rows('id::text AS id', 'idem_publish_many', { topic, messages: sent }, {}, [], { from: (call) => `pg_catalog.unnest(${call}) WITH ORDINALITY AS ids (id, n) ORDER BY n` });
        return rows.map(({ id }) => bigint(id));
    }

    async allow(name, rate, burst, options) {
        check('rate', rate, 'number');
        const [row] = await this.#rows('allowed, remaining, retry_after_ms', 'idem_allow', { name, rate, burst }, options, ['cost', 'scope']);
        return { allowed: row.allowed, remaining: row.remaining, retryAfterMs: row.retry_after_ms };
    }

    async hit(key, options) {
        return Number(await this.#value('text', 'idem_hit', { key }, options, ['ttl', 'scope']));
    }

    async hits(key, options) {
        const [row] = await this.#rows(`hits::text AS hits, ${milliseconds('expires_at')}`, 'idem_hits', { key }, options, ['scope']);
        return row === undefined ? null : { hits: Number(row.hits), expiresAt: date(row.expires_at) };
    }

    /** Until the transaction ends, other calls with this key wait. Call it in a transaction. */
    serialize(key, options) {
        return this.#value('boolean', 'idem_serialize', { key }, options, ['scope']);
    }

    /** `body`: the bytes as received. */
    async webhookReceive(source, headers, body) {
        const [row] = await this.#rows('outcome::text AS outcome, message_id', 'idem_webhook_receive', { source, headers, body }, {}, [], { own: { body: 'bytea' } });
        return { outcome: row.outcome, messageId: row.message_id };
    }

    verifyRequest(params, options = {}) {
        const { signature, keyId, signedAt, nonce, ...rest } = options;
        return this.#value('text', 'idem_verify_request', { params, signature, keyId, signedAt, nonce }, rest, ['tolerance', 'scope']);
    }

    /** Runs, replays or rejects an HTTP request; README, "Without a framework". `key`: the header field as received, null without one. */
    async httpBegin(request, options) {
        checkOptions(request, { scope: 'text', method: 'text', route: 'text', key: 'any', body: 'bytea', contentType: 'text', fingerprint: 'bytea' });
        const { scope, method, route, key = null, body, contentType, fingerprint } = request;
        const names = ['bodyBytes', 'contentType', 'fingerprint', 'lease', 'wait', 'ttl'];
        const [row] = await this.#rows('action, status, headers::text AS headers, body_bytes, fence::text AS fence, code, retryable', 'idem_http_begin',
            { scope, method, route, idempotencyKey: key }, { bodyBytes: body, contentType, fingerprint, ...options }, names);
        return {
            action: row.action, status: row.status, headers: json(row.headers) ?? {}, body: row.body_bytes === null ? null : Buffer.from(row.body_bytes), fence: bigint(row.fence),
            code: row.code, retryable: row.retryable,
        };
    }

    /** 'stored', 'omitted', 'released' or 'unkeyed'. */
    httpComplete({ scope, key = null } = {}, response, options) {
        checkOptions(response, { status: 'int', headers: 'object', body: 'bytea' });
        const { status, headers = {}, body } = response;
        return this.#value('text', 'idem_http_complete', { scope, idempotencyKey: key, status }, { headers, bodyBytes: body, ...options }, ['headers', 'bodyBytes', 'fence', 'omit']);
    }

    async optimisticUpdate(target, key, expectedVersion, changes) {
        const [row] = await this.#rows(`${rowColumns}, version::text AS version`, 'optimistic_update', { target, key, expectedVersion, changes }, {}, [], jsonKey);
        return { ...rowOutcome(row), version: bigint(row.version) };
    }

    async conditionalUpdate(target, key, expected, changes) {
        return rowOutcome((await this.#rows(rowColumns, 'conditional_update', { target, key, expected, changes }, {}, [], jsonKey))[0]);
    }

    /** Numbers are returned as the text of a numeric, which has more digits than a number. */
    async conditionalAdjust(target, key, columnName, delta, options) {
        check('delta', delta, 'number');
        const [row] = await this.#rows('outcome, value::text AS value', 'conditional_adjust', { target, key, columnName, delta }, options, ['minimum', 'maximum'], jsonKey);
        return { outcome: row.outcome, value: row.value };
    }

    async pessimisticLock(target, key, options) {
        return rowOutcome((await this.#rows(rowColumns, 'pessimistic_lock', { target, key }, options, ['wait'], jsonKey))[0]);
    }

    async pessimisticLockMany(target, keys, options) {
        check('keys', keys, 'array');
        return (await this.#rows(rowColumns, 'pessimistic_lock_many', { target, keys }, options, ['wait'], { own: { keys: 'jsonb[]' } })).map(rowOutcome);
    }

    async uniqueInsert(target, newRow, options) {
        return rowOutcome((await this.#rows(rowColumns, 'unique_insert', { target, newRow }, options, ['conflictColumns']))[0]);
    }

    async guardedInsert(target, newRow, matchColumns) {
        return rowOutcome((await this.#rows(rowColumns, 'guarded_insert', { target, newRow, matchColumns }))[0]);
    }

    async transition(target, key, fromState, toState) {
        check('key', key, 'object');
        const rows = await this.#rows('outcome::text AS outcome, state', 'idem_transition', { target, key, fromState, toState }, {}, [], { own: { key: 'jsonb' } });
        return rows[0];
    }

    async nextId() {
        return bigint(await this.#value('text', 'idem_next_id', {}));
    }

    /** A term begins where its claim is sent, not where it waits for a connection of the pool. */
    #onConnection(claim) {
        if (!this.#isShared) return claim(this);
        return this.#connection.transaction((connection) => claim(new Idem(connection, this.#options)));
    }

    #fly(key, options, ask) {
        return flightsOf(this.#connection.pool ?? this.#connection).claim(JSON.stringify([this.#schema, ...key]), options, ask);
    }

    async #value(type, name, required, options, optional) {
        const [row] = await this.#rows(`value::${type} AS value`, name, required, options, optional, { alias: 'AS value' });
        return row.value;
    }

    // `optional`: the names of the options. Those that are undefined are not passed. `own`: types of arguments that differ from `types`.
    async #rows(columns, name, required, options = {}, optional = [], { alias = '', own = {}, from } = {}) {
        const typeOf = (argument) => own[argument] ?? types[argument] ?? 'text';
        for (const [argument, value] of Object.entries(required)) {
            if (value !== null || !nullable.includes(argument)) check(argument, value, typeOf(argument));
        }
        checkOptions(options, Object.fromEntries(optional.map((option) => [option, typeOf(option)])));
        const given = Object.entries({ ...required, ...options }).filter(([, value]) => value !== undefined);
        const list = given.map(([argument], index) => `${sqlName(argument)} => ${placeholder(index + 1, typeOf(argument))}`);
        try {
            const call = `${this.#schema}.${name}(${list.join(', ')})`;
            return await this.#connection.query(`SELECT ${columns} FROM ${from ? from(call) : `${call} ${alias}`}`, given.map(([argument, value]) => encode(value, typeOf(argument))));
        } catch (error) {
            throw typed(error, this.#schema);
        }
    }
}

module.exports = { Idem };
