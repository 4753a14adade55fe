import { serve } from '@hono/node-server'
import { idempotency } from 'idem-postgres/hono'
import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import { insertBeforeRefusal, listening, options, port, routes } from './shop.js'

const app = new Hono()
app.use((c, next) => {
    c.header('X-Request-Id', 'r1')
    return next()
})
app.use(idempotency(options((c) => c.req.header('X-Client'))))
for (const [path, work] of Object.entries(routes)) {
    app.post(path, async (c) => {
        const { status, headers, body } = await work(c.get('idem').client, path === '/text' ? await c.req.text() : await c.req.json())
        if (body === undefined || Buffer.isBuffer(body)) return c.body(body ?? null, status, headers)
        return c.json(body, status, headers)
    })
}
// Hono has no response to write to before the end.
app.post('/breaks', async (c) => {
    await insertBeforeRefusal(c.get('idem').client, await c.req.json())
    throw new Error('the handler fails')
})
app.post('/events', async (c) => {
    await insertBeforeRefusal(c.get('idem').client, await c.req.json())
    return streamSSE(c, (out) => out.writeSSE({ data: '1' }))
})
const server = serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }, () => listening(server))
