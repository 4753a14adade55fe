/** A number of milliseconds, or an interval of PostgreSQL with its unit, such as '30 s'. */
export type Interval = number | string;

/** A bigint of PostgreSQL. Returned as a bigint; taken as a bigint or as the text of one. */
export type Bigint = bigint | string;

/** A statement's rows. */
type Rows = Record<string, any>[];

/** What this package needs of a driver or ORM. The hooks such as idem-postgres/knex make one. */
export interface Database {
    query(text: string, parameters: unknown[]): Promise<Rows>;
    transaction<T>(work: (connection: { handle: any; query(text: string, parameters: unknown[]): Promise<Rows> }) => Promise<T>): Promise<T>;
}

/** A `Pool` of pg, the `sql` of postgres, or a Database. */
export type DatabaseHandle = Database | { connect(): Promise<any>; query: Function } | { unsafe: Function; begin: Function };

/** Options of every middleware. `Request` is what the framework calls a request: Koa's and Hono's context. */
export interface Options<Request = any> {
    database: DatabaseHandle;
    /**
     * The space in which the key is unique: the authenticated client and the API. A result that is no text or empty is answered by 500.
     * An error that it throws goes to the framework's error handling.
     */
    scope: (request: Request) => string | Promise<string>;
    /** The name of the header field. Default: Idempotency-Key. */
    header?: string;
    /**
     * Methods for which the middleware acts even when the request has no key. A request with a key is always handled.
     * Default: all but GET, HEAD, OPTIONS and TRACE.
     */
    methods?: string[];
    /** false: without a key the handler runs in a plain transaction. Not given: the scope's policy decides; its default is 400 for POST and PATCH. */
    keyRequired?: false;
    /** What the request is for, as part of the fingerprint. Default: the path with its query. */
    route?: (request: Request) => string | Promise<string>;
    /** Leased mode: how long the claim lasts without a renewal, in milliseconds. It is renewed after each third of that time while the handler runs. */
    lease?: number;
    /** How long to wait for a request with the same key that is being processed. Default: not at all. */
    wait?: Interval;
    /** How long the key and its response are kept. Default: the scope's, else `idem.default_ttl`. */
    ttl?: Interval;
    /** The greatest length of a request's body in bytes. Default: 1 MiB. Beyond it: 413. */
    maxBody?: number;
    /** The schema of idem. Default: idem. */
    schema?: string;
    /** The statuses that are not stored: the transaction is rolled back, and the response is sent. Default: 500 and above. */
    rollbackOn?: (status: number) => boolean;
    /** Called after each request, for metrics. An error that it throws is logged. */
    onOutcome?: (outcome: Outcome) => void;
    /** Gets a line at level info for each keyed request, and errors. Default: errors to the console; with Fastify, its own logger. */
    logger?: { info(line: string): void; error(line: string): void };
}

export interface Outcome {
    scope: string;
    /**
     * The key in the header field, without quotes. Null without a key, with a malformed one, and if the request did not get to the database
     * (a body over the limit, no connection).
     */
    key: string | null;
    method: string;
    route: string;
    /** `passed`: the handler left the request to the next one, so nothing is stored. No route for the path is the common case. */
    outcome: 'run' | 'replay' | 'reject' | 'passed';
    /** Of the response. Undefined if the framework makes the response: after an error that the handler threw, and with `passed`. */
    status?: number;
    /** From the request's arrival to the end of its transaction, in milliseconds. */
    ms: number;
    fence?: bigint;
}

/** `req.idem` in a handler. The response ends it. */
export interface Transaction<Client = any> {
    scope: string;
    /** The key in the header field, without quotes; null without a key. */
    key: string | null;
    /** The transaction in which the key is claimed: a client of pg, the `sql` of postgres, or the transaction of the ORM. Do not end it. */
    client: Client;
    /** idem's functions in this transaction. */
    functions: Idem;
}

/** `req.idem` in a handler in leased mode. Without a key it has only `scope` and `key`. */
export interface LeasedWork<Client = any> {
    scope: string;
    /** The key in the header field, without quotes. It is unique within the scope only. */
    key: string;
    /** Greater than the fence of each earlier attempt. A system that stores the greatest fence it has seen can reject a late attempt. */
    fence: bigint;
    /** Aborted when the lease has passed to another request, or may have. */
    signal: AbortSignal;
    /**
     * Records a step. Call it without `output` before the step: the step is intended, and may have happened if the attempt ends here. Call it with
     * `output` after the step: the step is done.
     */
    step(name: string, output?: unknown): Promise<boolean>;
    /** The steps of all attempts: the output of each that is done, null for each that is intended only. */
    steps(): Promise<Record<string, unknown>>;
    /** Work to be done in the transaction that stores the response. */
    withResponse(work: (client: Client) => Promise<unknown>): void;
    /** Gives the key back: the work has failed and left nothing behind. The response is sent and not stored. */
    release(): Promise<void>;
}

/** The request of a handler behind the middleware: `IdempotentRequest<express.Request>`. In leased mode `Work` is LeasedWork. */
export type IdempotentRequest<Request, Work = Transaction> = Request & { idem: Work };

interface KeyOptions {
    ttl?: Interval;
    scope?: string;
}

export interface Ticket {
    outcome: 'acquired' | 'taken_over' | 'in_flight' | 'completed' | 'mismatch' | 'in_doubt';
    fence: bigint | null;
    attempt: number | null;
    leaseUntil: Date | null;
    statusCode: number | null;
    response: unknown;
    responseOmitted: boolean | null;
    steps: Record<string, unknown> | null;
    retryAfterMs: number | null;
}

