'use strict';

const { builtin } = require('./lib/builtin.js');
const { STATUS_CODES } = builtin('node:http');
const { Readable, Stream } = builtin('node:stream');
const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Core } = require('./lib/core.js');
const { StreamedResponse } = require('./lib/errors.js');

/** A Koa middleware: `app.use(idempotency(options))`, before the body parser. The handler finds the transaction in `ctx.state.idem`. */
function idempotency(options) {
    const core = new Core(options);
    return async (ctx, next) => {
        const request = {
            raw: ctx, incoming: ctx.req, method: ctx.method, url: ctx.originalUrl, field: ctx.req.headers[core.header] ?? null,
            contentType: ctx.req.headers['content-type'], readBody: (limit) => readBody(ctx.req, limit), drops: ctx.req,
        };
        if (!core.applies(request)) return next();
        const base = { ...ctx.res.getHeaders() };
        // Koa sends after the middleware. What is sent before that bypasses it.
        const capture = new Capture(ctx.res, core.maxResponse);
        let own;
        const run = async (context) => {
            ctx.state.idem = context;
            try {
                await next();
            } catch (error) {
                // Koa makes a response of it after the middleware.
                return core.storeErrors.includes(error?.status) ? { error, response: own = ofError(error) } : { error };
            }
            if (capture.isTouched || ctx.respond === false) return { error: new StreamedResponse('it bypasses Koa') };
            // No middleware has handled the request; or a parser has noticed that the client is gone, so the handler was not reached.
            if ((ctx.status === 404 && ctx.body == null) || ctx.status === 499) return { passed: true };
            const result = await rendered(ctx, core.maxResponse);
            if (result.error) return result;
            own = { status: ctx.status, headers: { ...ctx.res.getHeaders() }, ...result };
            return { response: own };
        };
        let answer;
        try {
            answer = await core.handle(request, run);
        } finally {
            capture.restore();
        }
        const { response } = answer;
        if (!response) return;
        if (response !== own || !own.stream) replace(ctx, response, response === own ? {} : base);
        else {
            ctx.body = own.stream;
            for (const [name, value] of Object.entries(own.headers)) ctx.set(name, value);
        }
    };
}

// As Koa answers an error that is thrown.
function ofError({ status, expose, message, headers }) {
    return { status, headers: { ...headers, 'content-type': 'text/plain; charset=utf-8' }, body: Buffer.from(expose ? message : STATUS_CODES[status] ?? String(status)) };
}

/** → { body }: the bytes that Koa would send; { isLarge, stream } where they are more than `limit`. */
async function rendered(ctx, limit) {
    const { body } = ctx;
    if (String(ctx.response.get('Content-Type')).startsWith('text/event-stream')) return { error: new StreamedResponse('server-sent events') };
    const stream = streamOf(body);
    if (stream) return readStream(stream, limit);
    const bytes = await bytesOf(ctx, body);
    return bytes.length > limit ? { isLarge: true, stream: Readable.from([bytes]) } : { body: bytes };
}

function streamOf(body) {
    if (body instanceof Response) return body.body ? Readable.fromWeb(body.body) : Readable.from([]);
    if (body instanceof ReadableStream) return Readable.fromWeb(body);
    return body instanceof Stream ? body : null;
}

async function readStream(stream, limit) {
    const parts = stream[Symbol.asyncIterator]();
    const chunks = [];
    let length = 0;
    for (let part; !(part = await parts.next()).done;) {
        chunks.push(Buffer.from(part.value));
        length += chunks.at(-1).length;
        if (length > limit) return { isLarge: true, stream: Readable.from(rest(chunks, parts)) };
    }
    return { body: Buffer.concat(chunks) };
}

async function* rest(chunks, parts) {
    yield* chunks;
    for (let part; !(part = await parts.next()).done;) yield part.value;
}

async function bytesOf(ctx, body) {
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
    if (body.length > 0) {
        ctx.body = body;
        // Setting the body may have guessed its type.
        if (headers['content-type'] !== undefined) ctx.set('content-type', headers['content-type']);
    } else if (![204, 205, 304].includes(status)) ctx.body = '';
}

module.exports = { idempotency };
