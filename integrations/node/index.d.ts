/** An interval of PostgreSQL with its unit, such as '30 s' or '1 day', or its parts. A bare number is refused. */
export type Duration = string | { milliseconds?: number; seconds?: number; minutes?: number; hours?: number; days?: number; weeks?: number };

/** A bigint of PostgreSQL. Returned as a bigint; taken as a bigint or as the text of one. */
export type Bigint = bigint | string;

/** A statement's rows. */
type Rows = Record<string, any>[];

/** What this package needs of a driver or ORM. The hooks such as idem-postgres/knex make one. `Client` is the handle of a transaction. */
export interface Database<Client = any> {
    query(text: string, parameters: unknown[]): Promise<Rows>;
    transaction<T>(work: (connection: { handle: Client; query(text: string, parameters: unknown[]): Promise<Rows> }) => Promise<T>): Promise<T>;
}

/** A `Pool` of pg, as far as it is used here. */
export interface PgPool<Client = any> {
    connect: { (): Promise<Client>; (callback: any): any };
    query: (...args: any[]) => any;
    readonly totalCount: number;
}

/** The `sql` of postgres, as far as it is used here. */
export interface PostgresJs<Client = any> {
    unsafe: (...args: any[]) => any;
    begin<T>(work: (sql: Client) => T | Promise<T>): Promise<any>;
}

/** A `PGlite` of @electric-sql/pglite, as far as it is used here. */
export interface Pglite<Client = any> {
    query: (...args: any[]) => any;
    exec: (...args: any[]) => any;
    transaction<T>(work: (transaction: Client) => Promise<T>): Promise<any>;
}

/** A `Pool` of pg, the `sql` of postgres, a `PGlite`, or a Database. */
export type DatabaseHandle<Client = any> = Database<Client> | PgPool<Client> | PostgresJs<Client> | Pglite<Client>;

/** Where scripts can be run: a driver's own pool or connection. */
export type ScriptHandle = PgPool | PostgresJs | Pglite | { query: (...args: any[]) => any };

/** `needs`: what the schema lacks for this package; null: nothing. `version` null: idem is not installed. */
export interface Installation {
    schema: string;
    edition: 'c' | 'portable' | null;
    version: string | null;
    packaged: string;
    needs: 'install' | 'upgrade' | null;
}

/**
 * Installs the portable edition of idem, which this package carries, or brings an older installation up to its version. Several that start at once queue.
 * Where the schema has the extension, nothing is done. The connection's role owns what is made; it needs CREATE on the database, no superuser.
 *
 * @throws IdemError the installation is newer than this package; the server's error, 42501, if another role owns the schema: none of its code runs
 */
export function install(database: ScriptHandle, options?: { schema?: string }): Promise<Installation>;
/** Drops the portable edition, with all keys. @throws the server's error while guards are attached to tables */
export function uninstall(database: ScriptHandle, options?: { schema?: string }): Promise<void>;
/** Reads the catalog: calls no function of the schema. */
export function status(database: ScriptHandle, options?: { schema?: string }): Promise<Installation>;
/** For the start of an application. @throws IdemError idem is not installed, or is older than this package; the message names the command */
export function verify(database: ScriptHandle, options?: { schema?: string }): Promise<void>;
/**
 * The script that install and uninstall run, one statement, for a migration tool. Another schema than idem is named before, in the same session:
 * SELECT set_config('idem_portable.schema', 'work', false).
 */
export function script(kind?: 'install' | 'uninstall'): Promise<string>;

/** What the handler's own error looks like to the option onError. */
export interface Problem {
    status: number;
    code: string;
    headers: Record<string, string | string[]>;
    body: string;
}

