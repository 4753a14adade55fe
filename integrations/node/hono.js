'use strict';

const { Core } = require('./lib/core.js');
const { addMissing, readRequest, readResponse, toResponse } = require('./lib/web.js');

/** A Hono middleware: `app.use(idempotency(options))`. The handler finds the transaction with `c.get('idem')`. */
function idempotency(options) {
    const core = new Core(options);
    return async (c, next) => {
        const { pathname, search } = new URL(c.req.url);
        const request = {
            raw: c, incoming: c, method: c.req.method, url: pathname + search, field: c.req.header(core.header) ?? null, contentType: c.req.header('content-type'),
            async readBody(limit) {
                const { body, request: again } = await readRequest(c.req.raw, limit);
                c.req.raw = again;
                return body;
            },
        };
        if (!core.applies(request)) return next();
        // Those of earlier middleware, such as CORS.
        const base = [...c.res.headers];
        let own;
        const { response } = await core.handle(request, async (context) => {
            c.set('idem', context);
            await next();
            // Hono has made a response of the handler's error.
            const { result, response: again } = await readResponse(c.res, core.maxResponse);
            if (!result.error) c.res = replacement(c, again);
            own = result.response;
            return c.error ? { error: c.error, response: own } : result;
        });
        if (response === own) addMissing(c.res, response);
        else if (response) c.res = replacement(c, toResponse(response, base));
        else c.res = replacement(c, new Response(null, { status: 499 })); // nobody waits
    };
}

// Hono copies the headers of the response that is replaced to the new one.
function replacement(c, response) {
    c.res = undefined;
    return response;
}

module.exports = { idempotency };
