'use strict';

const { BodyTooLarge, ClientGone } = require('./body.js');
const { StreamedResponse } = require('./errors.js');

// What Hono and the route handlers of Next.js share: the Request and Response of the web.

/** → the bytes of a Request, and a Request that can be read again. */
async function readRequest(request, limit) {
    if (Number(request.headers.get('content-length')) > limit) throw new BodyTooLarge();
    if (!request.body) return { body: Buffer.alloc(0), request };
    if (request.bodyUsed) throw new Error('the body was parsed before the middleware read its bytes: put the middleware before the parser');
    const chunks = [];
    let length = 0;
    try {
        for await (const chunk of request.body) {
            length += chunk.length;
            if (length > limit) throw new BodyTooLarge();
            chunks.push(chunk);
        }
    } catch (error) {
        if (error instanceof BodyTooLarge) throw error;
        throw new ClientGone(error?.message);
    }
    const body = Buffer.concat(chunks);
    return { body, request: new Request(request, { body }) };
}

/**
 * Reads a Response up to `limit` bytes.
 *
 * @returns { result, response }: `result` as of Capture, `response` to send in place of the one that was read
 */
async function readResponse(response, limit) {
    const head = { status: response.status, headers: Object.fromEntries(response.headers) };
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) return { result: { error: new StreamedResponse('server-sent events') }, response };
    if (!response.body) return { result: { response: { ...head, body: Buffer.alloc(0) } }, response };
    const reader = response.body.getReader();
    const chunks = [];
    let length = 0;
    for (let part; !(part = await reader.read()).done;) {
        chunks.push(part.value);
        length += part.value.length;
        if (length > limit) return { result: { response: { ...head, isLarge: true } }, response: new Response(rest(chunks, reader), response) };
    }
    const body = Buffer.concat(chunks);
    return { result: { response: { ...head, body } }, response: new Response(body.length ? body : null, response) };
}

// The chunks that were read, then those that were not.
function rest(chunks, reader) {
    return new ReadableStream({
        async pull(controller) {
            if (chunks.length > 0) return controller.enqueue(chunks.shift());
            const { done, value } = await reader.read();
            if (done) controller.close();
            else controller.enqueue(value);
        },
        cancel: (reason) => reader.cancel(reason),
    });
}

/** `base`: the header fields of earlier middleware, such as those of CORS. */
function toResponse({ status, headers, body }, base = []) {
    const all = new Headers(base);
    for (const [name, value] of Object.entries(headers)) {
        all.delete(name);
        for (const item of [value].flat()) all.append(name, item);
    }
    return new Response(body.length ? body : null, { status, headers: all });
}

/** Adds the header fields that the core has added to the handler's response. */
function addMissing(response, { headers }) {
    for (const [name, value] of Object.entries(headers)) {
        if (!response.headers.has(name)) response.headers.set(name, value);
    }
}

module.exports = { addMissing, readRequest, readResponse, toResponse };
