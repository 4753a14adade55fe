'use strict';

const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Engine } = require('./lib/engine.js');

/**
 * Express 4 and 5. Returns a function that makes a handler or a Router idempotent: `app.post('/orders', idempotent(handler))`,
 * `app.use('/api', idempotent(router))`. The handler finds the transaction in `req.idem`.
 *
 * It wraps the handler, because a middleware before it does not learn that it failed: Express gives errors to later middleware only.
 */
function idempotency(options) {
    const engine = new Engine(options);
    return (handler) => (req, res, next) => {
        const field = req.headers[engine.header] ?? null;
        if (engine.applies(req.method, field)) serve(engine, handler, field, req, res, next);
        else return handler(req, res, next);
    };
}

async function serve(engine, handler, field, req, res, next) {
    const capture = new Capture(res);
    let passedOn;
    const request = { raw: req, method: req.method, url: req.originalUrl, field, readBody: (limit) => readBody(req, limit), incoming: req };
    const run = (context) => {
        req.idem = context;
        const fail = (error) => {
            if (capture.fail(error)) next(error);
            else engine.log('error', 'idem: the handler failed after its response', error);
        };
        invoke(handler, req, res, fail, (argument) => {
            passedOn = argument;
            capture.pass();
        });
        return capture.result;
    };
    try {
        const response = await engine.handle(request, run);
        if (response) return capture.send(response);
    } catch (error) {
        capture.restore();
        return next(error);
    }
    capture.restore();
    next(passedOn);
}

// next('route') and next('router') are no errors.
async function invoke(handler, req, res, fail, pass) {
    try {
        await handler(req, res, (argument) => (argument && argument !== 'route' && argument !== 'router' ? fail(argument) : pass(argument)));
    } catch (error) {
        fail(error);
    }
}

/** For body parsers that run before the handler is reached: `express.json({ verify: keepRawBody })`. */
function keepRawBody(req, res, bytes) {
    req.rawBody = bytes;
}

module.exports = { idempotency, keepRawBody };