export interface KeyInfo {
    state: 'in_progress' | 'completed' | 'released' | 'in_doubt';
    statusCode: number | null;
    response: unknown;
    responseOmitted: boolean | null;
    attempt: number;
    steps: Record<string, unknown> | null;
    createdAt: Date;
    expiresAt: Date | null;
    leaseUntil: Date | null;
}

export interface Message {
    id: bigint;
    topic: string;
    key: string | null;
    payload: any;
    headers: any;
    attempt: number;
    fence: bigint;
}

/** A lease lock that is held. Its heartbeat renews it every third of its ttl. */
export interface Lock {
    name: string;
    fence: bigint;
    /** Aborted when the lock has passed to another holder, or may have. */
    signal: AbortSignal;
    /** False: no longer held. */
    renew(): Promise<boolean>;
    /** Ends the heartbeat. False: it was no longer held. */
    unlock(): Promise<boolean>;
}

/**
 * idem's functions on a pool, a connection or a transaction. On a pool each call is a transaction of its own, so what is to hold until the work is
 * committed (claim, begin without a lease, redeemToken, publish, consume, assertFence) needs the transaction of the work.
 *
 * @throws TypeError for an argument of a wrong type and for an unknown option
 * @throws IdemError and its subclasses for idem's SQLSTATEs, and the driver's errors for all others
 */
export class Idem {
    constructor(connection: DatabaseHandle | object, options?: { schema?: string });
    /** True: new. Waits for an uncommitted holder. @throws InFlight the key is leased or in doubt */
    claim(key: string, options?: KeyOptions): Promise<boolean>;
    /** The keys that are new, each once. @throws InFlight */
    claimMany(keys: string[], options?: KeyOptions): Promise<string[]>;
    tryClaim(key: string, options?: KeyOptions): Promise<Ticket['outcome']>;
    begin(key: string, options?: KeyOptions & { fingerprint?: Uint8Array; lease?: Interval; owner?: string; wait?: Interval }): Promise<Ticket>;
    /** False: the response was too large to be stored. @throws StaleFence */
    complete(key: string, options?: { response?: unknown; statusCode?: number; fence?: Bigint; scope?: string }): Promise<boolean>;
    /** @throws StaleFence */
    release(key: string, fence: Bigint, options?: { scope?: string }): Promise<boolean>;
    /** The new end of the lease. @throws StaleFence */
    renew(key: string, fence: Bigint, options?: { lease?: Interval; scope?: string }): Promise<Date>;
    /** @throws StaleFence */
    step(key: string, fence: Bigint, step: string, output?: unknown, options?: { scope?: string }): Promise<boolean>;
    /** Runs one statement with `args` as $1, $2 …, once; the ticket's response is its rows. */
    execute(key: string, statement: string, args?: unknown[], options?: KeyOptions & { fingerprint?: Uint8Array }): Promise<Ticket>;
    lookup(key: string, options?: { scope?: string }): Promise<KeyInfo | null>;
    /** null: another owner holds it. Call it on a pool. `ttl` in milliseconds, by default 30000. */
    lock(name: string, options?: { ttl?: number; owner?: string; wait?: Interval; scope?: string }): Promise<Lock | null>;
    unlock(name: string, fence: Bigint, options?: { scope?: string }): Promise<boolean>;
    /** @throws StaleFence */
    assertFence(name: string, fence: Bigint, options?: { scope?: string }): Promise<boolean>;
    issueToken(options?: KeyOptions & { subject?: string }): Promise<string>;
    redeemToken(token: string, options?: { subject?: string; scope?: string }): Promise<'accepted' | 'duplicate' | 'in_flight' | 'expired' | 'invalid'>;
    /** The message's id; null if an earlier publication's id was removed. */
    publish(topic: string, payload: unknown, options?: { key?: string; headers?: unknown; delay?: Interval; dedupId?: string }): Promise<bigint | null>;
    take(topic: string, options?: { maxMessages?: number; lease?: Interval }): Promise<Message[]>;
    /** How many messages were still held with the fence. */
    ack(ids: Bigint[], fence: Bigint): Promise<number>;
    nack(ids: Bigint[], fence: Bigint, options?: { retryAfter?: Interval }): Promise<number>;
    consume(consumer: string, messageId: string, options?: KeyOptions): Promise<boolean>;
    /** `fromState` null: from any state. */
    transition(target: string, key: Record<string, unknown>, fromState: string | null, toState: string):
        Promise<{ outcome: 'moved' | 'already' | 'conflict' | 'not_allowed' | 'not_found'; state: string | null }>;
    nextId(): Promise<bigint>;
}

/** An error of idem. `cause` is the driver's error. */
export class IdemError extends Error {
    sqlstate: string;
}
/** ID001: the key or lock is no longer held with this fence. */
export class StaleFence extends IdemError {}
/** ID003: a transition that the state machine does not have. */
export class InvalidTransition extends IdemError {}
/** ID004: the row has another version than the one that was read. */
export class StaleVersion extends IdemError {}
/** ID005: the key is in flight or in doubt. */
export class InFlight extends IdemError {}
/** ID006: the key was claimed before. */
export class AlreadyDone extends IdemError {}

/** The SQLSTATE in the error of a driver or ORM. */
export function sqlstate(error: unknown): string | undefined;
