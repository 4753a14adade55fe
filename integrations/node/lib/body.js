'use strict';

/** The body is over the option `maxBody`. */
class BodyTooLarge extends Error {}

/** The client went away before it had sent the body: nobody waits for an answer. */
class ClientGone extends Error {}

// What has been read of a request: the next middleware on the same request may find that a parser has taken it.
const read = new WeakMap();

/**
 * Reads the body of an http.IncomingMessage or http2.Http2ServerRequest, and gives it back to it, so that a parser reads it again.
 *
 * @param limit in bytes
 * @throws BodyTooLarge; Error if a parser has read the body and kept no bytes in `rawBody`
 */
async function readBody(request, limit) {
    const { headers } = request;
    if (!hasBody(request)) return Buffer.alloc(0);
    if (Number(headers['content-length']) > limit || request.rawBody?.length > limit) throw new BodyTooLarge();
    if (Buffer.isBuffer(request.rawBody)) return request.rawBody;
    if (read.has(request)) return read.get(request);
    if (request.readableEnded || request.readableFlowing) {
        throw new Error('the body was parsed before the middleware read its bytes: put the middleware before the parser, or let the parser keep the bytes in '
            + 'request.rawBody, in Express with express.json({ verify: keepRawBody }), in NestJS with NestFactory.create(module, { rawBody: true })');
    }
    // A listener would end the stream, and parsers reject one that has ended.
    if (isComplete(request) && request.readableLength === 0) return Buffer.alloc(0);
    const body = await readAll(request, limit);
    // In the same turn of the event loop as the last read: the stream has not ended yet.
    if (body.length > 0) request.unshift(body);
    read.set(request, body);
    return body;
}

/** Calls `onLost` with an error when Node drops bytes that no parser has read: it does so when the client disconnects. */
function watchBody(request, onLost) {
    const check = () => {
        if (request.destroyed && !request.readableEnded) onLost(new Error('the client went away before the handler had read the body'));
    };
    request.once('close', check);
    check();
}

// A body of HTTP/2 needs no header field.
function hasBody({ headers, httpVersionMajor, stream }) {
    if (httpVersionMajor >= 2) return !stream.endAfterHeaders;
    return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
}

// `complete` of an HTTP/2 request is true after an abort, and before that only when its bytes have been read to the end.
const isComplete = (request) => (request.httpVersionMajor >= 2 ? request.stream.readableEnded && !request.aborted : request.complete);

// An empty read() would end the stream. Hence the look at readableLength.
function readAll(request, limit) {
    const chunks = [];
    let length = 0;
    return new Promise((resolve, reject) => {
        const settle = (outcome, value) => {
            request.off('readable', take).off('close', onClose).off('error', onError);
            outcome(value);
        };
        const finish = () => settle(resolve, Buffer.concat(chunks));
        // An empty body ends without a `readable`.
        const onClose = () => (isComplete(request) ? finish() : settle(reject, new ClientGone('the client went away before it had sent the body')));
        const take = () => {
            while (request.readableLength > 0) {
                const chunk = request.read();
                chunks.push(chunk);
                length += chunk.length;
                if (length > limit) return settle(reject, new BodyTooLarge());
            }
            if (isComplete(request)) finish();
        };
        // An aborted request emits an error first.
        const onError = (error) => settle(reject, request.aborted || request.destroyed ? new ClientGone(error.message) : error);
        request.on('readable', take).on('close', onClose).on('error', onError);
    });
}

module.exports = { BodyTooLarge, ClientGone, readBody, watchBody };
