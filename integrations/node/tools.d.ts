import type { DatabaseHandle, Duration, Idem, Work } from './index';

/** What a schema gives to the handler: of a Standard Schema its output, of a shape of zod the outputs of its members. */
export type ArgumentsOf<Schema> =
    Schema extends { '~standard': { types?: infer Types } } ? NonNullable<Types> extends { output: infer Output } ? Output : any
    : Schema extends undefined ? {}
    : Schema extends Record<string, { '~standard': any }> ? { [Name in keyof Schema]: ArgumentsOf<Schema[Name]> }
    : any;

/**
 * What makes two calls the same. 'argument': the model gives a required argument idempotency_key. 'call': the id of the call, which the host sends. A function:
 * the business object, such as the number of an invoice.
 */
export type ToolKey<Schema, Context> = 'argument' | 'call' | ((args: ArgumentsOf<Schema>, context: Context) => string | number | bigint | null | undefined | Promise<string | null | undefined>);

export interface ToolSettings<Schema = any, Context = any> {
    key?: ToolKey<Schema, Context>;
    /** The arguments that make it the same call. The others may be worded differently in a repetition. Default: all. */
    identity?: readonly (keyof ArgumentsOf<Schema> & string)[];
    /** The handler runs outside of a transaction, under a lease of this length that is renewed while it runs, and gets leased work. */
    lease?: Duration;
    /** How long the key and the result are kept. Default: that of the options, else the scope's. */
    ttl?: Duration;
    /** How long to wait for the same call that is running. A waiter holds no connection. Default: 10 s. */
    wait?: Duration;
    /** A call that the host cancels is rolled back, or begins no further step (default), or runs to its end. */
    onCancel?: 'rollback' | 'finish';
}

export interface ToolOptions<Context = any, Client = any> {
    database: DatabaseHandle<Client>;
    /** Whose calls they are: the authenticated user; for ids of calls, the user and the thread. Never from arguments. A result that is no text or empty is an error. */
    scope: string | ((context: Context) => string | Promise<string>);
    /** Further names in `_meta` that have the host's id of the call, for key: 'call'. */
    callKeys?: string[];
    ttl?: Duration;
    wait?: Duration;
    /** The schema of idem. Default: idem. */
    schema?: string;
    /** Called after each call, for metrics. */
    onOutcome?: (outcome: ToolOutcome) => void;
}

export interface ToolOutcome {
    tool: string;
    scope: string | null;
    key: string | null;
    /** The SHA-256 of the key, 32 hexadecimal digits, for logs of others. */
    keyHash: string | null;
    /** `undone`: the handler's result says that nothing is to be kept. `error`: an error was thrown. */
    outcome: 'run' | 'replay' | 'omitted' | 'undone' | 'error' | Refusal;
    replayed: boolean;
    /** Of a tool with a lease. */
    attempt: number | null;
    ms: number;
}

/** Why a call was not done: the code in `_meta["idem/outcome"]` of MCP. */
export type Refusal = 'key_missing' | 'in_flight' | 'mismatch' | 'in_doubt' | 'not_stored' | 'commit_unknown' | 'lease_lost' | 'unavailable';

/** What a handler gets without `lease`: the transaction that claims the key. */
export interface ToolTransaction<Client = any> {
    client: Client;
    /** idem's functions in this transaction. */
    idem: Idem;
    /** The name of the tool, a slash, and the key of the call. */
    key: string;
    scope: string;
}