/** Options of every middleware. `Request` is what the framework calls a request: Koa's and Hono's context. `Client` is what `idem.client` is. */
export interface Options<Request = any, Client = any> {
    database: DatabaseHandle<Client>;
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
    /** The key of a request without the header field, such as a member of its body. null: it has none. */
    keyFrom?: (request: Request, body: Buffer) => string | null | Promise<string | null>;
    /** What the request is for, as part of the fingerprint. Default: the path with its query. */
    route?: (request: Request) => string | Promise<string>;
    /** 1 to 255 bytes in place of route and body in the fingerprint: of the parts of a multipart form, whose boundary is another one in each attempt. */
    fingerprint?: (request: Request, body: Buffer) => Uint8Array | undefined | Promise<Uint8Array | undefined>;
    /** true: the middleware does not handle the request. */
    skip?: (request: Request) => boolean;
    /** Leased mode: how long the claim lasts without a renewal. It is renewed after each third of that time while the handler runs. */
    lease?: Duration;
    /** How long to wait for a request with the same key that is being processed. Default: not at all. In leased mode a waiter holds no connection. */
    wait?: Duration;
    /** How long the key and its response are kept. Default: the scope's, else `idem.default_ttl`. */
    ttl?: Duration;
    /** The greatest length of a request's body in bytes. Default: 1 MiB. Beyond it: 413. */
    maxBody?: number;
    /** Responses are buffered up to this length in bytes, streams and files included. Default: 1 MiB. Beyond it: `oversize`. */
    maxResponse?: number;
    /** A response that is too large: 'omit' commits the work and sends it without storing it (default); 'rollback' rolls back and answers 500. */
    oversize?: 'omit' | 'rollback';
    /** Thrown HTTP errors with these statuses are stored as responses. All other thrown errors roll back. */
    storeErrors?: number[];
    /** The schema of idem. Default: idem. */
    schema?: string;
    /** The application's form of an error of the middleware. The status stays. undefined: as it is. */
    onError?: (problem: Problem, request: Request) =>
        OwnError | undefined | Promise<OwnError | undefined>;
    /** Called after each request, for metrics. An error that it throws is logged. */
    onOutcome?: (outcome: Outcome) => void;
    /** Gets a line at level info for each keyed request, and warnings and errors. Default: errors to the console; with Fastify, its own logger. */
    logger?: { info(line: string): void; error(line: string): void; warn?(line: string): void };
}

/** `body`: text, bytes, or a value for JSON. */
export interface OwnError {
    headers?: Record<string, string>;
    body?: unknown;
}

export interface Outcome {
    scope: string;
    /**
     * The key in the header field, without quotes. Null without a key, with a malformed one, and if the request did not get to the database
     * (a body over the limit, no connection).
     */
    key: string | null;
    /** The SHA-256 of the key, 32 hexadecimal digits, for logs of others. */
    keyHash: string | null;
    method: string;
    route: string;
    /** `gone`: the client left before it had sent its body. `passed`: the handler left the request to the next one, so nothing is stored. No route for the path is the common case. */
    outcome: 'run' | 'replay' | 'reject' | 'passed' | 'gone';
    replayed: boolean;
    /** Of the response. Undefined if the framework makes the response: after an error that the handler threw, and with `passed`. */
    status?: number;
    /** From the request's arrival to the end of its transaction, in milliseconds. */
    ms: number;
    /** In leased mode, of a request whose handler was to run. */
    fence?: bigint;
    /** The number of this attempt at the key, from 1; with `fence`. */
    attempt?: number;
}

/** `req.idem` in a handler. The response ends it: a later use of `client` or `functions` raises a TypeError. */
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

/** The exchange of the request that is running; undefined outside of a handler. */
export function current(): Transaction | LeasedWork | undefined;

/** What `req.idem` may have where it is not known whether the middleware is leased. */
export type Exchange = Partial<Transaction> & Partial<Omit<LeasedWork, 'key'>>;

/** The request of a handler behind the middleware: `IdempotentRequest<express.Request>`. In leased mode `Work` is LeasedWork. */
export type IdempotentRequest<Request, Work = Transaction> = Omit<Request, 'idem'> & { idem: Work };

interface KeyOptions {
    ttl?: Duration;
    scope?: string;
}

interface Steps {
    attempt: number;
    steps: Record<string, any> | null;
}

/** What a claim gets, by `outcome`. */
export type Ticket =
    | { outcome: 'acquired'; fence: bigint | null; leaseUntil: Date | null; statusCode: null; response: null; responseOmitted: null; retryAfterMs: null } & Steps
    | { outcome: 'taken_over'; fence: bigint; leaseUntil: Date; statusCode: null; response: null; responseOmitted: null; retryAfterMs: null } & Steps
    | { outcome: 'completed'; fence: null; leaseUntil: null; statusCode: number | null; response: any; responseOmitted: boolean; retryAfterMs: null } & Steps
    | { outcome: 'in_flight'; fence: null; attempt: number | null; leaseUntil: Date | null; statusCode: null; response: null; responseOmitted: null; steps: Record<string, any> | null; retryAfterMs: number | null }
    | { outcome: 'mismatch' | 'in_doubt'; fence: null; attempt: number | null; leaseUntil: Date | null; statusCode: null; response: null; responseOmitted: null; steps: Record<string, any> | null; retryAfterMs: null };

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

