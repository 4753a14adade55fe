'use strict';

const { builtin } = require('./lib/builtin.js');
const { setImmediate: nextTurn } = builtin('node:timers/promises');
const { Inject, Injectable, Optional, UseInterceptors } = require('@nestjs/common');
const { catchError, of } = require('rxjs');
const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Core } = require('./lib/core.js');

/**
 * A NestJS interceptor, on Express and on Fastify: `app.useGlobalInterceptors(new IdempotencyInterceptor(options))`, or `@UseInterceptors(instance)`.
 * Nest parses bodies before interceptors: create the application with `{ rawBody: true }`. The handler finds the transaction in `request.idem`.
 */
class IdempotencyInterceptor {
    #core;

    constructor(options) {
        this.#core = new Core(options);
    }

    intercept(executionContext, next) {
        const http = executionContext.switchToHttp();
        const request = http.getRequest();
        // Express's request is that of Node; Fastify's has it inside.
        const incoming = request.raw ?? request;
        const call = {
            raw: request, incoming, method: request.method, url: request.originalUrl, field: request.headers[this.#core.header] ?? null,
            contentType: request.headers['content-type'], drops: incoming, readBody: (limit) => readBody(Object.assign(incoming, { rawBody: bytesOf(request) }), limit),
        };
        if (!this.#core.applies(call)) return next.handle();
        return new Promise((resolve, reject) => {
            this.#serve(http.getResponse(), request, call, next, resolve).catch(reject);
        });
    }

    // `resolve` takes what Nest is to answer with.
    async #serve(response, request, call, next, resolve) {
        // Fastify's reply has the response of Node inside.
        const capture = new Capture(response.raw ?? response, this.#core.maxResponse, response.raw && response.getHeaders());
        const failed = (error) => {
            if (!capture.fail(error)) this.#core.log('error', 'the handler failed after its response', error);
            throw error;
        };
        try {
            const answer = await this.#core.handle(call, (context) => {
                request.idem = context;
                resolve(next.handle().pipe(catchError(failed)));
                return capture.result;
            });
            // Where the handler was not called, Nest answers with nothing, which is dropped. With @Res() it does not answer.
            resolve(of(undefined));
            await Promise.race([capture.result, nextTurn()]);
            if (answer.response) capture.send(answer.response);
            else capture.restore();
        } catch (error) {
            capture.restore();
            throw error;
        }
    }
}

/** The token of the options that `@Idempotent()` adds its own to. */
const IDEMPOTENCY = 'idem-postgres';

/** A decorator of a route or a controller: `@Idempotent({ lease: '30 s' })`. A module provides the options that all routes share as IDEMPOTENCY. */
function Idempotent(options = {}) {
    class RouteInterceptor extends IdempotencyInterceptor {
        constructor(shared) {
            super({ ...shared, ...options });
        }
    }
    Injectable()(RouteInterceptor);
    for (const decorate of [Inject(IDEMPOTENCY), Optional()]) decorate(RouteInterceptor, undefined, 0);
    return UseInterceptors(RouteInterceptor);
}

// Nest keeps the bytes of JSON and of forms. Fastify's own parser of text/plain keeps only its text.
function bytesOf({ rawBody, body }) {
    if (rawBody !== undefined) return rawBody;
    return typeof body === 'string' || Buffer.isBuffer(body) ? Buffer.from(body) : undefined;
}

module.exports = { IDEMPOTENCY, Idempotent, IdempotencyInterceptor };
