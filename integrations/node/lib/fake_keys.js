'use strict';

const { builtin } = require('./builtin.js');
const { createHash } = builtin('node:crypto');
const { milliseconds } = require('./duration.js');
const { problem } = require('./problem.js');

const unstored = /^(set-cookie2?|connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade|date|content-length)$/i;

const failure = (code, message) => Object.assign(new Error(message), { code });
const placeOf = ({ scope, key }) => JSON.stringify([scope, key]);
const isSame = (one, other) => one === null || other === null || one === other;
const stepsOf = ({ steps }) => (Object.keys(steps).length === 0 ? null : JSON.stringify(steps));
const text = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('hex'));

/** idem's keys in memory, with the functions of SQL as methods. A record is replaced and never changed, so that a rollback puts the old one back. */
class FakeKeys {
    #records = new Map();
    #fence = 0n;

    /** @param undo what a rollback puts back, by place; null: the call is a transaction of its own */
    call(name, args, undo) {
        if (!this[name]) throw new Error(`the fake has no ${name}: test it with PostgreSQL`);
        const touched = undo ?? new Map();
        const row = this[name]({ scope: '', ...args }, touched);
        if (undo === null) this.commit(touched);
        return row;
    }

    /** A claim without a lease that is committed is done, whether or not it has a response. */
    commit(undo) {
        for (const place of undo.keys()) {
            const record = this.#records.get(place);
            if (record.state === 'in_progress' && record.leaseUntil === null) this.#records.set(place, { ...record, state: 'completed' });
        }
    }

    clear() {
        this.#records.clear();
    }

    restore(undo) {
        for (const [place, record] of undo) {
            if (record === undefined) this.#records.delete(place);
            else this.#records.set(place, record);
        }
    }

