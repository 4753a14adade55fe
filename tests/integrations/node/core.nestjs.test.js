// @Idempotent() of NestJS: its options are added to those that a module provides.

import 'reflect-metadata'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Controller, Module, Post, Req } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { IDEMPOTENCY, Idempotent } from 'idem-postgres/nestjs'
import pg from 'pg'
import { post } from './server.js'

const pool = new pg.Pool({ max: 4 })
after(() => pool.end())

/** A controller of these routes: by name, the decorators of each. */
function controller(path, routes, ...decorators) {
    class Routes {}
    for (const [name, own] of Object.entries(routes)) {
        Routes.prototype[name] = ({ idem }) => ({ key: idem?.key ?? null, scope: idem?.scope ?? null, isLeased: idem?.fence !== undefined })
        for (const decorate of [Post(name), ...own]) decorate(Routes.prototype, name, Object.getOwnPropertyDescriptor(Routes.prototype, name))
        Req()(Routes.prototype, name, 0)
    }
    for (const decorate of [Controller(path), ...decorators]) decorate(Routes)
    return Routes
}

async function withModule(metadata, use) {
    class Application {}
    Module(metadata)(Application)
    const app = await NestFactory.create(Application, { rawBody: true, logger: false, abortOnError: false })
    try {
        await app.listen(0, '127.0.0.1')
        await use(app.getHttpServer().address().port)
    } finally {
        await app.close()
    }
}

test('the decorator of a route, of a controller, with options of its own and without', async () => {
    const orders = controller('orders', { plain: [], order: [Idempotent()], pay: [Idempotent({ lease: '30 s' })] })
    const other = controller('other', { order: [] }, Idempotent({ scope: () => 'nest other' }))
    const provider = { provide: IDEMPOTENCY, useFactory: () => ({ database: pool, scope: () => 'nest' }) }
    await withModule({ controllers: [orders, other], providers: [provider] }, async (port) => {
        const send = async (path, key) => {
            const { status, headers, body } = await post(port, path, { key, body: '{}' })
            return [status, headers['idempotent-replayed'], JSON.parse(body)]
        }
        const handled = (key, scope, isLeased) => ({ key, scope, isLeased })
        assert.deepEqual(await send('/orders/plain', 'n1'), [201, undefined, handled(null, null, false)])
        for (const marker of [undefined, 'true']) {
            assert.deepEqual(await send('/orders/order', 'n1'), [201, marker, handled('n1', 'nest', false)])
            assert.deepEqual(await send('/orders/pay', 'n2'), [201, marker, handled('n2', 'nest', true)])
            assert.deepEqual(await send('/other/order', 'n1'), [201, marker, handled('n1', 'nest other', false)])
        }
        assert.equal((await send('/orders/order'))[0], 400)
    })
})

test('without a provider the options of the decorator are all, and a missing one fails at the start', async () => {
    const whole = controller('', { order: [Idempotent({ database: pool, scope: () => 'nest whole' })] })
    await withModule({ controllers: [whole] }, async (port) => {
        for (const marker of [undefined, 'true']) assert.equal((await post(port, '/order', { key: 'n1' })).headers['idempotent-replayed'], marker)
    })
    await assert.rejects(withModule({ controllers: [controller('', { order: [Idempotent()] })] }), TypeError)
})
