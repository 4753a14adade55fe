'use strict';

const { Core } = require('./lib/core.js');
const { addMissing, readRequest, readResponse, toResponse } = require('./lib/web.js');

// A request whose body was read is another object for the handler, and for a middleware in the place of the handler.
const originals = new WeakMap();

/**
 * Handlers of the web's Request, such as the route handlers of Next.js: `export const POST = idempotent(async (request, context) => Response)`.
 * The handler finds the transaction in `request.idem`, or with current().
 */
function idempotency(options) {
    const core = new Core(options);
    return (handler) => {
        if (typeof handler !== 'function') throw new TypeError('idempotent() wraps a handler: export const POST = idempotent(async (request) => Response)');
        return async (request, ...rest) => {
            const { pathname, search } = new URL(request.url);
            let again = request, own, answer;
            const call = {
                raw: request, incoming: originals.get(request) ?? request, method: request.method, url: pathname + search, field: request.headers.get(core.header),
                contentType: request.headers.get('content-type') ?? undefined,
                async readBody(limit) {
                    const read = await readRequest(request, limit);
                    again = read.request;
                    originals.set(again, request);
                    return read.body;
                },
            };
            if (!core.applies(call)) return handler(request, ...rest);
            const { response } = await core.handle(call, async (context) => {
                Object.defineProperty(again, 'idem', { value: context });
                const { result, response: whole } = await readResponse(await handler(again, ...rest), core.maxResponse);
                [own, answer] = [result.response, whole];
                return result;
            });
            if (!response) return new Response(null, { status: 499 });
            if (response !== own) return toResponse(response);
            addMissing(answer, response);
            return answer;
        };
    };
}

module.exports = { idempotency };
