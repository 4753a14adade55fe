// The reference app of `idem http-test --reference` for NestJS, on Express or what PLATFORM names: fastify.
import 'reflect-metadata'
import { Readable } from 'node:stream'
import { Controller, Get, HttpException, Module, Post, Put, Query, Req, Res, StreamableFile, UseInterceptors } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { IdempotencyInterceptor } from 'idem-postgres/nestjs'
import { effects, hooks, late, listening, optionsOf, port, stream, underLease, work } from './reference.js'

const pathOf = (request) => request.originalUrl.split('?')[0]
const [options, leasedOptions] = optionsOf((request) => [request.headers.authorization, request.method, pathOf(request)])
const idempotent = new IdempotencyInterceptor(options), leased = new IdempotencyInterceptor(leasedOptions)

const errorOf = (status) => new HttpException('thrown', status)
const json = (act) => async (request, response) => {
    const { status, headers, body } = await act(request.idem, request.body, errorOf)
    response.status(status)
    for (const [name, value] of Object.entries(headers)) response.header(name, value)
    return body
}

class Shop {
    effects(key) {
        return effects(key)
    }
}
// What a TypeScript program writes with @.
function route(name, handler, ...decorators) {
    Shop.prototype[name] = handler
    for (const decorate of decorators) decorate(Shop.prototype, name, Object.getOwnPropertyDescriptor(Shop.prototype, name))
    Req()(Shop.prototype, name, 0)
    Res({ passthrough: true })(Shop.prototype, name, 1)
}
Get('effects')(Shop.prototype, 'effects', Object.getOwnPropertyDescriptor(Shop.prototype, 'effects'))
Query('key')(Shop.prototype, 'effects', 0)
route('order', json(work), Post('orders'), UseInterceptors(idempotent))
route('change', json(work), Put('orders'), UseInterceptors(idempotent))
route('other', json(work), Post('other'), UseInterceptors(idempotent))
route('late', json(late), Post('late'), UseInterceptors(idempotent))
route('double', json(work), Post('double'), UseInterceptors(idempotent, idempotent))
route('leased', json(underLease), Post('leased'), UseInterceptors(leased))
route('stream', async ({ idem }) => new StreamableFile(Readable.from(await stream(idem)), { type: 'text/plain' }), Post('stream'), UseInterceptors(idempotent))
for (const [name, press] of Object.entries(hooks)) {
    route(name, async (request, response) => {
        await press()
        response.status(204)
    }, Post(`hooks/${name}`))
}
Controller()(Shop)
class Application {}
Module({ controllers: [Shop] })(Application)

const adapter = process.env.PLATFORM === 'fastify' ? [new (await import('@nestjs/platform-fastify')).FastifyAdapter()] : []
const app = await NestFactory.create(Application, ...adapter, { rawBody: true, logger: false })
await app.listen(port, '127.0.0.1')
listening(app.getHttpServer())
