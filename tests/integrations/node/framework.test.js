// One framework, FRAMEWORK in the environment: what the cases of tests/conformance do not show of it; and a storm, which concerns the core, with Express.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { post, Server } from './server.js'
import { storm } from './storm.js'

const framework = process.env.FRAMEWORK
const servers = {
    express: ['express', { EXPRESS: 'express' }],
    express4: ['express', { EXPRESS: 'express4' }],
    'express-postgres.js': ['express', { DRIVER: 'postgres.js' }],
    fastify: ['fastify', {}],
    fastify4: ['fastify', { FASTIFY: 'fastify4' }],
    koa: ['koa', {}],
    hono: ['hono', {}],
    nestjs: ['nestjs', {}],
    'nestjs-fastify': ['nestjs', { PLATFORM: 'fastify' }],
}
const server = new Server(...servers[framework.replace(/-(pooled|portable)$/, '')])
const pool = new pg.Pool({ max: 2 })
let keys = 0
const newKey = () => `case ${++keys}`.replace(' ', '-')
const order = (item, rest = {}) => JSON.stringify({ item, ...rest })
const send = (path, options) => post(server.port, path, options)
const count = async (item) => (await pool.query('SELECT count(*)::int AS orders FROM orders WHERE item = $1', [item])).rows[0].orders
const code = ({ body }) => JSON.parse(body).code
const isProblem = (response) => assert.match(response.headers['content-type'], /^application\/problem\+json/)

before(() => server.start())
after(async () => {
    await server.kill()
    await pool.end()
})

