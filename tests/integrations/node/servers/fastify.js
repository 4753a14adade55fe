import { Readable } from 'node:stream'
import { idempotency } from 'idem-postgres/fastify'
import Fastify from 'fastify'
import { insertBeforeRefusal, listening, options, parts, port, routes, writeAndFail } from './shop.js'

const app = Fastify()
app.register(idempotency, options((request) => request.headers['x-client']))
app.register(async (shop) => {
    for (const [path, work] of Object.entries(routes)) {
        shop.post(path, async (request, reply) => {
            const { status, headers, body } = await work(request.idem.client, request.body)
            reply.code(status).headers(headers)
            if (body !== undefined) return reply.send(body)
        })
    }
    shop.post('/refused', async (request) => {
        await insertBeforeRefusal(request.idem.client, request.body)
        throw Object.assign(new Error('refused'), { statusCode: 404 })
    })
    shop.post('/breaks', async (request, reply) => {
        await insertBeforeRefusal(request.idem.client, request.body)
        writeAndFail(reply.raw)
    })
    shop.post('/stream', async (request, reply) => {
        await insertBeforeRefusal(request.idem.client, request.body)
        return reply.send(Readable.from(parts()))
    })
    shop.post('/events', async (request, reply) => {
        await insertBeforeRefusal(request.idem.client, request.body)
        return reply.type('text/event-stream').send(Readable.from(['data: 1\n\n']))
    })
})
await app.listen({ port, host: '127.0.0.1' })
listening(app.server)
