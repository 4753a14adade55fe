// An MCP server that places orders and charges a card: SDK=v1-stdio, v1-http or v2-http. With HTTP, X-User stands for the authentication.

import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fate } from 'idem-postgres'
import { idempotency } from 'idem-postgres/mcp'
import pg from 'pg'
import { z } from 'zod'

const sdk = process.env.SDK
const pool = new pg.Pool({ max: Number(process.env.POOL ?? 3) }).on('error', () => {})
const outside = new pg.Pool({ max: 1 }).on('error', () => {}) // the gateway's own database
const user = (context) => (sdk === 'v1-stdio' ? process.env.MCP_USER : (context.http?.req?.headers.get('x-user') ?? context.requestInfo?.headers['x-user']))
const { registerTool } = idempotency({ database: pool, scope: user, callKeys: ['host/toolUseId'], onOutcome: (outcome) => process.env.OUTCOMES && console.error(JSON.stringify(outcome)) })
const die = () => process.kill(process.pid, 'SIGKILL')

// KILL_AT: the number of the statement at which the process dies. KILL_WHEN: before the server has the statement, or after its answer.
let statements = 0
const { query } = pg.Client.prototype
if (process.env.KILL_AT) {
    pg.Client.prototype.query = function (...args) {
        const isLast = ++statements === Number(process.env.KILL_AT)
        if (isLast && process.env.KILL_WHEN === 'before') die()
        const answer = query.apply(this, args)
        if (isLast && answer?.then) answer.then(die, die)
        else if (isLast) args[0].once?.('end', die)
        return answer
    }
}
const text = (value) => [{ type: 'text', text: value }]

const order = z.object({
    item: z.string(), quantity: z.number().default(1), reason: z.string().optional(), pause: z.number().default(0), fails: z.enum(['throws', 'isError', 'dies', 'shape']).optional(),
    size: z.number().default(0), odd: z.boolean().optional(),
})
const insert = async (client, item) => (await client.query('INSERT INTO orders (item) VALUES ($1) RETURNING id', [item])).rows[0].id

async function place({ item, pause, fails, size, odd }, { client }) {
    const id = await insert(client, item)
    await sleep(pause)
    if (fails === 'dies') die()
    if (fails === 'throws') throw new Error('the warehouse is closed')
    if (fails === 'isError') return { isError: true, content: text('sold out') }
    if (fails === 'shape') return { content: text('no'), structuredContent: { id: 'seven' } }
    return { content: text(odd ? 'a\u0000b\ud800' : `order ${id}`), structuredContent: { id, ...(size ? { blob: 'x'.repeat(size) } : {}) } }
}

function register(server) {
    registerTool(server, 'place_order', {
        description: 'Places an order', inputSchema: order, outputSchema: z.object({ id: z.number(), blob: z.string().optional() }), key: 'argument', identity: ['item', 'quantity'], wait: '1 s',
    }, place)
    registerTool(server, 'patient_order', { inputSchema: { item: z.string(), pause: z.number().optional() }, key: 'call', wait: '20 s' }, async ({ item, pause = 0 }, { client }) => {
        const id = await insert(client, item)
        await sleep(pause)
        return { content: text(`order ${id}`) }
    })
    registerTool(server, 'slow_order', { inputSchema: order, key: 'argument', onCancel: 'finish' }, place)
    registerTool(server, 'pay', {
        inputSchema: z.object({ invoice: z.string(), amount: z.number(), dies: z.enum(['before', 'after', 'unknown']).optional(), pause: z.number().default(0) }),
        key: ({ invoice }) => invoice, identity: ['invoice', 'amount'], lease: process.env.LEASE ?? '1 s', wait: process.env.WAIT ?? '100 ms',
    }, async ({ amount, dies, pause }, w) => {
        const isFirst = w.attempt === 1
        const charge = await w.step('charge', async ({ key }) => {
            if (dies === 'before' && isFirst) die()
            await outside.query('INSERT INTO charges (key, amount) VALUES ($1, $2)', [key, amount])
            await sleep(pause)
            if ((dies === 'after' || dies === 'unknown') && isFirst) die()
            return { key }
        }, async ({ key }) => {
            if (dies === 'unknown') return fate.unknown()
            return (await outside.query('SELECT FROM charges WHERE key = $1', [key])).rowCount > 0 ? fate.done({ key }) : fate.notDone()
        })
        await w.write('order', async ({ client }) => ({ id: await insert(client, charge.key) }))
        return { content: text(`paid ${charge.key}`) }
    })
    return server
}

/** Runs until the process ends. */
const starts = {
    async 'v1-stdio'() {
        const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js')
        const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js')
        await register(new McpServer({ name: 'shop', version: '1' })).connect(new StdioServerTransport())
    },
    async 'v1-http'() {
        const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js')
        const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
        return async (request, response) => {
            const server = register(new McpServer({ name: 'shop', version: '1' }))
            const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
            response.on('close', () => server.close())
            await server.connect(transport)
            await transport.handleRequest(request, response)
        }
    },
    async 'v2-http'() {
        const { createMcpHandler, McpServer } = await import('@modelcontextprotocol/server')
        const { toNodeHandler } = await import('@modelcontextprotocol/node')
        return toNodeHandler(createMcpHandler(() => register(new McpServer({ name: 'shop', version: '1' }))))
    },
}
const handle = await starts[sdk]()
if (handle) {
    const server = http.createServer(handle).listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(server.address().port))
}