/** A lease lock that is held. It is renewed after each third of its lease. */
export interface Lock {
    name: string;
    fence: bigint;
    /** Aborted when the lock has passed to another holder, or may have. */
    signal: AbortSignal;
    /** Ends the renewals. False: it was no longer held. */
    unlock(): Promise<boolean>;
}

type RowOutcome<Outcome extends string> = { outcome: Outcome; row: any };
type RowKey = Record<string, unknown>;

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
    /** @throws AlreadyDone the key was claimed before */
    mustClaim(key: string, options?: KeyOptions): Promise<boolean>;
    /** The keys that are new, each once. @throws InFlight */
    claimMany(keys: string[], options?: KeyOptions): Promise<string[]>;
    tryClaim(key: string, options?: KeyOptions): Promise<Ticket['outcome']>;
    /** With a lease, on a pool, `wait` holds no connection. */
    begin(key: string, options?: KeyOptions & { fingerprint?: Uint8Array; lease?: Duration; owner?: string; wait?: Duration }): Promise<Ticket>;
    /** False: the response was too large to be stored. @throws StaleFence */
    complete(key: string, options?: { response?: unknown; statusCode?: number; fence?: Bigint; scope?: string }): Promise<boolean>;
    /** @throws StaleFence */
    release(key: string, fence: Bigint, options?: { scope?: string }): Promise<boolean>;
    /** The new end of the lease. @throws StaleFence */
    renew(key: string, fence: Bigint, options?: { lease?: Duration; scope?: string }): Promise<Date>;
    /** @throws StaleFence */
    step(key: string, fence: Bigint, step: string, output?: unknown, options?: { scope?: string }): Promise<boolean>;
    /** Runs one statement with `args` as $1, $2 …, once; the ticket's response is its rows. */
    execute(key: string, statement: string, args?: unknown[], options?: KeyOptions & { fingerprint?: Uint8Array }): Promise<Ticket>;
    lookup(key: string, options?: { scope?: string }): Promise<KeyInfo | null>;
    /** null: another owner holds it. Call it on a pool. `lease` is 30 s by default. `wait` holds no connection. */
    lock(name: string, options?: { lease?: Duration; owner?: string; wait?: Duration; scope?: string; signal?: AbortSignal }): Promise<Lock | null>;
    unlock(name: string, fence: Bigint, options?: { scope?: string }): Promise<boolean>;
    /** @throws StaleFence */
    assertFence(name: string, fence: Bigint, options?: { scope?: string }): Promise<boolean>;
    issueToken(options?: KeyOptions & { subject?: string }): Promise<string>;
    redeemToken(token: string, options?: { subject?: string; scope?: string }): Promise<'accepted' | 'duplicate' | 'in_flight' | 'expired' | 'invalid'>;
    /** The message's id; null if an earlier publication's id was removed. */
    publish(topic: string, payload: unknown, options?: { key?: string; headers?: unknown; delay?: Duration; dedupId?: string }): Promise<bigint | null>;
    take(topic: string, options?: { maxMessages?: number; lease?: Duration }): Promise<Message[]>;
    /** How many messages were still held with the fence. */
    ack(ids: Bigint[], fence: Bigint): Promise<number>;
    nack(ids: Bigint[], fence: Bigint, options?: { retryAfter?: Duration }): Promise<number>;
    consume(consumer: string, messageId: string, options?: KeyOptions): Promise<boolean>;
    /** `fromState` null: from any state. */
    transition(target: string, key: Record<string, unknown>, fromState: string | null, toState: string):
        Promise<{ outcome: 'moved' | 'already' | 'conflict' | 'not_allowed' | 'not_found'; state: string | null }>;
    nextId(): Promise<bigint>;
    /** The messages' ids, in their order. */
    publishMany(topic: string, messages: { payload: unknown; key?: string; headers?: unknown; delay?: Duration; dedupId?: string }[]): Promise<bigint[]>;
    /** How many messages were still held with the fence. */
    outboxRenew(ids: Bigint[], fence: Bigint, options?: { lease?: Duration }): Promise<number>;
    /** Takes `cost` units from a token bucket of `burst` units that regains `rate` units a second. */
    allow(name: string, rate: number, burst: number, options?: { cost?: number; scope?: string }): Promise<{ allowed: boolean; remaining: number; retryAfterMs: number | null }>;
    /** The number of hits within the window, this one included. */
    hit(key: string, options?: KeyOptions): Promise<number>;
    hits(key: string, options?: { scope?: string }): Promise<{ hits: number; expiresAt: Date } | null>;
    /** Until the transaction ends, other calls with this key wait. */
    serialize(key: string, options?: { scope?: string }): Promise<boolean>;
    /** `body`: the bytes as received. accepted: do the work in this transaction. */
    webhookReceive(source: string, headers: Record<string, string | string[]>, body: Uint8Array):
        Promise<{ outcome: 'accepted' | 'duplicate' | 'stale' | 'invalid'; messageId: string | null }>;
    verifyRequest(params: Record<string, unknown>, options: { signature: string; keyId: string; signedAt: Date | string; nonce: string; tolerance?: Duration; scope?: string }):
        Promise<'accepted' | 'replayed' | 'stale' | 'invalid'>;
    httpBegin(request: HttpRequest, options?: { lease?: Duration; wait?: Duration; ttl?: Duration }): Promise<HttpAnswer>;
    /** 'omitted': the response is not stored, commit. 'released': roll back. `omit`: a response that was not read to its end. */
    httpComplete(request: { scope: string; key?: string | null }, response: { status: number; headers?: Record<string, unknown>; body?: Uint8Array },
        options?: { fence?: Bigint; omit?: boolean }): Promise<'stored' | 'omitted' | 'released' | 'unkeyed'>;
    /** Changes the row if it still has the version that was read. */
    optimisticUpdate(target: string, key: RowKey, expectedVersion: Bigint, changes: Record<string, unknown>):
        Promise<RowOutcome<'updated' | 'conflict' | 'not_found'> & { version: bigint | null }>;
    conditionalUpdate(target: string, key: RowKey, expected: Record<string, unknown>, changes: Record<string, unknown>): Promise<RowOutcome<'updated' | 'conflict' | 'not_found'>>;
    /** `value`: the text of a numeric. */
    conditionalAdjust(target: string, key: RowKey, columnName: string, delta: number | Bigint, options?: { minimum?: number | Bigint; maximum?: number | Bigint }):
        Promise<{ outcome: 'adjusted' | 'out_of_range' | 'not_found'; value: string | null }>;
    pessimisticLock(target: string, key: RowKey, options?: { wait?: Duration }): Promise<RowOutcome<'locked' | 'busy' | 'not_found'>>;
    pessimisticLockMany(target: string, keys: RowKey[], options?: { wait?: Duration }): Promise<RowOutcome<'locked' | 'busy' | 'not_found'>[]>;
    uniqueInsert(target: string, newRow: Record<string, unknown>, options?: { conflictColumns?: string[] }): Promise<RowOutcome<'inserted' | 'duplicate'>>;
    guardedInsert(target: string, newRow: Record<string, unknown>, matchColumns: string[]): Promise<RowOutcome<'inserted' | 'duplicate'>>;
}

