'use strict';

const { builtin } = require('./builtin.js');
const { AsyncLocalStorage } = builtin('node:async_hooks');
const { BodyTooLarge, ClientGone, watchBody } = require('./body.js');
const { StreamedResponse, isLost, isSerialization } = require('./errors.js');
const { leased } = require('./leased.js');
const { readOptions } = require('./options.js');
const { internalError, problem, serializationFailure, unavailable } = require('./problem.js');
const { Statements } = require('./statements.js');
const { annotate, keyHash } = require('./telemetry.js');
const { transactional } = require('./transactional.js');

// A line for each keyed request only where a logger is given.
const errorsOnly = { info() {}, error: (line) => console.error(line) };
const exchanges = new AsyncLocalStorage();
// The requests that a middleware is handling, by the object that all middlewares of a request see.
const open = new WeakSet();

/** The exchange of the request that is running, as `req.idem` has it; undefined outside of a handler. */
const current = () => exchanges.getStore();

/** The middleware without a framework: a request goes in, a response comes out. tests/vectors/http_flow.json has its cases. */
class Core {
    constructor(options) {
        Object.assign(this, readOptions(options));
        this.logger ??= errorsOnly;
        this.statements = new Statements(this.schema);
    }

    /**
     * Whether the middleware handles this request. A request that is handled already is left alone: the middleware is mounted twice.
     *
     * @param request as of handle()
     */
    applies({ raw, incoming, method, field }) {
        if (open.has(incoming)) return false;
        return (field !== null || this.isKeyed(method)) && !this.skip?.(raw);
    }

    /**
     * @param request { raw, incoming, method, url, field, contentType, readBody, drops }: `raw` is the framework's request, for the functions of the options;
     *     `incoming` is the object that all middlewares of the request see; `field` is the value of the header field, null without one; readBody(limit) →
     *     promise of a Buffer; `drops`: the request of Node from which the handler reads the body again, if it does
     * @param run (context) → promise of { response: { status, headers, body, isLarge }, error, passed }; called once at most
     * @returns { response } to send, { passed: true } if the handler left the request to the next one, { gone: true } if nobody waits
     * @throws the handler's error, after the rollback; what the functions of the options throw
     */
    async handle(request, run) {
        const started = performance.now();
        // The key is known when PostgreSQL has parsed the field.
        const call = { method: request.method, field: request.field, contentType: request.contentType, key: null };
        let result = { outcome: 'reject' };
        open.add(request.incoming);
        try {
            call.scope = await this.scope(request.raw);
            call.route = this.route ? await this.route(request.raw) : request.url;
            result = await this.#handle(call, request, run);
            if (result.error) throw result.error;
            const { response } = result;
            if (!response) return { [result.outcome]: true };
            if (call.added) addHeaders(response, call.added);
            return { response: await this.#own(response, request.raw) };
        } finally {
            open.delete(request.incoming);
            this.#report(call, result, performance.now() - started);
        }
    }

    /** The same in two calls, for a framework that has a hook before the handler and one after it: open(request) → { response } … or { context, close(result) }. */
    async open(request) {
        let close, begin;
        const begun = new Promise((resolve) => { begin = resolve; });
        const ended = this.handle(request, (context) => {
            begin({ context, close: (result) => {
                close(result);
                return ended;
            } });
            return new Promise((resolve) => { close = resolve; });
        });
        return Promise.race([begun, ended]);
    }

    /** What idem_http_begin has said of the call. */
    note(call, { key, headers, code }) {
        call.key = key;
        call.added = headers;
        call.code = code;
    }

    log(level, message, error, call) {
        const place = call ? ` (${call.method} ${call.route} key=${call.key ?? call.field ?? '-'})` : '';
        // One text: the order of further arguments differs between loggers.
        (this.logger[level] ?? this.logger.error).call(this.logger, `idem: ${message}${place}${error === undefined ? '' : `: ${error?.stack ?? error}`}`);
    }

    warnOmitted(call) {
        this.log('warn', `the response was sent and not stored, because it is too large: a repetition gets its status without the body`, undefined, call);
    }

    tooLarge(call) {
        this.log('error', 'the response is too large to be stored, and was rolled back', undefined, call);
        return problem(500, 'response_too_large', 'The response is too large to be stored. Nothing was done.');
    }

    /** What to answer when nothing of the handler's result is kept; undefined: its response is to be stored. A thrown error rolls back, a response does not. */
    refusal(call, { response, error, passed }) {
        if (passed) return { outcome: 'passed' };
        const refuse = (answer) => ({ outcome: 'run', response: answer });
        if (error && !(response && this.storeErrors.includes(response.status))) {
            if (error instanceof StreamedResponse) {
                this.log('error', error.message, undefined, call);
                return refuse(problem(500, 'streamed', `${error.message}.`));
            }
            if (isSerialization(error)) return refuse(serializationFailure());
            if (isLost(error)) {
                this.log('error', 'the connection was lost', error, call);
                return refuse(unavailable());
            }
            return response ? refuse(response) : { outcome: 'run', error };
        }
        const [, encoding] = Object.entries(response.headers).find(([name]) => name.toLowerCase() === 'content-encoding') ?? [];
        if (encoding !== undefined && String(encoding).toLowerCase() !== 'identity') {
            const detail = 'compression belongs outside of the middleware';
            this.log('error', `the response has Content-Encoding: ${encoding}; ${detail}`, undefined, call);
            return refuse(problem(500, 'response_encoded', `${detail}.`));
        }
        return response.isLarge && this.oversize === 'rollback' ? refuse(this.tooLarge(call)) : undefined;
    }

    async #handle(call, request, run) {
        if (typeof call.scope !== 'string' || call.scope === '') {
            this.log('error', 'the function "scope" returned no text; it must name the authenticated client', undefined, call);
            return { outcome: 'reject', response: internalError() };
        }
        try {
            call.body = await request.readBody(this.maxBody);
        } catch (error) {
            if (error instanceof ClientGone) return { outcome: 'gone' };
            if (error instanceof BodyTooLarge) {
                return { outcome: 'reject', response: problem(413, 'body_too_large', `The body is over ${this.maxBody} bytes.`, { connection: 'close' }) };
            }
            this.log('error', 'could not read the body', error, call);
            return { outcome: 'reject', response: internalError() };
        }
        if (call.field === null && this.keyFrom) call.field = (await this.keyFrom(request.raw, call.body)) ?? null;
        if (this.fingerprint) call.fingerprint = await this.fingerprint(request.raw, call.body) ?? undefined;
        const settled = this.#settled(call, request, run);
        return this.lease === undefined ? transactional(this, call, settled) : leased(this, call, settled);
    }

