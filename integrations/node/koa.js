'use strict';

const { Stream } = require('node:stream');
const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Engine } = require('./lib/engine.js');
const { StreamedResponse } = require('./lib/errors.js');

/** A Koa middleware: `app.use(idempotency(options))`, before the body parser. The handler finds the transaction in `ctx.state.idem`. */
function idempotency(options) {
    const engine = new Engine(options);
    return async (ctx, next) => {
        const field = ctx.req.headers[engine.header] ?? null;
        if (!engine.applies(ctx.method, field)) return next();
        const base = { ...ctx.res.getHeaders() };
        // Koa sends after the middleware. What is sent before that is a stream.
        const capture = new Capture(ctx.res);
        let own;
        const request = { raw: ctx, method: ctx.method, url: ctx.originalUrl, field, readBody: (limit) => readBody(ctx.req, limit), incoming: ctx.req };
        const run = async (context) => {
            ctx.state.idem = context;
            await next();
            if (capture.isTouched || ctx.respond === false) return { error: new StreamedResponse('it bypasses Koa') };
            // No middleware has handled the request; or a parser has noticed that the client is gone, so the handler was not reached.
            if ((ctx.status === 404 && ctx.body == null) || ctx.status === 499) return { passed: true };
            const body = await rendered(ctx);
            if (body instanceof Error) return { error: body };
            own = { status: ctx.status, headers: { ...ctx.res.getHeaders() }, body };
            return { response: own };
        };
        let response;
        try {
            response = await engine.handle(request, run);
        } finally {
            capture.restore();
        }
        if (response === null) return;
        if (response !== own) replace(ctx, response, base);
        else if (own.body.length > 0) ctx.body = own.body;
    };
}

// The bytes that Koa would send.
async function rendered(ctx) {
    const { body } = ctx;
    if (body instanceof Stream || body instanceof ReadableStream || body instanceof Response) return new StreamedResponse('its body is a stream');
    if (Buffer.isBuffer(body)) return body;
    if (body instanceof Blob) return Buffer.from(await body.arrayBuffer());
    if (typeof body === 'string') return Buffer.from(body);
    if (body !== undefined && body !== null) return Buffer.from(JSON.stringify(body));
    if (body === null || [204, 205, 304].includes(ctx.status)) return Buffer.alloc(0);
    // Koa sends the status text where there is no body.
    ctx.body = ctx.message || String(ctx.status);
    return Buffer.from(ctx.body);
}

function replace(ctx, { status, headers, body }, base) {
    for (const name of ctx.res.getHeaderNames()) ctx.remove(name);
    for (const [name, value] of Object.entries({ ...base, ...headers })) ctx.set(name, value);
    ctx.status = status;
    // null would remove the headers of the body.
    if (body.length > 0) ctx.body = body;
    else if (![204, 205, 304].includes(status)) ctx.body = '';
}

module.exports = { idempotency };
