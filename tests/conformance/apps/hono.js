// The reference app of `idem http-test --reference` for Hono.
import { serve } from '@hono/node-server'
import { idempotency } from 'idem-postgres/hono'
import { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { stream as respond } from 'hono/streaming'
import { effects, hooks, late, listening, optionsOf, port, stream, underLease, work } from './reference.js'

const [options, leasedOptions] = optionsOf((c) => [c.req.header('Authorization'), c.req.method, c.req.path])
const idempotent = idempotency(options), leased = idempotency(leasedOptions)

const errorOf = (status) => new HTTPException(status, { message: 'thrown' })
const json = (act) => async (c) => {
    const { status, headers, body } = await act(c.get('idem'), await c.req.json(), errorOf)
    return c.body(body, status, headers)
}

const app = new Hono()
app.on(['POST', 'PUT'], '/orders', idempotent, json(work))
app.post('/other', idempotent, json(work))
app.post('/late', idempotent, json(late))
app.post('/double', idempotent, idempotent, json(work))
app.post('/leased', leased, json(underLease))
app.post('/stream', idempotent, async (c) => {
    const parts = await stream(c.get('idem'))
    c.status(201)
    c.header('Content-Type', 'text/plain')
    return respond(c, async (out) => {
        for await (const part of parts) await out.write(part)
    })
})
app.get('/effects', async (c) => c.json(await effects(c.req.query('key'))))
for (const [name, press] of Object.entries(hooks)) {
    app.post(`/hooks/${name}`, async (c) => {
        await press()
        return c.body(null, 204)
    })
}
const server = serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }, () => listening(server))
