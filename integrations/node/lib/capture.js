'use strict';

const { StreamedResponse } = require('./errors.js');

const methods = ['writeHead', 'write', 'end', 'flushHeaders', 'destroy', 'emit'];

/**
 * Keeps what a handler sends on an http.ServerResponse, so that it is sent after COMMIT.
 *
 * `result` resolves once: to { response: { status, headers, body }, error } when the handler has ended the response (`error`: what fail() was told
 * before), to { response: { status, headers, isLarge: true } } when it is over `limit` bytes, to { error: StreamedResponse } when it sends events, to
 * { passed: true } after pass(). The rest of a large response waits until it is sent.
 *
 * @param base the header fields to keep when another response takes the place of the handler's; default those that are set already
 */
class Capture {
    #res;
    #base;
    #limit;
    #emit;
    #saved = new Map();
    #chunks = [];
    #length = 0;
    #error;
    #resolve;
    #over = false;
    #ended = false;
    #destroyed = false;
    #headWritten = false;
    #beforeHead;
    #closed = false;

    constructor(res, limit, base = { ...res.getHeaders() }) {
        this.#res = res;
        this.#limit = limit;
        this.#base = base;
        this.#emit = res.emit;
        this.result = new Promise((resolve) => { this.#resolve = resolve; });
        for (const name of methods) {
            this.#saved.set(name, Object.getOwnPropertyDescriptor(res, name));
            res[name] = this[name].bind(this);
        }
        Object.defineProperty(res, 'headersSent', { configurable: true, get: () => this.#headWritten || this.#over });
    }

    /** True once the handler has written or ended. */
    get isTouched() {
        return this.#headWritten || this.#over;
    }

    /** The handler has failed: what it wrote is dropped, and the response that follows is the framework's. False: the response came first. */
    fail(error) {
        if (this.#over) {
            // What was sent of a large response is cut, so that the client sees that it is not whole.
            if (!this.#ended) this.#destroyed = true;
            return false;
        }
        this.#error = error;
        this.#takeBack();
        return true;
    }

    /** The handler leaves the request to others. */
    pass() {
        this.#settle({ passed: true });
    }

    /** Sends a response: the handler's own if it is the one of `result`. */
    send(response) {
        const isOwn = response === this.own;
        this.restore();
        const res = this.#res;
        if (!res.headersSent && !res.destroyed) {
            for (const name of res.getHeaderNames()) res.removeHeader(name);
            for (const [name, value] of Object.entries(isOwn ? response.headers : { ...this.#base, ...response.headers })) res.setHeader(name, value);
            res.statusCode = response.status;
            if (!isOwn) res.statusMessage = undefined;
            if (isOwn && response.isLarge) this.#sendLarge();
            else res.end(response.body);
        }
        if (isOwn) return;
        // A handler whose response was refused may go on writing, and a framework may answer late.
        Object.assign(res, { writeHead: () => res, setHeader: () => res, removeHeader() {}, write: () => true, end: () => res, flushHeaders() {} });
        res.emit('drain');
    }

    // The handler goes on where it waits for `drain`.
    #sendLarge() {
        const res = this.#res;
        let isWritable = true;
        for (const chunk of this.#chunks) isWritable = res.write(chunk);
        this.#chunks = [];
        if (this.#destroyed) res.destroy();
        else if (this.#ended) res.end();
        else if (isWritable) res.emit('drain');
    }

    /** Gives the response back to the framework. */
    restore() {
        this.#over = true;
        const res = this.#res;
        for (const [name, descriptor] of this.#saved) {
            if (descriptor) Object.defineProperty(res, name, descriptor);
            else delete res[name];
        }
        this.#saved.clear();
        delete res.headersSent;
        if (this.#closed) res.emit('close');
        this.#closed = false;
    }

    writeHead(status, reason, headers) {
        const res = this.#res;
        this.#beforeHead ??= { status: res.statusCode, message: res.statusMessage, headers: { ...res.getHeaders() } };
        res.statusCode = status;
        if (typeof reason === 'string') res.statusMessage = reason;
        else headers = reason;
        for (const [name, value] of pairs(headers)) res.setHeader(name, value);
        this.#headWritten = true;
        this.#refuseEvents();
        return res;
    }

    write(chunk, encoding, callback) {
        if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
        this.#headWritten = true;
        this.#refuseEvents();
        this.#add(chunk, encoding);
        if (callback) process.nextTick(callback);
        return !this.#over;
    }

    end(chunk, encoding, callback) {
        if (typeof chunk === 'function') [chunk, callback] = [undefined, chunk];
        else if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
        const res = this.#res;
        if (callback) res.once('finish', callback);
        this.#refuseEvents();
        if (chunk !== undefined && chunk !== null) this.#add(chunk, encoding);
        this.#ended = true;
        if (!this.#over) this.#settleOwn({ body: Buffer.concat(this.#chunks) });
        return res;
    }

    flushHeaders() {
        this.#headWritten = true;
        this.#refuseEvents();
    }

    destroy() {
        this.#destroyed = true;
        this.#settle({ error: new StreamedResponse('the response was destroyed') });
        return this.#res;
    }

    // The handler is not told that the client went away: its work goes on and is committed.
    emit(event, ...args) {
        if (event === 'close') {
            this.#closed = true;
            return true;
        }
        return this.#emit.call(this.#res, event, ...args);
    }

    #add(chunk, encoding) {
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk);
        this.#chunks.push(bytes);
        this.#length += bytes.length;
        if (!this.#over && this.#length > this.#limit) this.#settleOwn({ isLarge: true });
    }

    #settleOwn(rest) {
        this.own = { status: this.#res.statusCode, headers: { ...this.#res.getHeaders() }, ...rest };
        this.#settle({ response: this.own, error: this.#error });
    }

    // Nothing has left Node yet. Frameworks cut the connection when an error comes after a part of the response.
    #takeBack() {
        this.#chunks = [];
        this.#length = 0;
        this.#headWritten = false;
        if (!this.#beforeHead) return;
        const res = this.#res;
        const { status, message, headers } = this.#beforeHead;
        this.#beforeHead = undefined;
        for (const name of res.getHeaderNames()) res.removeHeader(name);
        for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
        res.statusCode = status;
        res.statusMessage = message;
    }

    #refuseEvents() {
        if (String(this.#res.getHeader('content-type')).startsWith('text/event-stream')) {
            this.#settle({ error: new StreamedResponse('server-sent events') });
        }
    }

    #settle(result) {
        if (this.#over) return;
        this.#over = true;
        this.#resolve(result);
    }
}

// writeHead takes an object, an array of pairs, or a flat array.
function* pairs(headers = {}) {
    if (!Array.isArray(headers)) yield* Object.entries(headers);
    else if (Array.isArray(headers[0])) yield* headers;
    else for (let index = 0; index < headers.length; index += 2) yield [headers[index], headers[index + 1]];
}

module.exports = { Capture };
