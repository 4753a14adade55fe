'use strict';

const { setImmediate: nextTurn } = require('node:timers/promises');
const { catchError, of } = require('rxjs');
const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Engine } = require('./lib/engine.js');

/**
 * A NestJS interceptor, on Express and on Fastify: `app.useGlobalInterceptors(new IdempotencyInterceptor(options))`, or `@UseInterceptors(instance)`.
 * Nest parses bodies before interceptors: create the application with `{ rawBody: true }`. The handler finds the transaction in `request.idem`.
 */
class IdempotencyInterceptor {
    #engine;

    constructor(options) {
        this.#engine = new Engine(options);
    }

    intercept(executionContext, next) {
        const http = executionContext.switchToHttp();
        const request = http.getRequest();
        const field = request.headers[this.#engine.header] ?? null;
        if (!this.#engine.applies(request.method, field)) return next.handle();
        return new Promise((resolve, reject) => {
            this.#serve(http.getResponse(), request, field, next, resolve).catch(reject);
        });
    }

    // `resolve` takes what Nest is to answer with.
    async #serve(response, request, field, next, resolve) {
        // Fastify's reply has the response of Node inside.
        const capture = new Capture(response.raw ?? response, response.raw && response.getHeaders());
        const failed = (error) => {
            if (!capture.fail(error)) this.#engine.log('error', 'idem: the handler failed after its response', error);
            throw error;
        };
        const incoming = request.raw ?? request;
        const call = {
            raw: request, method: request.method, url: request.originalUrl, field, incoming,
            readBody: (limit) => readBody(Object.assign(incoming, { rawBody: request.rawBody }), limit),
        };
        try {
            const answer = await this.#engine.handle(call, (context) => {
                request.idem = context;
                resolve(next.handle().pipe(catchError(failed)));
                return capture.result;
            });
            // Where the handler was not called, Nest answers with nothing, which is dropped. With @Res() it does not answer.
            resolve(of(undefined));
            await Promise.race([capture.result, nextTurn()]);
            capture.send(answer);
        } catch (error) {
            capture.restore();
            throw error;
        }
    }
}

module.exports = { IdempotencyInterceptor };
