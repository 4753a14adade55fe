'use strict';

const { builtin } = require('./builtin.js');
const { createHash } = builtin('node:crypto');
const { check, checkOptions } = require('./check.js');
const { CommitUnknown, InDoubt, InFlight, LeaseLost, Mismatch, OutputNotStored, isSerialization, isUnavailable } = require('./errors.js');
const { once } = require('./once.js');
const { annotate, keyHash } = require('./telemetry.js');
const { texts } = require('./tool_texts.js');
const { leased } = require('./work.js');

const sharedKinds = { database: 'any', scope: 'toolScope', callKeys: 'text[]', ttl: 'interval', wait: 'pause', schema: 'name', onOutcome: 'function' };
const toolKinds = { key: 'toolKey', identity: 'text[]', lease: 'timer', ttl: 'interval', wait: 'pause', onCancel: 'onCancel' };

/** Ends the work of a result that is not to be stored: the transaction is rolled back, or the key is released. */
class Undone extends Error {
    constructor(result) {
        super('the result is not stored');
        this.result = result;
    }
}

/** JSON with sorted members: models give members in another order in each attempt. */
function canonical(value) {
    if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
    if (value === null || typeof value !== 'object') return JSON.stringify(value);
    return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
}

const plain = (value) => JSON.parse(JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? String(item) : item)));

/** By the class of the error: the code of the refusal. The order matters: a class before those it extends. */
const codes = [[InFlight, 'in_flight'], [Mismatch, 'mismatch'], [InDoubt, 'in_doubt'], [LeaseLost, 'lease_lost'], [CommitUnknown, 'commit_unknown'], [OutputNotStored, 'not_stored']];

/** What the tools of an application share: where the keys are, and whose they are. */
class Tools {
    constructor(options) {
        checkOptions(options, sharedKinds);
        if (options.database === undefined) throw new TypeError('"database" is missing: a pool of pg, the sql of postgres, a PGlite, or what a hook makes of an ORM');
        check('scope', options.scope, 'toolScope');
        Object.assign(this, options);
    }

    /**
     * @param own the names of the options of the SDK
     * @param config the options of the SDK and of the tool together
     * @returns { tool, rest }: `rest` has the options of the SDK
     */
    define(name, config, own, { key: defaultKey, handler }) {
        check('name', name, 'name');
        check('handler', handler, 'function');
        checkOptions(config, { ...Object.fromEntries(own.map((option) => [option, 'any'])), ...toolKinds });
        const settings = Object.fromEntries(Object.keys(toolKinds).map((option) => [option, config[option]]));
        settings.key ??= defaultKey;
        if (settings.key === undefined) {
            throw new TypeError(`"key" is missing: what makes two calls of "${name}" the same? 'argument' (the model gives a key), 'call' (the host sends an id), or a function of the arguments`);
        }
        const rest = Object.fromEntries(Object.entries(config).filter(([option]) => !(option in toolKinds)));
        return { tool: new Tool(this, name, settings, handler), rest };
    }
}

/** One tool. `handler` gets (arguments, what once() or leased() gives to work, …the other arguments of the SDK). */
class Tool {
    #shared;
    #handler;

    constructor(shared, name, { key, identity, lease, ttl = shared.ttl, wait = shared.wait, onCancel = 'rollback' }, handler) {
        this.#shared = shared;
        this.#handler = handler;
        Object.assign(this, { name, key, identity, lease, ttl, wait, onCancel, source: typeof key === 'function' ? 'function' : key });
    }

