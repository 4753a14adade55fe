import type { Duration, Work } from './index';
import type { ArgumentsOf, ToolKey, ToolOptions, ToolSettings, ToolTransaction } from './tools';

/** The options of the SDK's registerTool. The schemas are zod's, or others that the SDK takes. */
export interface McpTool<Schema> {
    title?: string;
    description?: string;
    inputSchema?: Schema;
    outputSchema?: any;
    annotations?: Record<string, unknown>;
    icons?: any[];
    scopeChallenge?: any;
    _meta?: Record<string, unknown>;
}

type Server = { registerTool: (...args: any[]) => any };
type Config<Schema, Context> = McpTool<Schema> & ToolSettings<Schema, Context> & { key: ToolKey<Schema, Context> };

export interface McpTools<Context = any, Client = any> {
    /**
     * server.registerTool() of version 1 or 2 of the SDK, for a tool that takes effect once. The handler gets the arguments, without idempotency_key; the
     * transaction, or with `lease` the leased work; and the SDK's context. An error that it throws, isError and input_required store nothing.
     *
     * @returns what server.registerTool() returns
     * @throws TypeError for an unknown option, for readOnlyHint: true, and for idempotentHint: true with key: 'call'
     */
    registerTool<S extends Server, Schema = undefined>(server: S, name: string, config: Config<Schema, Context> & { lease: Duration },
        handler: (args: ArgumentsOf<Schema>, work: Work<Client>, context: Context) => any): ReturnType<S['registerTool']>;
    registerTool<S extends Server, Schema = undefined>(server: S, name: string, config: Config<Schema, Context> & { lease?: undefined },
        handler: (args: ArgumentsOf<Schema>, work: ToolTransaction<Client>, context: Context) => any): ReturnType<S['registerTool']>;
}

/** `Context` is the second argument of a tool's callback in the SDK: RequestHandlerExtra of version 1, ServerContext of version 2. */
export function idempotency<Context = any, Client = any>(options: ToolOptions<Context, Client>): McpTools<Context, Client>;
