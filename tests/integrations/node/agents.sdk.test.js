// The SDKs of agents run the same call again: a graph that is resumed, a history that is sent twice, a state that is loaded twice. The models are scripted.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { AIMessage } from '@langchain/core/messages'
import { tool as langchain } from '@langchain/core/tools'
import { Command, interrupt, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { Agent, Runner, RunState, tool as openai } from '@openai/agents'
import { generateText, isStepCount, tool as ai } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { idempotency } from 'idem-postgres/agents'
import pg from 'pg'
import { z } from 'zod'

const pool = new pg.Pool({ max: 3 })
after(() => pool.end())
const count = async (item) => (await pool.query('SELECT count(*)::int AS n FROM orders WHERE item = $1', [item])).rows[0].n
const insert = async (client, item) => (await client.query('INSERT INTO orders (item) VALUES ($1) RETURNING id', [item])).rows[0].id
const schema = z.object({ item: z.string() })

function langgraph(calls, tools) {
    let turn = 0
    const model = async () => ({ messages: [++turn % 2 === 1 ? new AIMessage({ content: '', tool_calls: calls }) : new AIMessage('done')] })
    return new StateGraph(MessagesAnnotation).addNode('model', model).addNode('tools', new ToolNode(tools)).addEdge('__start__', 'model')
        .addConditionalEdges('model', (state) => (state.messages.at(-1).tool_calls?.length ? 'tools' : '__end__')).addEdge('tools', 'model').compile({ checkpointer: new MemorySaver() })
}

const wrapped = idempotency({ database: pool, scope: (config) => `thread ${config.configurable.thread_id}` })
const answers = (state) => state.messages.filter((message) => message.getType() === 'tool' && message.name === 'pay').map(({ content }) => content)

for (const [name, lease] of [['once', undefined], ['leased', '30 s']]) {
    test(`LangGraph, ${name}: an interrupt beside the tool, and time travel: one row`, async () => {
        const item = `langgraph ${name}`, threads = { configurable: { thread_id: item } }
        const pay = wrapped.langchainTool(langchain, 'pay', { description: 'Pays', schema, ...(lease ? { lease } : {}) }, async (args, work) => {
            const order = lease ? await work.write('order', async ({ client }) => ({ id: await insert(client, args.item) })) : { id: await insert(work.client, args.item) }
            return order
        })
        let bare = 0
        const plain = langchain(async () => String(++bare), { name: 'plain', schema: z.object({}) })
        const ask = langchain(async () => interrupt('ok?'), { name: 'ask', schema: z.object({}) })
        const graph = langgraph([{ name: 'pay', args: { item }, id: 'call_1' }, { name: 'ask', args: {}, id: 'call_2' }, { name: 'plain', args: {}, id: 'call_3' }], [pay, ask, plain])
        await graph.invoke({ messages: [{ role: 'user', content: 'pay' }] }, threads)
        const end = await graph.invoke(new Command({ resume: 'yes' }), threads)
        const history = []
        for await (const state of graph.getStateHistory(threads)) history.push(state)
        const again = await graph.invoke(new Command({ resume: 'yes' }), history.find((state) => state.next.includes('tools')).config)
        // The graph has run each of its tools three times.
        assert.deepEqual([answers(end), await count(item), bare], [answers(again), 1, 3])
        assert.match(answers(end)[0], /^\{"id":\d+\}$/)
    })
}

test('LangGraph: an interrupt inside of the tool rolls back, and the resumed tool is done', async () => {
    const item = 'langgraph inside', threads = { configurable: { thread_id: item } }
    const pay = wrapped.langchainTool(langchain, 'pay', { schema }, async (args, { client }) => {
        await insert(client, args.item)
        return `paid: ${interrupt('ok?')}`
    })
    const graph = langgraph([{ name: 'pay', args: { item }, id: 'call_1' }], [pay])
    await graph.invoke({ messages: [{ role: 'user', content: 'pay' }] }, threads)
    assert.equal(await count(item), 0)
    assert.deepEqual([answers(await graph.invoke(new Command({ resume: 'yes' }), threads)), await count(item)], [['paid: yes'], 1])
})

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const says = (content, reason) => ({ content, finishReason: { unified: reason }, usage, warnings: [] })
const calling = (id, input) => says([{ type: 'tool-call', toolCallId: id, toolName: 'pay', input: JSON.stringify(input) }], 'tool-calls')
const modelOf = (...turns) => new MockLanguageModelV4({ doGenerate: async () => turns.shift() ?? says([{ type: 'text', text: 'ok' }], 'stop') })

test('AI SDK: an approved history that is sent twice: one row', async () => {
    const item = 'ai approval'
    const { aiTool } = idempotency({ database: pool, scope: 'chat 1' })
    const tools = { pay: aiTool(ai, 'pay', { description: 'Pays', inputSchema: schema }, async (args, { client }) => ({ id: await insert(client, args.item) })) }
    const common = { tools, toolApproval: { pay: 'user-approval' } }
    const asked = await generateText({ model: modelOf(calling('call_a', { item })), prompt: 'pay', ...common })
    const { approvalId } = asked.content.find(({ type }) => type === 'tool-approval-request')
    const messages = [{ role: 'user', content: 'pay' }, ...asked.response.messages, { role: 'tool', content: [{ type: 'tool-approval-response', approvalId, approved: true }] }]
    await Promise.all([1, 2].map(() => generateText({ model: modelOf(), messages, ...common })))
    assert.equal(await count(item), 1)
})

test('AI SDK: the model is told by the message of an error, and of a repetition of its own', async () => {
    const { aiTool } = idempotency({ database: pool, scope: 'chat 2' })
    const tools = { pay: aiTool(ai, 'pay', { inputSchema: z.object({ item: z.string(), amount: z.number() }), key: ({ item }) => item }, async (args, { client }) => `order ${args.amount} ${await insert(client, args.item) > 0}`) }
    const [first, second, other] = [{ item: 'ai key', amount: 5 }, { item: 'ai key', amount: 5 }, { item: 'ai key', amount: 6 }]
    const model = modelOf(calling('c1', first), calling('c2', second), calling('c3', other))
    const { steps } = await generateText({ model, tools, prompt: 'pay', stopWhen: isStepCount(5) })
    const parts = steps.flatMap(({ content }) => content)
    assert.deepEqual(parts.filter(({ type }) => type === 'tool-result').map(({ output }) => output),
        ['order 5 true', 'order 5 true\n(pay: this exact call was made before. It was not done again; this is its stored result.)'])
    const [error] = parts.filter(({ type }) => type === 'tool-error')
    assert.equal(error.error.code, 'mismatch')
    assert.match(JSON.stringify(model.doGenerateCalls.at(-1).prompt), /"ToolRefused: pay: refused, nothing was done\. The key \\"ai key\\"/)
    assert.equal(await count('ai key'), 1)
})

test('OpenAI Agents: a RunState that is resumed twice, at once and later: one row', async () => {
    const item = 'openai state'
    const { openaiTool } = idempotency({ database: pool, scope: (context) => context.context.session })
    const pay = openaiTool(openai, 'pay', { description: 'Pays', parameters: schema, needsApproval: true }, async (args, { client }) => ({ id: await insert(client, args.item) }))
    let turn = 0
    const told = []
    const one = { inputTokens: 1, outputTokens: 1, totalTokens: 2, requests: 1 }
    const model = { getResponse: async ({ input }) => {
        if (turn++ === 0) return { usage: one, output: [{ type: 'function_call', callId: 'call_1', name: 'pay', arguments: JSON.stringify({ item }), status: 'completed' }] }
        told.push(JSON.stringify(input.find(({ type }) => type === 'function_call_result').output))
        return { usage: one, output: [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'ok' }] }] }
    } }
    const agent = new Agent({ name: 'agent', instructions: 'pay', model, tools: [pay] }), runner = new Runner({ tracingDisabled: true })
    const context = { session: 'session 1' }
    const saved = (await runner.run(agent, 'pay', { context })).state.toString()
    const resume = async () => {
        const state = await RunState.fromString(agent, saved)
        for (const item of state.getInterruptions()) state.approve(item)
        await runner.run(agent, state)
    }
    await Promise.all([resume(), resume()])
    await resume()
    assert.deepEqual([await count(item), new Set(told).size, told.length], [1, 1, 3])
})