const cases = {
    async 'bytes and an empty body are replayed as they are, and cookies are not'(name) {
        for (const kind of ['json', 'pdf', 'empty']) {
            const key = newKey(), body = order(`${name} ${kind}`, { kind })
            const first = await send('/orders', { key, body }), again = await send('/orders', { key: `"${key}"`, body })
            assert.deepEqual([again.status, again.headers['content-type'], again.headers['idempotent-replayed']], [first.status, first.headers['content-type'], 'true'], kind)
            assert.deepEqual(again.body, first.body, kind)
            if (kind === 'json') assert.deepEqual([first.headers['set-cookie'], again.headers['set-cookie']], [['session=1'], undefined])
            if (kind === 'pdf') assert.deepEqual(first.body.subarray(-7), Buffer.from([0, 255, 254, 128, 10, 13, 0]))
            if (kind === 'empty') assert.deepEqual([first.status, first.body.length], [204, 0])
        }
    },
    async 'a compressed response is refused, and rolled back'(name) {
        const response = await send('/orders', { key: newKey(), body: order(name, { kind: 'gzip' }) })
        assert.deepEqual([response.status, code(response)], [500, 'response_encoded'])
        assert.match(JSON.parse(response.body).detail, /compression belongs outside of the middleware/)
        assert.equal(await count(name), 0)
    },
    async 'a request without a client is 500, never in a shared scope'(name) {
        assert.equal((await send('/orders', { key: newKey(), body: order(name), headers: { 'X-Client': '' } })).status, 500)
        assert.equal(await count(name), 0)
    },
    async 'what a handler wrote before it failed is not sent'(name) {
        const key = newKey()
        for (let repetition = 0; repetition < 2; repetition++) {
            const response = await send('/breaks', { key, body: order(name) })
            assert.deepEqual([response.status, response.headers['idempotent-replayed']], [500, undefined])
            assert.doesNotMatch(response.body.toString(), /^partial/)
            assert.equal(Number(response.headers['content-length'] ?? response.body.length), response.body.length)
        }
        assert.equal(await count(name), 0)
    },
    async 'a handler that sends by itself gets replays and rejections like any other'(name) {
        const key = newKey()
        const first = await send('/own', { key, body: order(name) }), again = await send('/own', { key, body: order(name) })
        assert.deepEqual([first.status, again.status, again.headers['idempotent-replayed']], [201, 201, 'true'])
        assert.deepEqual(again.body, first.body)
        await rejected('/own', { key, body: order(`${name} 2`) }, 422, 'mismatch', `${name} 2`)
        assert.equal(await count(name), 1)
    },
    async 'a deadlock is rolled back, and 503 with Retry-After'(name) {
        const response = await send('/deadlock', { key: newKey(), body: order(name) })
        assert.deepEqual([response.status, response.headers['retry-after'], code(response)], [503, '1', 'serialization_failure'])
        isProblem(response)
        assert.equal(await count(name), 0)
    },
    async 'a success in a transaction that has failed is not sent'(name) {
        const response = await send('/swallows', { key: newKey(), body: order(name) })
        assert.equal(response.status, 500)
        assert.equal(await count(name), 0)
    },
    async 'events are refused, and rolled back'(name) {
        const events = await send('/events', { key: newKey(), body: order(name) })
        assert.deepEqual([events.status, code(events)], [500, 'streamed'])
        assert.match(JSON.parse(events.body).detail, /leave its route out/)
        assert.equal(await count(name), 0)
    },
    async 'header fields of earlier middleware are in every answer'(name) {
        const key = newKey(), body = order(name)
        const answers = [await send('/orders', { key, body }), await send('/orders', { key, body }), await send('/orders', { key, body: order(`${name} 2`) }), await send('/orders', { body })]
        assert.deepEqual(answers.map(({ status, headers }) => [status, headers['x-request-id']]), [[201, 'r1'], [201, 'r1'], [422, 'r1'], [400, 'r1']])
    },
    async 'the handler of 404 meets the middleware again, which leaves it alone'(name) {
        for (const key of ['nowhere', 'nowhere']) assert.equal((await send('/nowhere', { key, body: order(name) })).status, 404)
    },
    async 'text/plain is a body'(name) {
        const key = newKey(), options = { key, body: name, headers: { 'Content-Type': 'text/plain' } }
        assert.equal((await send('/text', options)).status, 201)
        assert.equal((await send('/text', options)).headers['idempotent-replayed'], 'true')
        assert.equal((await send('/text', { ...options, body: 'other' })).status, 422)
    },
    'a body over the limit is 413'(name) {
        return rejected('/orders', { key: newKey(), body: order(name, { fill: 'x'.repeat(70_000) }) }, 413, 'body_too_large', name)
    },
    async 'a handler that answers nothing, 204, is committed though its client went away'(name) {
        const key = newKey(), body = order(name, { kind: 'empty', gate: 1 }), open = await closeGate()
        await assert.rejects(send('/orders', { key, body, cut: handlerIsAtGate() }))
        await open()
        let response
        do {
            await sleep(200)
            response = await send('/orders', { key, body })
        } while (response.status === 409)
        assert.deepEqual([response.status, response.headers['idempotent-replayed']], [204, 'true'])
        assert.equal(await count(name), 1)
    },
}

/** A handler that is given `gate: 1` waits until the function that this returns is called. */
async function closeGate() {
    const client = await pool.connect()
    await client.query('BEGIN; SELECT pg_advisory_xact_lock(1)')
    return async () => {
        await client.query('COMMIT')
        client.release()
    }
}

async function handlerIsAtGate() {
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`
    while ((await pool.query(waiting)).rows.length === 0) await sleep(20)
}

async function rejected(path, options, status, expected, item) {
    const response = await send(path, options)
    assert.deepEqual([response.status, code(response)], [status, expected])
    isProblem(response)
    if (item) assert.equal(await count(item), 0)
}

for (const [name, run] of Object.entries(cases)) test(`${framework}: ${name}`, { timeout: 20_000 }, (t) => run(name, t))

if (framework.startsWith('express')) {
    test(`${framework}: a storm of requests has one effect for each key`, async () => {
        const report = await storm(server, pool, { requests: Number(process.env.IDEM_REQUESTS ?? 1000), parallel: 16, kills: 3 })
        console.log(`# ${framework}: ${JSON.stringify(report)}`)
    })
}