    /**
     * @param call { args, context, callId, signal, isUndone, rest }: `context` is the SDK's, for the functions of the options; `callId` → the host's id of the call;
     *     isUndone(result): the result says that nothing is to be kept; `rest`: further arguments of the handler
     * @returns { outcome, result } for a run and a replay, { outcome, code, text, retryAfterMs } for a refusal, and { outcome: 'replay', code: 'omitted', text }
     * @throws what the handler throws
     */
    async call({ args, context, callId, signal, isUndone = () => false, rest }) {
        const started = performance.now();
        const report = { tool: this.name, key: null, scope: null, outcome: 'error', attempt: null };
        try {
            const answer = await this.#answer({ args, context, callId, signal, isUndone, rest }, report);
            report.outcome = answer.code ?? answer.outcome;
            return answer;
        } finally {
            this.#report(report, performance.now() - started);
        }
    }

    async #answer({ args: given, context, callId, signal, isUndone, rest }, report) {
        const { idempotency_key: argument, ...others } = given ?? {};
        const args = this.key === 'argument' ? others : given;
        const key = await this.#keyOf(args, argument, context, callId);
        if (key === undefined) return this.#refusal('key_missing', {});
        report.key = key;
        const scope = report.scope = typeof this.#shared.scope === 'string' ? this.#shared.scope : await this.#shared.scope(context);
        if (typeof scope !== 'string' || scope === '') throw new TypeError('the function "scope" returned no text; it must name the authenticated user, or the thread');
        const options = {
            scope, ttl: this.ttl, wait: this.wait, schema: this.#shared.schema, signal: this.onCancel === 'rollback' ? signal : undefined, fingerprint: this.#fingerprint(args),
            ...(this.lease === undefined ? {} : { lease: this.lease }),
        };
        let thrown;
        const work = async (w) => {
            thrown = undefined;
            try {
                const result = await this.#handler(args, w, ...rest);
                if (isUndone(result)) throw new Undone(result);
                return result;
            } catch (error) {
                thrown = { error };
                throw error;
            }
        };
        try {
            const { value, replayed, omitted, attempt = null } = await (this.lease === undefined ? once : leased)(this.#shared.database, `${this.name}/${key}`, options, work);
            report.attempt = attempt;
            if (!replayed) return { outcome: 'run', result: value };
            return omitted ? { outcome: 'replay', code: 'omitted', text: texts.omitted({ tool: this.name }) } : { outcome: 'replay', result: value };
        } catch (error) {
            if (error instanceof Undone) return { outcome: 'undone', result: error.result };
            const [, code] = codes.find(([type]) => error instanceof type) ?? [];
            if (code) return this.#refusal(code, { key, step: error.step, retryAfterMs: error.retryAfterMs });
            if (signal?.aborted) throw error;
            const isOwn = thrown?.error !== error;
            if (isSerialization(error) || (isOwn && isUnavailable(error))) return this.#refusal('unavailable', {});
            throw error;
        }
    }

    async #keyOf(args, argument, context, callId) {
        const key = this.key === 'argument' ? argument : this.key === 'call' ? callId(this.#shared.callKeys ?? []) : await this.key(args, context);
        if (key === undefined || key === null || key === '') return undefined;
        if (typeof key === 'number' || typeof key === 'bigint') return String(key);
        if (typeof key !== 'string') throw new TypeError(`the key of "${this.name}" must be text`);
        return key;
    }

    #fingerprint(args) {
        const chosen = this.identity ? Object.fromEntries(this.identity.map((name) => [name, args[name]])) : args;
        return createHash('sha256').update(canonical([this.name, plain(chosen)])).digest();
    }

    #refusal(code, more) {
        const text = texts[code]({ tool: this.name, source: this.source, argument: this.key === 'argument', ...more });
        return { outcome: 'refused', code, text, ...(more.retryAfterMs ? { retryAfterMs: more.retryAfterMs } : {}) };
    }

    #report(report, ms) {
        const outcome = { ...report, keyHash: keyHash(report.key), replayed: report.outcome === 'replay' || report.outcome === 'omitted', ms };
        annotate(outcome);
        try {
            this.#shared.onOutcome?.(outcome);
        } catch (error) {
            console.error('idem: onOutcome failed', error);
        }
    }
}

module.exports = { Tools };
