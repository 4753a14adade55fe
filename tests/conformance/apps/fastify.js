// The reference app of `idem http-test --reference` for Fastify, 5 or what FASTIFY names.
import { Readable } from 'node:stream'
import { idempotency } from 'idem-postgres/fastify'
import { effects, hooks, late, listening, optionsOf, port, stream, underLease, work } from './reference.js'

const { default: Fastify } = await import(process.env.FASTIFY ?? 'fastify')
const [options, leasedOptions] = optionsOf((request) => [request.headers.authorization, request.method, request.routeOptions.url])

const errorOf = (status) => Object.assign(new Error('thrown'), { statusCode: status })
const json = (act) => async (request, reply) => {
    const { status, headers, body } = await act(request.idem, request.body, errorOf)
    return reply.code(status).headers(headers).send(body)
}

const app = Fastify()
app.register(async (shop) => {
    shop.register(idempotency, options)
    for (const method of ['POST', 'PUT']) shop.route({ method, url: '/orders', handler: json(work) })
    shop.post('/other', json(work))
    shop.post('/late', json(late))
    shop.post('/stream', async (request, reply) => reply.code(201).type('text/plain').send(Readable.from(await stream(request.idem))))
    shop.register(async (again) => {
        again.register(idempotency, options)
        again.post('/double', json(work))
    })
})
app.register(async (payments) => {
    payments.register(idempotency, leasedOptions)
    payments.post('/leased', json(underLease))
})
app.get('/effects', (request) => effects(request.query.key))
for (const [name, press] of Object.entries(hooks)) {
    app.post(`/hooks/${name}`, async (request, reply) => {
        await press()
        return reply.code(204).send()
    })
}
app.addContentTypeParser('*', (request, payload, done) => done(null)) // of the hooks, which have no body
await app.listen({ port, host: '127.0.0.1' })
listening(app.server)