    #settled(call, request, run) {
        let lost;
        const loss = new Promise((resolve) => {
            if (request.drops && call.body.length > 0) watchBody(request.drops, (error) => resolve(lost = { error }));
        });
        return async (context) => {
            if (lost) return lost;
            try {
                const running = exchanges.run(context, () => run(context));
                if (this.lease === undefined) return await Promise.race([loss, running]);
                // The key must not be released while the handler works outside of the transaction.
                const result = await running;
                return lost && result.response?.status >= 400 ? lost : result;
            } catch (error) {
                return { error: error ?? new Error('the handler has thrown nothing') };
            }
        };
    }

    /** The application's form of an error of the middleware. */
    async #own(response, raw) {
        if (!this.onError || response.code === undefined) return response;
        const { status, code, headers, body } = response;
        const own = await this.onError({ status, code, headers, body: body.toString() }, raw);
        if (!own) return response;
        const isJson = own.body !== undefined && typeof own.body !== 'string' && !(own.body instanceof Uint8Array);
        const type = isJson ? 'application/json' : own.headers?.['content-type'] ?? 'text/plain; charset=utf-8';
        return {
            status, headers: { ...headers, 'content-type': type, ...own.headers },
            body: own.body === undefined ? body : Buffer.from(isJson ? JSON.stringify(own.body) : own.body),
        };
    }

    #report({ scope, field, key, method, route }, { outcome, response, fence, attempt }, ms) {
        const status = response?.status;
        if (field !== null) this.log('info', `${outcome} ${method} ${route} key=${key ?? '-'} status=${status ?? '-'}`);
        const report = { scope, key, keyHash: keyHash(key), method, route, outcome, replayed: outcome === 'replay', status, ms, ...(fence === undefined ? {} : { fence, attempt }) };
        annotate(report);
        if (!this.onOutcome) return;
        try {
            this.onOutcome(report);
        } catch (error) {
            this.log('error', 'onOutcome failed', error);
        }
    }
}

/** Adds to a response the header fields that it does not have. It stays the same object, by which its sender knows the handler's. */
function addHeaders(response, added) {
    const names = Object.keys(response.headers).map((name) => name.toLowerCase());
    const missing = Object.entries(added).filter(([name]) => !names.includes(name.toLowerCase()));
    response.headers = { ...response.headers, ...Object.fromEntries(missing) };
}

module.exports = { Core, current };
