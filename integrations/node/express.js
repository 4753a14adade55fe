'use strict';

const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Core } = require('./lib/core.js');

/**
 * Express 4 and 5. Returns a function that makes handlers or a Router idempotent: `app.post('/orders', idempotent(handler))`,
 * `app.use('/api', idempotent(router))`. The handler finds the transaction in `req.idem`.
 *
 * It wraps the handler, because a middleware before it does not learn that it failed: Express gives errors to later middleware only.
 */
function idempotency(options) {
    const core = new Core(options);
    return (...given) => {
        const handlers = given.flat(Infinity);
        if (isRequest(handlers)) return handlers[2](misuse());
        for (const handler of handlers) {
            if (typeof handler !== 'function' || handler.length > 3) {
                throw new TypeError('idempotent() wraps handlers and Routers: idempotent(router), or idempotent(validate, handler). Handlers of errors belong after it');
            }
        }
        if (handlers.length === 0) throw new TypeError('idempotent() wraps handlers and Routers: idempotent(handler)');
        const handler = chain(handlers);
        return (req, res, next) => {
            const request = {
                raw: req, incoming: req, method: req.method, url: req.originalUrl, field: req.headers[core.header] ?? null,
                contentType: req.headers['content-type'], readBody: (limit) => readBody(req, limit), drops: req,
            };
            if (core.applies(request)) serve(core, handler, request, res, next);
            else return handler(req, res, next);
        };
    };
}

// app.use(idempotency(options)): Express calls the wrapper as if it were a middleware.
const isRequest = ([req, res, next]) => typeof req === 'object' && typeof res?.setHeader === 'function' && typeof next === 'function';

const misuse = () => new TypeError('idempotency(options) is no middleware, because a middleware does not learn that a later handler failed. It returns a function '
    + `that wraps handlers: const idempotent = idempotency(options); app.post('/orders', idempotent(handler)), or app.use(idempotent(router))`);

/** The handlers one after another, as Express calls them. */
const chain = (handlers) => (handlers.length === 1 ? handlers[0] : (req, res, next) => {
    const call = (index) => (argument) => {
        if (argument || index === handlers.length) return next(argument);
        return invoke(handlers[index], req, res, next, call(index + 1));
    };
    return call(0)();
});

async function serve(core, handler, request, res, next) {
    const { raw: req } = request;
    const capture = new Capture(res, core.maxResponse);
    let passedOn;
    const run = (context) => {
        req.idem = context;
        const fail = (error) => {
            if (capture.fail(error)) next(error);
            else core.log('error', 'the handler failed after its response', error);
        };
        // next('route') and next('router') are no errors.
        invoke(handler, req, res, fail, (argument) => {
            if (argument && argument !== 'route' && argument !== 'router') return fail(argument);
            passedOn = argument;
            capture.pass();
        });
        return capture.result;
    };
    try {
        const { response, passed } = await core.handle(request, run);
        if (response) return capture.send(response);
        capture.restore();
        if (passed) next(passedOn);
    } catch (error) {
        capture.restore();
        next(error);
    }
}

async function invoke(handler, req, res, fail, next) {
    try {
        await handler(req, res, next);
    } catch (error) {
        fail(error);
    }
}

/** For body parsers that run before the handler is reached: `express.json({ verify: keepRawBody })`. */
function keepRawBody(req, res, bytes) {
    req.rawBody = bytes;
}

module.exports = { idempotency, keepRawBody };
