'use strict';

const { BodyTooLarge, watchBody } = require('./body.js');
const { StreamedResponse, isSerialization } = require('./errors.js');
const { leased } = require('./leased.js');
const { readOptions } = require('./options.js');
const { internalError, problem, retryLater } = require('./problem.js');
const { Statements } = require('./statements.js');
const { transactional } = require('./transactional.js');

// A line for each keyed request only where a logger is given.
const errorsOnly = { info() {}, error: (line) => console.error(line) };

/** The middleware without a framework: a request goes in, a response comes out. */
class Engine {
    constructor(options) {
        Object.assign(this, readOptions(options));
        this.logger ??= errorsOnly;
        this.statements = new Statements(this.schema);
        // One text: the order of further arguments differs between loggers.
        this.log = (level, message, error) => this.logger[level](error === undefined ? message : `${message}: ${error?.stack ?? error}`);
    }

    /** Whether the middleware handles this request. `field`: the value of the header field, null without one. */
    applies(method, field) {
        return field !== null || this.isKeyed(method);
    }

    /**
     * @param request { raw, method, url, field, readBody, incoming }: `raw` is the framework's request, for scope and route; readBody(limit) → promise of
     *     a Buffer; `incoming` is the request of Node from which the handler reads the body again, if it does
     * @param run (context) → promise of { response, error, passed }; called once at most
     * @returns the response to send, { status, headers, body }, or null if the handler passed the request on
     * @throws the handler's error, after the rollback; what the functions scope and route throw
     */
    async handle(request, run) {
        const started = performance.now();
        // The key is known when PostgreSQL has parsed the field.
        const call = { method: request.method, field: request.field, key: null };
        let result = { outcome: 'reject' };
        try {
            call.scope = await this.scope(request.raw);
            call.route = this.route ? await this.route(request.raw) : request.url;
            result = await this.#handle(call, request, run);
            if (result.error) throw result.error;
            if (result.response && call.added) addHeaders(result.response, call.added);
            return result.response ?? null;
        } finally {
            this.#report(call, result, performance.now() - started);
        }
    }

    async #handle(call, request, run) {
        if (typeof call.scope !== 'string' || call.scope === '') {
            this.log('error', 'idem: the function "scope" returned no text; it must name the authenticated client');
            return { outcome: 'reject', response: internalError() };
        }
        try {
            call.body = await request.readBody(this.maxBody);
        } catch (error) {
            if (error instanceof BodyTooLarge) {
                return { outcome: 'reject', response: problem(413, 'body_too_large', `The body is over ${this.maxBody} bytes.`, { connection: 'close' }) };
            }
            this.log('error', 'idem: could not read the body', error);
            return { outcome: 'reject', response: internalError() };
        }
        let lost;
        const loss = new Promise((resolve) => {
            if (request.incoming && call.body.length > 0) watchBody(request.incoming, (error) => resolve(lost = { error }));
        });
        const settled = async (context) => {
            if (lost) return lost;
            try {
                if (this.lease === undefined) return await Promise.race([loss, run(context)]);
                // The key must not be released while the handler works outside of the transaction.
                const result = await run(context);
                return lost && result.response?.status >= 400 ? lost : result;
            } catch (error) {
                return { error };
            }
        };
        return this.lease === undefined ? transactional(this, call, settled) : leased(this, call, settled);
    }

    /** What to answer when the handler has failed or passed, and nothing is kept: the framework's response, else the error is thrown. */
    afterFailure({ response, error, passed }) {
        if (passed) return { outcome: 'passed' };
        if (error instanceof StreamedResponse) {
            this.log('error', `idem: ${error.message}`);
            return { outcome: 'run', response: problem(500, 'streamed', `${error.message}.`) };
        }
        if (isSerialization(error)) return { outcome: 'run', response: retryLater('serialization_failure', 'The transaction met another one and was rolled back.') };
        return response ? { outcome: 'run', response } : { outcome: 'run', error };
    }

    #report({ scope, field, key, method, route }, { outcome, response, fence }, ms) {
        const status = response?.status;
        if (field !== null) this.log('info', `idem: ${outcome} ${method} ${route} key=${key ?? '-'} status=${status ?? '-'}`);
        if (!this.onOutcome) return;
        try {
            this.onOutcome({ scope, key, method, route, outcome, status, ms, ...(fence === undefined ? {} : { fence }) });
        } catch (error) {
            this.log('error', 'idem: onOutcome failed', error);
        }
    }
}

/** Adds to a response the header fields that it does not have. It stays the same object, by which its sender knows the handler's. */
function addHeaders(response, added) {
    const names = Object.keys(response.headers).map((name) => name.toLowerCase());
    const missing = Object.entries(added).filter(([name]) => !names.includes(name.toLowerCase()));
    response.headers = { ...response.headers, ...Object.fromEntries(missing) };
}

module.exports = { Engine };
