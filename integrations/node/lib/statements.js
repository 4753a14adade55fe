'use strict';

const { interval } = require('./duration.js');
const { encode, quoteIdentifier } = require('./values.js');

const ms = (value) => (value === undefined ? null : `${value} ms`);

// A client that is told of a type of content parses it.
const bodiless = (headers) => Object.fromEntries(Object.entries(headers).filter(([name]) => !/^content-(type|encoding)$/i.test(name)));

/**
 * The calls of one schema for HTTP requests. `connection` has query(text, parameters).
 *
 * A call has the header field as it came (`field`) for the functions of HTTP, and the key in it (`key`) for all others.
 */
class Statements {
    #begin;
    #complete;
    #omit;
    #renew;
    #release;
    #step;
    #steps;
    #attempt;

    constructor(schema) {
        const idem = quoteIdentifier(schema);
        this.#begin = `SELECT action, status, headers::text AS headers, body_bytes, fence::text AS fence, code,
                CASE WHEN code IS DISTINCT FROM 'unkeyed' THEN ${idem}.idem_http_key($4::text, $1::text) END AS key
            FROM ${idem}.idem_http_begin($1::text, $2::text, $3::text, $4::text, body_bytes => $5::bytea,
                lease => $6::text::interval, wait => $7::text::interval, ttl => $8::text::interval, fingerprint => $9::bytea, content_type => $10::text)`;
        const complete = (omit) => `SELECT ${idem}.idem_http_complete($1::text, $2::text, $3::text::int, $4::text::jsonb, body_bytes => $5::bytea,
                fence => $6::text::bigint${omit})::text AS stored`;
        this.#complete = complete('');
        this.#omit = complete(', omit => true');
        const held = '$1::text, $2::text::bigint';
        this.#renew = `SELECT 1 FROM ${idem}.idem_renew(${held}, $3::text::interval, scope => $4::text)`;
        this.#release = `SELECT 1 FROM ${idem}.idem_release(${held}, scope => $3::text)`;
        this.#step = `SELECT ${idem}.idem_step(${held}, $3::text, $4::text::jsonb, scope => $5::text) AS changed`;
        this.#steps = `SELECT steps::text AS steps FROM ${idem}.idem_lookup($1::text, scope => $2::text)`;
        this.#attempt = `SELECT attempt FROM ${idem}.idem_lookup($1::text, scope => $2::text)`;
    }

    /**
     * → { action: 'run', key, fence, code, headers } or { action: 'replay' | 'reject', key, code, response: { status, headers, body } }
     *
     * `key` is null if the field is missing, malformed, or not used: then nothing was claimed, or the request is rejected.
     * `headers` of run are to be added to the handler's response. `lease` and `wait` in milliseconds.
     */
    async begin(connection, { scope, method, route, field, body, fingerprint, contentType }, { lease, wait, ttl } = {}) {
        const bytes = fingerprint === undefined && body.length ? body : null;
        const [row] = await connection.query(this.#begin, [scope, method, route, field, bytes, ms(lease), ms(wait), interval(ttl) ?? null,
            fingerprint === undefined ? null : Buffer.from(fingerprint), contentType ?? null]);
        const headers = Object.fromEntries(Object.entries(JSON.parse(row.headers ?? '{}'))
            .map(([name, value]) => [name, Array.isArray(value) ? value.map(String) : String(value)]));
        const { action, key, code } = row;
        if (action === 'run') return { action, key, code, fence: row.fence === null ? null : BigInt(row.fence), headers };
        const response = { status: row.status, headers: row.body_bytes === null ? bodiless(headers) : headers, body: Buffer.from(row.body_bytes ?? '') };
        return { action, key, code, response: action === 'reject' ? { ...response, code } : response };
    }

    /**
     * → 'stored'; 'omitted': the response is too large, commit; 'released': in leased mode, the scope does not store its status, and the key was released,
     * roll back; 'unkeyed': the request has no key
     */
    async complete(connection, { scope, field, key }, { status, headers, body, isLarge }, fence = null) {
        const [row] = await connection.query(isLarge ? this.#omit : this.#complete,
            [scope, key === null ? null : field, String(status), JSON.stringify(headers), !isLarge && body.length ? body : null, encode(fence, 'bigint')]);
        return row.stored;
    }

    async renew(connection, { scope, key }, fence, lease) {
        await connection.query(this.#renew, [key, String(fence), ms(lease), scope]);
    }

    async release(connection, { scope, key }, fence) {
        await connection.query(this.#release, [key, String(fence), scope]);
    }

    async step(connection, { scope, key }, fence, name, output) {
        const [row] = await connection.query(this.#step, [key, String(fence), name, encode(output, 'jsonb'), scope]);
        return row.changed;
    }

    async steps(connection, { scope, key }) {
        const [row] = await connection.query(this.#steps, [key, scope]);
        return JSON.parse(row?.steps ?? '{}');
    }

    /** The number of the attempt that holds the key, from 1. */
    async attempt(connection, { scope }, key) {
        const [row] = await connection.query(this.#attempt, [key, scope]);
        return row?.attempt;
    }
}

module.exports = { Statements };
