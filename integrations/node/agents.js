'use strict';

const { Tools } = require('./lib/tool.js');
const { checkIdentity, withKey } = require('./lib/tool_schema.js');
const { texts } = require('./lib/tool_texts.js');

/** A tool was not done. The message is for the model; `code` is for the program. */
class ToolRefused extends Error {
    constructor({ code, text, retryAfterMs = null }) {
        super(text);
        this.name = 'ToolRefused';
        this.code = code;
        this.retryAfterMs = retryAfterMs;
    }
}

// By SDK: the name of its schema, and the options that it takes.
const ai = {
    schema: 'inputSchema',
    own: ['description', 'title', 'inputSchema', 'outputSchema', 'contextSchema', 'strict', 'inputExamples', 'needsApproval', 'toModelOutput', 'providerOptions', 'metadata', 'deferLoading',
        'onInputStart', 'onInputDelta', 'onInputAvailable'],
};
const langchain = { schema: 'schema', own: ['description', 'schema', 'returnDirect', 'verbose', 'verboseParsingErrors', 'tags', 'metadata', 'callbacks', 'extras', 'defaultConfig'] };
const openai = {
    schema: 'parameters',
    own: ['description', 'parameters', 'strict', 'deferLoading', 'providerData', 'allowedCallers', 'needsApproval', 'isEnabled', 'errorFunction', 'customDataExtractor', 'inputGuardrails',
        'outputGuardrails', 'timeoutMs', 'timeoutBehavior', 'timeoutErrorFunction'],
};

/** A stored result is JSON: what JSON changes would not be replayed as it was. */
function checkPlain(name, result) {
    const prototype = result === null || typeof result !== 'object' ? null : Object.getPrototypeOf(result);
    if (prototype === null || prototype === Object.prototype || Array.isArray(result)) return result;
    throw new TypeError(`the tool "${name}" returned ${prototype.constructor?.name ?? 'an object'}, which JSON cannot store: return text, or a plain object`);
}

/** Tools of agents that take effect once. agents.d.ts describes it. */
function idempotency(options) {
    const tools = new Tools(options);

    /** @returns { rest, run }: run({ args, context, callId, signal, rest }) → { result } or { text, refused } */
    function define(sdk, make, name, config, handler) {
        if (typeof make !== 'function') throw new TypeError('the first argument must be the function "tool" of the SDK');
        const checked = async (...given) => checkPlain(name, await handler(...given));
        const { tool, rest } = tools.define(name, config, sdk.own, { key: 'call', handler: typeof handler === 'function' ? checked : handler });
        const schema = rest[sdk.schema];
        checkIdentity(name, tool.identity, schema);
        if (tool.key === 'argument') rest[sdk.schema] = withKey(name, schema);
        const run = async (call) => {
            const { outcome, result, code, ...more } = await tool.call({ ...call, callId: () => call.callId });
            if (code) return { refused: new ToolRefused({ code, ...more }) };
            // A repetition by the framework is no news for the model; one by the model is.
            const isNews = outcome === 'replay' && tool.key !== 'call' && typeof result === 'string';
            return { result: isNews ? `${result}\n${texts.replayed({ tool: name })}` : result };
        };
        return { rest, run };
    }

    return {
        /** The SDK gives the model the message of an error that is thrown. */
        aiTool(make, name, config, handler) {
            const { rest, run } = define(ai, make, name, config, handler);
            return make({ ...rest, execute: async (args, context) => {
                const { result, refused } = await run({ args, context, callId: context.toolCallId, signal: context.abortSignal, rest: [context] });
                if (refused) throw refused;
                return result;
            } });
        },
        /** A text, because the SDK adds "Please fix your mistakes" to an error. */
        langchainTool(make, name, config, handler) {
            const { rest, run } = define(langchain, make, name, config, handler);
            return make(async (args, context) => {
                const { result, refused } = await run({ args, context, callId: context?.toolCall?.id ?? context?.toolCallId, signal: context?.signal, rest: [context] });
                return refused ? refused.message : result;
            }, { ...rest, name });
        },
        /** A text, because the SDK adds "Please try again" to an error. A schema of the output refuses a text. */
        openaiTool(make, name, config, handler) {
            const { rest, run } = define(openai, make, name, config, handler);
            return make({ ...rest, name, execute: async (args, context, details) => {
                const { result, refused } = await run({ args, context, callId: details?.toolCall?.callId, signal: details?.signal, rest: [context, details] });
                return refused ? refused.message : result;
            } });
        },
    };
}

module.exports = { idempotency, ToolRefused };