test('a refused call is a text for LangChain and OpenAI, and a wrong use is a TypeError', async () => {
    const { langchainTool, openaiTool, aiTool } = idempotency({ database: pool, scope: 'refused', wait: '0 s' })
    const pay = langchainTool(langchain, 'pay', { schema, key: 'argument', identity: ['item'] }, async (args, { client }) => ({ id: await insert(client, args.item) }))
    assert.equal((await pay.invoke({ item: 'refused', idempotency_key: 'r' })).id > 0, true)
    assert.match(await pay.invoke({ item: 'other', idempotency_key: 'r' }), /^pay: refused, nothing was done/)
    const unnamed = langchainTool(langchain, 'unnamed', { schema }, async () => 'x')
    assert.match(await unnamed.invoke({ item: 'a' }), /^unnamed: nothing was done\. The host sent no id of the call/)
    const dated = langchainTool(langchain, 'dated', { schema, key: ({ item }) => item }, async (args, { client }) => { await insert(client, 'dated'); return new Date() })
    await assert.rejects(dated.invoke({ item: 'd' }), /returned Date, which JSON cannot store/)
    assert.equal(await count('dated'), 0)
    for (const make of [aiTool, langchainTool, openaiTool]) {
        assert.throws(() => make(null, 'pay', {}, async () => 1), /the function "tool" of the SDK/)
        assert.throws(() => make(ai, 'pay', { leese: '1 s' }, async () => 1), /unknown option "leese"/)
        assert.throws(() => make(ai, 'pay', {}), /"handler" must be a function/)
    }
})
