'use strict';

const { Tools } = require('./lib/tool.js');
const { checkIdentity, withKey } = require('./lib/tool_schema.js');
const { texts } = require('./lib/tool_texts.js');

const own = ['title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'icons', 'scopeChallenge', '_meta'];

/** What the two versions of the SDK say of a call: version 2 has `mcpReq`. */
function view(context) {
    const { mcpReq, http } = context;
    if (mcpReq) return { meta: mcpReq._meta, signal: mcpReq.signal, header: (name) => http?.req?.headers.get(name) };
    return { meta: context._meta, signal: context.signal, header: (name) => context.requestInfo?.headers?.[name.toLowerCase()] };
}

/** A header field has the key in quotes, or bare. */
const unquoted = (field) => /^"([^"\\]*)"$/.exec(field)?.[1] ?? field;

function callId({ meta, header }, callKeys) {
    for (const name of ['idempotencyKey', 'io.modelcontextprotocol/idempotencyKey', ...callKeys]) {
        if (typeof meta?.[name] === 'string' && meta[name] !== '') return meta[name];
    }
    const field = header('Idempotency-Key');
    return typeof field === 'string' ? unquoted(field) : undefined;
}

// An error has no structuredContent: a tool's outputSchema would refuse it.
const failure = ({ code, text, retryAfterMs }) => ({
    isError: true, content: [{ type: 'text', text }], _meta: { 'idem/outcome': code, ...(retryAfterMs === undefined ? {} : { 'idem/retryAfterMs': Math.ceil(retryAfterMs) }) },
});

function toResult(tool, { outcome, result, code, text, ...more }, hasOutputSchema) {
    if (code === 'omitted') return { ...(hasOutputSchema ? { isError: true } : {}), content: [{ type: 'text', text }], _meta: { 'idem/outcome': code } };
    if (code) return failure({ code, text, ...more });
    if (outcome !== 'replay') return result;
    return { ...result, content: [...(result?.content ?? []), { type: 'text', text: texts.replayed({ tool }) }], _meta: { ...result?._meta, 'idem/outcome': 'replay' } };
}

const isUndone = (result) => result?.isError === true || result?.resultType === 'input_required';

/** What the SDK would refuse is refused before it is stored. A shape of version 1, which is no schema, is left to the SDK. */
async function checkOutput(name, schema, result) {
    if (schema === undefined || isUndone(result)) return;
    if (result?.structuredContent === undefined) throw new TypeError(`tool ${name} has an output schema, and its result has no structuredContent`);
    const { issues } = await schema['~standard']?.validate(result.structuredContent) ?? {};
    if (issues) throw new TypeError(`tool ${name}: its structuredContent does not fit its output schema: ${issues.map(({ message }) => message).join('; ')}`);
}

function annotationsOf(name, { annotations, source }) {
    if (annotations?.readOnlyHint === true) throw new TypeError(`"${name}" has readOnlyHint: true; a tool that changes nothing needs no key`);
    if (annotations?.idempotentHint === true && source === 'call') throw new TypeError(`"${name}" has idempotentHint: true; with key: 'call', a host that calls it again with a new id does it again`);
    return { readOnlyHint: false, ...(source === 'call' ? {} : { idempotentHint: true }), ...annotations };
}

/** Tools of an MCP server that take effect once. mcp.d.ts describes it. */
function idempotency(options) {
    const tools = new Tools(options);
    return {
        registerTool(server, name, config, handler) {
            if (typeof server?.registerTool !== 'function') throw new TypeError('registerTool(server, name, config, handler): the server must be an McpServer');
            const checked = async (args, work, context) => {
                const result = await handler(args, work, context);
                await checkOutput(name, config.outputSchema, result);
                return result;
            };
            const { tool, rest } = tools.define(name, config, own, { handler: typeof handler === 'function' ? checked : handler });
            checkIdentity(name, tool.identity, config.inputSchema);
            const inputSchema = tool.key === 'argument' ? withKey(name, config.inputSchema) : config.inputSchema;
            const annotations = annotationsOf(name, { annotations: config.annotations, source: tool.source });
            return server.registerTool(name, { ...rest, ...(inputSchema === undefined ? {} : { inputSchema }), annotations }, async (...given) => {
                // Without a schema the SDK gives the context alone.
                const [args, context] = inputSchema === undefined ? [{}, ...given] : given;
                const seen = view(context);
                const answer = await tool.call({ args, context, callId: (callKeys) => callId(seen, callKeys), signal: seen.signal, isUndone, rest: [context] });
                return toResult(name, answer, config.outputSchema !== undefined);
            });
        },
    };
}

module.exports = { idempotency };