export interface HttpRequest {
    scope: string;
    method: string;
    route: string;
    /** The header field as received; null without one. */
    key?: string | null;
    body?: Uint8Array;
    contentType?: string;
    fingerprint?: Uint8Array;
}

export type HttpAnswer =
    | { action: 'run'; status: null; headers: Record<string, any>; body: null; fence: bigint | null; code: 'unkeyed' | null; retryable: null }
    | { action: 'replay'; status: number; headers: Record<string, any>; body: Buffer | null; fence: null; code: null; retryable: null }
    | { action: 'reject'; status: number; headers: Record<string, any>; body: Buffer | null; fence: null; code: 'key_missing' | 'key_malformed' | 'mismatch' | 'in_flight' | 'in_doubt'; retryable: boolean };

interface CallOptions {
    /** The space in which the key is unique. Default: ''. */
    scope?: string;
    /** 1 to 255 bytes that tell one request from another. */
    fingerprint?: Uint8Array;
    ttl?: Duration;
    /** How long to wait for another call with the key. Default: 10 s. */
    wait?: Duration;
    signal?: AbortSignal;
    schema?: string;
}

/** `omitted`: the value is over the scope's limit and is not stored; a replay then has null as its value. */
export type Result<Value> =
    | { value: Value; replayed: boolean; omitted: false; stored: true }
    | { value: Value; replayed: false; omitted: true; stored: false }
    | { value: null; replayed: true; omitted: true; stored: false };

