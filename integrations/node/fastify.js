'use strict';

const { builtin } = require('./lib/builtin.js');
const { subscribe } = builtin('node:diagnostics_channel');
const { Readable } = builtin('node:stream');
const { readBody } = require('./lib/body.js');
const { Capture } = require('./lib/capture.js');
const { Core } = require('./lib/core.js');

// By Fastify's request: the promise of its bytes, and what keeps its response.
const bodies = new WeakMap();
const captures = new WeakMap();
// Replies that the handler sends, or returned to send later.
const answered = new WeakSet();

/**
 * A Fastify plugin: `fastify.register(idempotency, options)`. It holds for the routes of the context in which it is registered. The handler finds the
 * transaction in `request.idem`. Hooks that authenticate are to be added before it.
 */
async function idempotency(fastify, options) {
    const core = new Core({ logger: fastify.log, ...options });
    const callOf = (request) => ({
        raw: request, incoming: request.raw, method: request.method, url: request.url, field: request.headers[core.header] ?? null,
        contentType: request.headers['content-type'], readBody: () => bodies.get(request) ?? readBody(request.raw, core.maxBody), drops: request.raw,
    });
    if (!fastify.hasRequestDecorator('idem')) fastify.decorateRequest('idem', null);

    fastify.addHook('preParsing', (request, reply, payload, done) => {
        const call = callOf(request);
        if (bodies.has(request) || !core.applies(call)) return done(null, payload);
        const body = readBody(request.raw, core.maxBody);
        bodies.set(request, body);
        // The parser waits for an end, which an empty body has had. An error is answered before the parser meets what is left of the body.
        body.then(() => done(null, payload.readableEnded ? Readable.from([]) : payload), () => serve(core, call, request, reply, done));
    });

    fastify.addHook('preHandler', (request, reply, done) => {
        const call = callOf(request);
        if (!core.applies(call)) return done();
        serve(core, call, request, reply, done);
    });

    fastify.addHook('onError', async (request, reply, error) => {
        captures.get(request)?.fail(error);
    });
}
// Hooks are to hold where the plugin is registered, not inside of it.
idempotency[Symbol.for('skip-override')] = true;
idempotency[Symbol.for('fastify.display-name')] = 'idem-postgres';

// When the client is gone, Fastify does not answer for an async handler that returns nothing.
subscribe('tracing:fastify.request.handler:asyncEnd', ({ request, reply, error }) => {
    if (captures.has(request) && !error && !answered.has(reply)) reply.send();
});

// An async function that returns the reply calls its then().
function noteAnswer(reply) {
    for (const name of ['send', 'then']) {
        const original = reply[name];
        reply[name] = (...args) => {
            answered.add(reply);
            return original.apply(reply, args);
        };
    }
}

async function serve(core, call, request, reply, done) {
    const capture = new Capture(reply.raw, core.maxResponse, reply.getHeaders());
    captures.set(request, capture);
    let hasRun = false;
    try {
        const { response } = await core.handle(call, (context) => {
            hasRun = true;
            request.idem = context;
            noteAnswer(reply);
            done();
            return capture.result;
        });
        if (hasRun) return capture.send(response);
        capture.restore();
        if (response) reply.code(response.status).headers(response.headers).send(response.body.length ? response.body : undefined);
        // Nobody waits.
        else reply.hijack();
    } catch (error) {
        capture.restore();
        done(error);
    }
}

module.exports = { idempotency };
