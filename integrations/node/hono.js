'use strict';

const { BodyTooLarge } = require('./lib/body.js');
const { Engine } = require('./lib/engine.js');
const { StreamedResponse } = require('./lib/errors.js');

/** A Hono middleware: `app.use(idempotency(options))`. The handler finds the transaction with `c.get('idem')`. */
function idempotency(options) {
    const engine = new Engine(options);
    return async (c, next) => {
        const field = c.req.header(engine.header) ?? null;
        if (!engine.applies(c.req.method, field)) return next();
        const { pathname, search } = new URL(c.req.url);
        const request = { raw: c, method: c.req.method, url: pathname + search, field, readBody: (limit) => readBody(c, limit) };
        let own;
        const response = await engine.handle(request, async (context) => {
            c.set('idem', context);
            await next();
            // Hono has made a response of the handler's error.
            if (c.error) return { error: c.error, response: own = { status: c.res.status } };
            const body = await readResponse(c.res);
            if (body instanceof Error) return { error: body };
            own = { status: c.res.status, headers: Object.fromEntries(c.res.headers), body };
            c.res = replacement(c, new Response(body.length ? body : null, c.res));
            return { response: own };
        });
        if (response !== own) c.res = replacement(c, toResponse(response));
    };
}

// Hono copies the headers of the response that is replaced to the new one.
function replacement(c, response) {
    c.res = undefined;
    return response;
}

function toResponse({ status, headers, body }) {
    const list = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((item) => [name, item]));
    return new Response(body.length ? body : null, { status, headers: list });
}

async function readBody(c, limit) {
    if (Number(c.req.header('content-length')) > limit) throw new BodyTooLarge();
    if (!c.req.raw.body) return Buffer.alloc(0);
    if (c.req.raw.bodyUsed) throw new Error('the body was parsed before the middleware read its bytes: put the middleware before the parser');
    const chunks = [];
    let length = 0;
    for await (const chunk of c.req.raw.body) {
        length += chunk.length;
        if (length > limit) throw new BodyTooLarge();
        chunks.push(chunk);
    }
    const body = Buffer.concat(chunks);
    c.req.raw = new Request(c.req.raw, { body });
    return body;
}

// A response whose body has more than one chunk is a stream.
async function readResponse(response) {
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) return new StreamedResponse('server-sent events');
    if (!response.body) return Buffer.alloc(0);
    const chunks = [];
    for await (const chunk of response.body) {
        // Leaving the loop cancels the stream.
        if (chunks.push(chunk) > 1) return new StreamedResponse('more than one write before the end');
    }
    return Buffer.concat(chunks);
}

module.exports = { idempotency };
