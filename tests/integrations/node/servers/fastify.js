import { Readable } from 'node:stream'
import { idempotency } from 'idem-postgres/fastify'
import { insertBeforeRefusal, listening, options, port, routes, writeAndFail } from './shop.js'

const { default: Fastify } = await import(process.env.FASTIFY ?? 'fastify')
const app = Fastify()
app.addHook('onRequest', async (request, reply) => { reply.header('X-Request-Id', 'r1') })
app.setNotFoundHandler((request, reply) => reply.code(404).send({ error: 'nowhere' }))
app.register(idempotency, options((request) => request.headers['x-client']))
app.register(async (shop) => {
    for (const [path, work] of Object.entries(routes)) {
        shop.post(path, async (request, reply) => {
            const { status, headers, body } = await work(request.idem.client, request.body)
            reply.code(status).headers(headers)
            if (body !== undefined) return reply.send(body)
        })
    }
    shop.post('/breaks', async (request, reply) => {
        await insertBeforeRefusal(request.idem.client, request.body)
        writeAndFail(reply.raw)
    })
    // A handler that finds nothing: the hooks of the handler of 404 meet the open exchange.
    shop.post('/nowhere', (request, reply) => reply.callNotFound())
    shop.post('/events', async (request, reply) => {
        await insertBeforeRefusal(request.idem.client, request.body)
        return reply.type('text/event-stream').send(Readable.from(['data: 1\n\n']))
    })
})
await app.listen({ port, host: '127.0.0.1' })
listening(app.server)