    #get({ scope, key }) {
        return this.#records.get(placeOf({ scope, key }));
    }

    #set({ scope, key }, undo, record) {
        const place = placeOf({ scope, key });
        if (!undo.has(place)) undo.set(place, this.#records.get(place));
        this.#records.set(place, record);
    }

    /** → 'acquired', 'taken_over', 'completed', 'in_flight' or 'mismatch', and the record. */
    #claim(at, undo) {
        const { fingerprint = null, lease = null, owner = null } = at;
        const old = this.#get(at), now = Date.now();
        const given = text(fingerprint);
        if (old?.state === 'in_progress' && old.leaseUntil === null && undo.has(placeOf(at))) return ['completed', old]; // this transaction's own claim
        if (old && old.state !== 'released' && !isSame(old.fingerprint, given)) return ['mismatch', old];
        if (old?.state === 'completed') return ['completed', old];
        const isOver = old?.leaseUntil !== null && old?.leaseUntil <= now;
        const leaseUntil = lease === null ? null : now + milliseconds(lease);
        if (old?.state === 'in_progress' && owner !== null && old.owner === owner && lease !== null) {
            const again = { ...old, leaseUntil };
            this.#set(at, undo, again);
            return ['acquired', again];
        }
        if (old?.state === 'in_progress' && !isOver) return ['in_flight', old];
        const record = {
            state: 'in_progress', fingerprint: given, owner, attempt: (old?.attempt ?? 0) + 1, steps: old?.steps ?? {}, statusCode: null, response: null,
            fence: lease === null ? null : ++this.#fence, leaseUntil, createdAt: now,
        };
        this.#set(at, undo, record);
        return [old?.state === 'in_progress' ? 'taken_over' : 'acquired', record];
    }

    #held(at) {
        const record = this.#get(at);
        if (record?.state !== 'in_progress' || String(record.fence ?? '') !== String(at.fence ?? '')) {
            throw failure('ID001', `key "${at.key}" is not held with fence ${at.fence ?? 'NULL'}`);
        }
        return record;
    }

    idem_claim(at, undo) {
        const [outcome] = this.#claim(at, undo);
        if (outcome === 'in_flight') throw failure('ID005', `key "${at.key}" is in flight`);
        return { value: outcome === 'acquired' };
    }

    idem_must_claim(at, undo) {
        if (!this.idem_claim(at, undo).value) throw failure('ID006', `key "${at.key}" was claimed before`);
        return { value: true };
    }

    idem_try_claim(at, undo) {
        return { value: this.#claim(at, undo)[0] };
    }

    idem_begin(at, undo) {
        const [outcome, record] = this.#claim(at, undo);
        const isHeld = outcome === 'acquired' || outcome === 'taken_over', isDone = outcome === 'completed';
        return {
            outcome, fence: isHeld && record.fence !== null ? String(record.fence) : null, attempt: record.attempt, lease_until: isHeld ? record.leaseUntil : null,
            status_code: isDone ? record.statusCode : null, response: isDone ? record.response : null, response_omitted: isDone ? false : null,
            steps: stepsOf(record), retry_after_ms: outcome === 'in_flight' ? Math.max(1, (record.leaseUntil ?? 0) - Date.now()) : null,
        };
    }

    idem_complete(at, undo) {
        const record = this.#held(at);
        this.#set(at, undo, { ...record, state: 'completed', statusCode: at.status_code === undefined ? null : Number(at.status_code), response: at.response ?? null });
        return { value: true };
    }

    idem_release(at, undo) {
        this.#set(at, undo, { ...this.#held(at), state: 'released', fence: null });
        return { value: true };
    }

    idem_renew(at, undo) {
        const until = Date.now() + milliseconds(at.lease ?? '30 s');
        this.#set(at, undo, { ...this.#held(at), leaseUntil: until });
        return { until };
    }

    idem_step(at, undo) {
        const record = this.#held(at), { step, output = null } = at;
        const known = record.steps[step] ?? undefined;
        if (known !== undefined && output !== null && JSON.stringify(known) !== JSON.stringify(JSON.parse(output))) {
            throw failure('ID001', `step "${step}" of key "${at.key}" is done with another output`);
        }
        const changed = !(step in record.steps) || (known === undefined && output !== null);
        if (changed) this.#set(at, undo, { ...record, steps: { ...record.steps, [step]: output === null ? null : JSON.parse(output) } });
        return { value: changed, changed };
    }

    idem_lookup(at) {
        const record = this.#get(at);
        return record && {
            state: record.state, status_code: record.statusCode, response: record.response, response_omitted: record.state === 'completed' ? false : null,
            attempt: record.attempt, steps: stepsOf(record), created_at: record.createdAt, expires_at: null, lease_until: record.leaseUntil,
        };
    }

    idem_http_begin(at, undo) {
        const { idempotency_key: field, method, route } = at;
        const row = { action: 'run', status: null, headers: null, body_bytes: null, fence: null, code: null, retryable: null, key: null };
        const reject = (status, code, headers) => {
            const { headers: own, body } = problem(status, code, 'The fake has rejected the request.', headers);
            return { ...row, action: 'reject', status, headers: JSON.stringify(own), body_bytes: body, code };
        };
        if (field === null) return ['POST', 'PATCH'].includes(method) ? reject(400, 'key_missing') : { ...row, code: 'unkeyed' };
        const [, quoted, bare] = /^(?:"([^"\\]+)"(?:;.*)?|([^",;\s]+))$/.exec(field) ?? [];
        const key = quoted ?? bare;
        if (key === undefined) return reject(400, 'key_malformed');
        const digest = at.fingerprint ?? createHash('sha256').update(`${method}\n${route}\n`).update(at.body_bytes ?? '').digest();
        const [outcome, record] = this.#claim({ ...at, key, fingerprint: digest }, undo);
        if (outcome === 'mismatch') return { ...reject(422, 'mismatch'), key };
        if (outcome === 'in_flight') return { ...reject(409, 'in_flight', { 'Retry-After': '1' }), key };
        if (outcome !== 'completed') return { ...row, fence: record.fence === null ? null : String(record.fence), key };
        const { headers, body } = JSON.parse(record.response);
        return { ...row, action: 'replay', key, status: record.statusCode, headers: JSON.stringify({ ...headers, 'Idempotent-Replayed': 'true' }), body_bytes: body === null ? null : Buffer.from(body, 'hex') };
    }

    idem_http_complete(at, undo) {
        if ((at.idempotency_key ?? null) === null) return { value: 'unkeyed', stored: 'unkeyed' };
        const key = at.idempotency_key.replace(/^"([^"]*)".*$/, '$1');
        const headers = Object.fromEntries(Object.entries(JSON.parse(at.headers ?? '{}')).filter(([name]) => !unstored.test(name)));
        this.idem_complete({ ...at, key, fence: at.fence ?? null, status_code: at.status, response: JSON.stringify({ headers, body: at.omit ? null : text(at.body_bytes) }) }, undo);
        const stored = at.omit ? 'omitted' : 'stored';
        return { value: stored, stored };
    }
}

module.exports = { FakeKeys };
