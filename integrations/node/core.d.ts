import type { IncomingMessage, ServerResponse } from 'node:http';
import type { LeasedWork, Options, Transaction } from './index';

export { current } from './index';

export interface CoreRequest<Raw = any> {
    /** The framework's request, for the functions of the options. */
    raw: Raw;
    /** The object that all middlewares of the request see. */
    incoming: object;
    method: string;
    /** The path with its query. */
    url: string;
    /** The value of the header field; null without one. */
    field: string | null;
    contentType?: string;
    /** At most `limit` bytes. */
    readBody(limit: number): Promise<Buffer>;
    /** The request of Node from which the handler reads the body again, if it does. */
    drops?: IncomingMessage;
}

export interface CoreResponse {
    status: number;
    headers: Record<string, any>;
    /** Not set for a large response, which the caller sends itself. */
    body?: Buffer;
    /** Over `maxResponse`: it is completed without its body. */
    isLarge?: boolean;
}

export interface CoreResult {
    response?: CoreResponse;
    /** What the handler has thrown. `response` is then what the framework has made of it. */
    error?: unknown;
    /** The handler has left the request to the next one. */
    passed?: boolean;
}

/** `response`: send it. `passed`: go on. `gone`: nobody waits. */
export interface CoreAnswer {
    response?: CoreResponse;
    passed?: true;
    gone?: true;
}

/** The middleware without a framework. */
export class Core<Raw = any, Client = any> {
    constructor(options: Options<Raw, Client>);
    /** The name of the header field, in lower case. */
    readonly header: string;
    readonly maxResponse: number;
    /** Whether the middleware handles this request. */
    applies(request: CoreRequest<Raw>): boolean;
    /** `run` is called once at most. @throws the handler's error, after the rollback */
    handle(request: CoreRequest<Raw>, run: (context: Transaction<Client> | LeasedWork<Client>) => Promise<CoreResult>): Promise<CoreAnswer>;
    /** The same in two calls: before the handler, and, with its result, after it. */
    open(request: CoreRequest<Raw>): Promise<CoreAnswer | { context: Transaction<Client> | LeasedWork<Client>; close(result: CoreResult): Promise<CoreAnswer> }>;
}

/** Keeps what a handler sends on a response of Node. */
export class Capture {
    constructor(res: ServerResponse, limit: number, base?: Record<string, any>);
    readonly result: Promise<CoreResult>;
    readonly isTouched: boolean;
    fail(error: unknown): boolean;
    pass(): void;
    send(response: CoreResponse): void;
    restore(): void;
}

/** Reads the body of a request of Node, and gives it back to it. */
export function readBody(request: IncomingMessage, limit: number): Promise<Buffer>;
