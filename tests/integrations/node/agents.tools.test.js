// What a tool of an agent says and refuses, on the fake and on a server of tools that is none of an SDK.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Idem, leased, once } from 'idem-postgres'
import { fakeDatabase } from 'idem-postgres/fake'
import { idempotency } from 'idem-postgres/mcp'
import pg from 'pg'
import { z } from 'zod'
import { z as z3 } from 'zod/v3'
import { withCutPool } from './cut.js'

const pool = new pg.Pool({ max: 6 })
after(() => pool.end())
const { texts } = createRequire(import.meta.url)('./node_modules/idem-postgres/lib/tool_texts.js')
const vectors = JSON.parse(readFileSync(new URL('../../../../../tests/vectors/tool_texts.json', import.meta.url), 'utf8'))

/** Keeps what is registered, and calls it as version 1 does. */
function serverOf() {
    const tools = {}
    return {
        tools, registerTool: (name, config, callback) => { tools[name] = { config, callback } },
        call: (name, args, context = {}) => (tools[name].config.inputSchema === undefined ? tools[name].callback(context) : tools[name].callback(args, context)),
    }
}
const fake = (options) => idempotency({ database: fakeDatabase({ client: {} }), scope: 'alice', wait: '0 s', ...options })
const done = async () => ({ content: [{ type: 'text', text: 'done' }] })
const code = ({ _meta }) => _meta?.['idem/outcome']

test('the texts that the model reads', () => {
    for (const { code: name, facts, text } of vectors) assert.equal(texts[name](facts), text)
    assert.deepEqual([...new Set(vectors.map((vector) => vector.code))].sort(), Object.keys(texts).sort())
    // A new key is the duplicate: no text begins with it.
    for (const { text } of vectors) assert.doesNotMatch(text, /(use|give|try|with) (a|another) (new|different) key/i)
})

test('a wrong use is a TypeError that names what to write', () => {
    const { registerTool } = fake()
    const register = (config, handler = done) => () => registerTool(serverOf(), 'pay', config, handler)
    for (const [wrong, message] of [
        [register({}), /"key" is missing: .*'argument'.*'call'.*function/], [register({ key: 'id' }), /"key" must be 'argument', 'call' or a function/],
        [register({ key: 'call', leese: '1 s' }), /unknown option "leese"/], [register({ key: 'call', lease: 5 }), /"lease" must be .*write '5 s'/],
        [register({ key: 'call', onCancel: 'stop' }), /"onCancel" must be 'rollback' or 'finish'/],
        [register({ key: 'call', annotations: { readOnlyHint: true } }), /readOnlyHint/], [register({ key: 'call', annotations: { idempotentHint: true } }), /idempotentHint/],
        [register({ key: 'call', inputSchema: { a: z.number() }, identity: ['b'] }), /"identity" of "pay" names "b"/],
        [register({ key: 'argument', inputSchema: { idempotency_key: z.string() } }), /has an idempotency_key of its own/],
        [register({ key: 'argument', inputSchema: { jsonSchema: {} } }), /cannot add "idempotency_key" to the schema of "pay"/],
        [register({ key: 'call' }, null), /"handler" must be a function/], [() => registerTool({}, 'pay', { key: 'call' }, done), /must be an McpServer/],
        [() => idempotency({ database: pool }), /"scope" must be a function/], [() => idempotency({ scope: 'a' }), /"database" is missing/], [() => fake({ keys: [] }), /unknown option "keys"/],
    ]) assert.throws(wrong, (error) => error instanceof TypeError && message.test(error.message), String(message))
})

test('the argument idempotency_key is added to each kind of schema, and the handler does not get it', async () => {
    const standard = { '~standard': {
        version: 1, vendor: 'other', validate: (value) => (typeof value.item === 'string' ? { value } : { issues: [{ message: 'no' }] }),
        jsonSchema: { input: () => ({ type: 'object', properties: { item: { type: 'string' } }, required: ['item'] }), output: () => ({}) },
    } }
    const parse = async (schema, value) => {
        const own = schema['~standard'] ?? z.object(schema)['~standard']
        const result = await own.validate(value)
        if (result.issues) throw new Error(result.issues[0].message)
        return result.value
    }
    for (const schema of [{ item: z.string() }, z.object({ item: z.string() }), z.strictObject({ item: z.string() }).refine(() => true), z3.object({ item: z3.string() }), standard]) {
        const { registerTool } = fake(), server = serverOf(), seen = []
        registerTool(server, 'order', { key: 'argument', inputSchema: schema }, async (args) => { seen.push(args); return done() })
        const { inputSchema } = server.tools.order.config
        await assert.rejects(parse(inputSchema, { item: 'a' }))
        await assert.rejects(parse(inputSchema, { item: 'a', idempotency_key: '' }))
        await server.call('order', await parse(inputSchema, { item: 'a', idempotency_key: 'k' }))
        assert.deepEqual(seen, [{ item: 'a' }])
    }
    const { inputSchema } = (() => { const server = serverOf(); fake().registerTool(server, 'order', { key: 'argument' }, done); return server.tools.order.config })()
    assert.deepEqual(Object.keys(inputSchema), ['idempotency_key'])
})

