// @node-idempotency/nestjs, as its README has it, with its own store in memory: for the table of docs/conformance.md.
require('reflect-metadata')
const { Module, Controller, Post, Put, Get, Req, Res, Query } = require('@nestjs/common')
const { NestFactory } = require('@nestjs/core')
const { NodeIdempotencyModule, Idempotent } = require('@node-idempotency/nestjs')

const counts = new Map()
let last = 0
class Orders {
    async work(req, res) {
        const key = req.get('Idempotency-Key')?.replaceAll('"', '')
        if (req.body.pause) await new Promise((resolve) => setTimeout(resolve, req.body.pause))
        counts.set(key, (counts.get(key) ?? 0) + 1)
        const id = ++last
        res.status(req.body.status ?? 201).location(`/orders/${id}`)
        return { id, item: req.body.item }
    }
    async change(req, res) { return this.work(req, res) }
    async other(req, res) { return this.work(req, res) }
    effects(key) { return { count: counts.get(key) ?? 0 } }
}
// Decorators by hand: this is JavaScript.
const decorate = (name, route, parameters) => {
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, name)
    parameters.forEach((parameter, at) => parameter(Orders.prototype, name, at))
    for (const each of route) each(Orders.prototype, name, descriptor)
    Object.defineProperty(Orders.prototype, name, descriptor)
}
const both = [Req(), Res({ passthrough: true })]
decorate('work', [Post('orders'), Idempotent()], both)
decorate('change', [Put('orders'), Idempotent()], both)
decorate('other', [Post('other'), Idempotent()], both)
decorate('effects', [Get('effects')], [Query('key')])
Controller()(Orders)
class App {}
Module({ imports: [NodeIdempotencyModule.forRootAsync({ storage: { adapter: 'memory' }, enforceIdempotency: true })], controllers: [Orders] })(App)

NestFactory.create(App, { logger: false }).then(async (app) => {
    await app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
    console.log(app.getHttpServer().address().port)
})
