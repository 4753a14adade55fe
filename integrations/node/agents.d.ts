import type { Duration, Work } from './index';
import type { ArgumentsOf, Refusal, ToolOptions, ToolSettings, ToolTransaction } from './tools';

type Make = (...args: any[]) => any;
type Handler<Schema, W, Rest extends unknown[]> = (args: ArgumentsOf<Schema>, work: W, ...rest: Rest) => any;
type Settings<Config, Name extends string, Schema, Context> = Omit<Config, Name> & { [K in Name]?: Schema } & ToolSettings<Schema, Context>;

/** The options of `tool` of the AI SDK, without execute. */
export interface AiTool {
    description?: any; title?: string; inputSchema?: any; outputSchema?: any; contextSchema?: any; strict?: boolean; inputExamples?: any[]; needsApproval?: any; toModelOutput?: any;
    providerOptions?: any; metadata?: any; deferLoading?: boolean; onInputStart?: any; onInputDelta?: any; onInputAvailable?: any;
}

/** The fields of `tool` of LangChain, without the name. */
export interface LangchainTool {
    description?: string; schema?: any; returnDirect?: boolean; verbose?: boolean; verboseParsingErrors?: boolean; tags?: string[]; metadata?: any; callbacks?: any; extras?: any;
    defaultConfig?: any;
}

/** The options of `tool` of OpenAI Agents, without name and execute. */
export interface OpenaiTool {
    description?: string; parameters?: any; strict?: boolean; deferLoading?: boolean; providerData?: any; allowedCallers?: any; needsApproval?: any; isEnabled?: any; errorFunction?: any;
    customDataExtractor?: any; inputGuardrails?: any; outputGuardrails?: any; timeoutMs?: number; timeoutBehavior?: any; timeoutErrorFunction?: any;
}

/**
 * Each takes the SDK's own function `tool`, and returns what that returns. `key` is 'call' by default: the SDK's id of the call. The handler gets the arguments,
 * the transaction or with `lease` the leased work, and the other arguments of the SDK's function. It returns a text or a plain object. An error that it throws stores nothing.
 *
 * @throws TypeError for an unknown option
 */
export interface AgentTools<Context = any, Client = any> {
    /** A call that is refused throws ToolRefused, whose message the SDK gives to the model. */
    aiTool<M extends Make, Schema = undefined>(tool: M, name: string, config: Settings<AiTool, 'inputSchema', Schema, Context> & { lease: Duration },
        handler: Handler<Schema, Work<Client>, [options: Context]>): ReturnType<M>;
    aiTool<M extends Make, Schema = undefined>(tool: M, name: string, config: Settings<AiTool, 'inputSchema', Schema, Context> & { lease?: undefined },
        handler: Handler<Schema, ToolTransaction<Client>, [options: Context]>): ReturnType<M>;
    /** A call that is refused returns a text for the model. */
    langchainTool<M extends Make, Schema = undefined>(tool: M, name: string, config: Settings<LangchainTool, 'schema', Schema, Context> & { lease: Duration },
        handler: Handler<Schema, Work<Client>, [config: Context]>): ReturnType<M>;
    langchainTool<M extends Make, Schema = undefined>(tool: M, name: string, config: Settings<LangchainTool, 'schema', Schema, Context> & { lease?: undefined },
        handler: Handler<Schema, ToolTransaction<Client>, [config: Context]>): ReturnType<M>;
    /** A call that is refused returns a text for the model. */
    openaiTool<M extends Make, Schema = undefined>(tool: M, name: string, config: Settings<OpenaiTool, 'parameters', Schema, Context> & { lease: Duration },
        handler: Handler<Schema, Work<Client>, [context: Context, details: any]>): ReturnType<M>;
    openaiTool<M extends Make, Schema = undefined>(tool: M, name: string, config: Settings<OpenaiTool, 'parameters', Schema, Context> & { lease?: undefined },
        handler: Handler<Schema, ToolTransaction<Client>, [context: Context, details: any]>): ReturnType<M>;
}

/** `Context` is what `scope` gets: the options of AI SDK's execute, the config of LangChain, the RunContext of OpenAI Agents. */
export function idempotency<Context = any, Client = any>(options: ToolOptions<Context, Client>): AgentTools<Context, Client>;

/** The call was not done, or not again. The message is for the model. */
export class ToolRefused extends Error {
    code: Refusal | 'omitted';
    retryAfterMs: number | null;
}