test('members in another order are the same call; a tool named otherwise, a list in another order and a text are not', async () => {
    const { registerTool } = fake(), server = serverOf()
    for (const name of ['a', 'a/b']) registerTool(server, name, { key: 'call', inputSchema: z.any() }, done)
    const call = async (name, key, args) => code(await server.call(name, args, { _meta: { idempotencyKey: key } }))
    assert.deepEqual([await call('a', '1', { x: { p: 1, q: [1, 2] } }), await call('a', '1', { x: { q: [1, 2], p: 1 } })], [undefined, 'replay'])
    assert.deepEqual([await call('a', '1', { x: { p: 1, q: [2, 1] } }), await call('a', '1', { x: { p: '1', q: [1, 2] } })], ['mismatch', 'mismatch'])
    assert.deepEqual([await call('a', 'b/c', {}), await call('a/b', 'c', {})], [undefined, 'mismatch'])
})

test('the header field, the key of a function, and one that is missing', async () => {
    const { registerTool } = fake(), server = serverOf()
    registerTool(server, 'call', { key: 'call', inputSchema: z.any() }, done)
    registerTool(server, 'bare', { key: 'call' }, async (args, { key }) => ({ content: [{ type: 'text', text: key }] }))
    registerTool(server, 'invoice', { key: async ({ invoice }, context) => invoice && `${invoice} ${context.sessionId}`, inputSchema: z.any() }, (args, { key }) => ({ content: [{ type: 'text', text: key }] }))
    const v1 = { requestInfo: { headers: { 'idempotency-key': '"h1"' } } }
    const v2 = { mcpReq: { signal: new AbortController().signal }, http: { req: { headers: new Headers({ 'Idempotency-Key': 'h1' }) } } }
    assert.deepEqual([code(await server.call('call', {}, v1)), code(await server.call('call', {}, v2)), code(await server.call('call', {}, { requestId: 7 }))], [undefined, 'replay', 'key_missing'])
    assert.equal((await server.call('bare', undefined, v1)).content[0].text, 'bare/h1')
    assert.deepEqual([(await server.call('invoice', { invoice: 7 }, { sessionId: 's' })).content[0].text, code(await server.call('invoice', {}))], ['invoice/7 s', 'key_missing'])
})

test('isError stores nothing where no schema of the output refuses it, and the next call runs', async () => {
    const { registerTool } = fake(), server = serverOf()
    let runs = 0
    registerTool(server, 'order', { key: 'call' }, async () => ({ isError: ++runs === 1, content: [] }))
    const call = () => server.call('order', undefined, { _meta: { idempotencyKey: 'e' } })
    assert.deepEqual([(await call()).isError, (await call()).isError, code(await call()), runs], [true, false, 'replay', 2])
})

test('input_required stores nothing; a scope that is no text is an error; onOutcome is told', async () => {
    const outcomes = []
    const { registerTool } = fake({ onOutcome: (outcome) => outcomes.push(outcome) }), server = serverOf()
    let asked = 0
    registerTool(server, 'deploy', { key: 'call' }, async () => (asked++ === 0 ? { resultType: 'input_required', inputRequests: {} } : done()))
    const context = { _meta: { idempotencyKey: 'd' } }
    const results = [await server.call('deploy', undefined, context), await server.call('deploy', undefined, context), await server.call('deploy', undefined, context)]
    assert.deepEqual([results[0].resultType, code(results[1]), code(results[2])], ['input_required', undefined, 'replay'])
    assert.deepEqual(outcomes.map(({ tool, scope, key, outcome, replayed }) => [tool, scope, key, outcome, replayed]),
        [['deploy', 'alice', 'd', 'undone', false], ['deploy', 'alice', 'd', 'run', false], ['deploy', 'alice', 'd', 'replay', true]])
    const { registerTool: unscoped } = fake({ scope: () => '' })
    unscoped(server, 'unscoped', { key: 'call' }, done)
    await assert.rejects(server.call('unscoped', undefined, context), /"scope" returned no text/)
})

test('a database that is gone, and a COMMIT whose answer is lost', async () => {
    const gone = new pg.Pool({ host: '/nonexistent', max: 1 }), server = serverOf(), context = { _meta: { idempotencyKey: 'gone' } }
    idempotency({ database: gone, scope: 'a' }).registerTool(server, 'order', { key: 'call' }, done)
    assert.deepEqual([code(await server.call('order', undefined, context)), await gone.end()], ['unavailable', undefined])
    await withCutPool('after', async (database) => {
        idempotency({ database, scope: 'cut' }).registerTool(server, 'order', { key: 'call' }, (_, { client }) => client.query(`INSERT INTO orders (item) VALUES ('cut tool')`).then(done))
        assert.equal(code(await server.call('order', undefined, context)), 'replay')
        assert.equal((await pool.query(`SELECT count(*)::int AS n FROM orders WHERE item = 'cut tool'`)).rows[0].n, 1)
    })
})

test('calls that wait for another process hold no connection that the renewal of a lease needs', async () => {
    const other = await pool.connect(), small = new pg.Pool({ max: 2 })
    await other.query('BEGIN')
    const keys = ['w1', 'w2', 'w3']
    for (const key of keys) await new Idem(other).begin(key, { scope: 'waiters' })
    const waiters = keys.map((key) => once(small, key, { scope: 'waiters', wait: '20 s' }, async () => 1))
    await sleep(300)
    const { value } = await leased(small, 'held', { scope: 'waiters', lease: '2 s', wait: '0 s' }, async (w) => {
        await sleep(4500)
        return w.signal.aborted && String(w.signal.reason)
    })
    assert.equal(value, false)
    await other.query('ROLLBACK')
    other.release()
    assert.deepEqual((await Promise.all(waiters)).map((result) => result.value), [1, 1, 1])
    await small.end()
})