/**
 * Runs the work once for a key: the claim, its rows and its value commit together. A serialization failure, or a connection that is lost, runs it again in a new
 * transaction, `attempts` times at most (default: 4). An error that it throws rolls back. A value of undefined is replayed as null.
 *
 * @throws InFlight, Mismatch, InDoubt, CommitUnknown; what the work throws
 */
export function once<Value, Client = any>(database: DatabaseHandle<Client>, key: string, options: CallOptions & { attempts?: number },
    work: (call: { client: Client; idem: Idem; key: string; scope: string }) => Promise<Value>): Promise<Result<Value>>;

/** For a gateway: the key of one step, which is the same in each attempt. */
export interface Gate {
    key: string;
    fence: bigint;
    signal: AbortSignal;
}

export type Fate<Output = unknown> = { fate: 'done'; output: Output } | { fate: 'notDone' } | { fate: 'unknown' };

/** What `reconcile` finds out about a step that an earlier attempt intended. */
export const fate: {
    done<Output>(output: Output): Fate<Output>;
    notDone(): Fate<never>;
    unknown(): Fate<never>;
};

export interface Work<Client = any> {
    key: string;
    scope: string;
    /** Greater than the fence of each earlier attempt. */
    fence: bigint;
    attempt: number;
    /** The steps of all attempts: the output of each that is done, null for each that is intended only. */
    steps: Record<string, any>;
    /** Aborted when the lease is lost, and with the caller's signal. */
    signal: AbortSignal;
    /**
     * Acts once and records the output. A later attempt gets the output and does not act. If an attempt ended between the intention and the output, `reconcile`
     * tells what became of it; without one, the step acts again with the same `key`.
     *
     * @throws OutputNotStored the act has run, and the key is kept; InDoubt for fate.unknown(); LeaseLost
     */
    step<Output>(name: string, act: (gate: Gate) => Promise<Output>, reconcile?: (gate: Gate) => Fate<Output> | Promise<Fate<Output>>): Promise<Output>;
    /** Rows and output in one COMMIT. */
    write<Output>(name: string, work: (call: { client: Client; idem: Idem }) => Promise<Output>): Promise<Output>;
}

/**
 * Runs work outside of a transaction, under a lease (default: 30 s) that is renewed while it runs. `onError`: an error that the work throws releases the key
 * (default), or keeps it until the lease has run out.
 *
 * @throws InFlight, Mismatch, InDoubt, LeaseLost, CommitUnknown, OutputNotStored; what the work throws
 */
export function leased<Value, Client = any>(database: DatabaseHandle<Client>, key: string, options: CallOptions & { lease?: Duration; onError?: 'release' | 'keep' },
    work: (work: Work<Client>) => Promise<Value>): Promise<Result<Value> & { attempt: number }>;

/** An error of idem. `cause` is the driver's error. */
export class IdemError extends Error {
    /** undefined where the server did not raise the error. */
    sqlstate: string | undefined;
    constructor(message: string, sqlstate?: string, cause?: unknown);
}
/** ID001: the key or lock is no longer held with this fence. */
export class StaleFence extends IdemError {}
/** ID003: a transition that the state machine does not have. */
export class InvalidTransition extends IdemError {}
/** ID004: the row has another version than the one that was read. */
export class StaleVersion extends IdemError {}
/** ID005: the key is in flight or in doubt. */
export class InFlight extends IdemError {
    /** When a retry is worthwhile, if that is known. */
    retryAfterMs: number | null;
}
/** ID006: the key was claimed before. */
export class AlreadyDone extends IdemError {}

/** The key was used with another fingerprint. */
export class Mismatch extends IdemError {}
/** An earlier attempt may have done the work, and an operator decides. */
export class InDoubt extends IdemError {
    /** The step that is in doubt, if one is. */
    step: string | null;
    constructor(message: string, step?: string | null);
}
/** The lease has passed to another attempt, or ran out. */
export class LeaseLost extends IdemError {}
/** The connection was lost in COMMIT, and it is not known whether it succeeded. */
export class CommitUnknown extends IdemError {}
/** The work has run, and its output cannot be stored. The key is kept. `cause` has the reason. */
export class OutputNotStored extends IdemError {}

/** The SQLSTATE in the error of a driver or ORM. */
export function sqlstate(error: unknown): string | undefined;
