import 'reflect-metadata'
import { Controller, Module, Post, Req, Res, StreamableFile } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { IdempotencyInterceptor } from 'idem-postgres/nestjs'
import { insertBeforeRefusal, listening, options, port, routes, writeAndFail } from './shop.js'

class Shop {
    async breaks(request, response) {
        await insertBeforeRefusal(request.idem.client, request.body)
        writeAndFail(response.raw ?? response)
    }

    async events(request, response) {
        await insertBeforeRefusal(request.idem.client, request.body)
        response.header('Content-Type', 'text/event-stream')
        return 'data: 1\n\n'
    }
}
for (const [path, work] of Object.entries(routes)) {
    Shop.prototype[path.slice(1)] = async (request, response) => {
        const { status, headers, body } = await work(request.idem.client, request.body)
        response.status(status)
        for (const [name, value] of Object.entries(headers)) response.header(name, value)
        return Buffer.isBuffer(body) ? new StreamableFile(body, { type: headers['content-type'] }) : body
    }
}
Shop.prototype.own = async (request, response) => {
    const { status, body } = await routes['/own'](request.idem.client, request.body)
    response.status(status).send(body)
}
// What a TypeScript program writes with @.
for (const name of Object.getOwnPropertyNames(Shop.prototype).filter((method) => method !== 'constructor')) {
    Post(name)(Shop.prototype, name, Object.getOwnPropertyDescriptor(Shop.prototype, name))
    Req()(Shop.prototype, name, 0)
    Res({ passthrough: name !== 'own' })(Shop.prototype, name, 1)
}
Controller()(Shop)
class Application {}
Module({ controllers: [Shop] })(Application)

const adapter = process.env.PLATFORM === 'fastify' ? [new (await import('@nestjs/platform-fastify')).FastifyAdapter()] : []
const app = await NestFactory.create(Application, ...adapter, { rawBody: true, logger: false })
app.use((request, response, next) => {
    response.setHeader('X-Request-Id', 'r1')
    next()
})
app.useGlobalInterceptors(new IdempotencyInterceptor(options((request) => request.headers['x-client'])))
await app.listen(port, '127.0.0.1')
listening(app.getHttpServer())
