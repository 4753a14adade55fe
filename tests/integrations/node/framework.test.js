// One framework, FRAMEWORK in the environment: the cases of the draft, then a storm.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { hasOmit, post, Server } from './server.js'
import { storm } from './storm.js'

const framework = process.env.FRAMEWORK
const servers = {
    express: ['express', { EXPRESS: 'express' }],
    express4: ['express', { EXPRESS: 'express4' }],
    'express-postgres.js': ['express', { DRIVER: 'postgres.js' }],
    fastify: ['fastify', {}],
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
    'a POST without a key is 400'(name) {
        return rejected('/orders', { body: order(name) }, 400, 'key_missing', name)
    },
    async 'a malformed key is 400: empty, a list, two header lines'(name) {
        for (const given of ['', 'a, b', ['"a"', '"b"'], '"a']) await rejected('/orders', { keys: given, body: order(name) }, 400, 'key_malformed', name)
    },
    async 'a key with another body or route is 422'(name) {
        const key = newKey()
        assert.equal((await send('/orders', { key, body: order(name) })).status, 201)
        await rejected('/orders', { key, body: order(`${name} 2`) }, 422, 'mismatch', `${name} 2`)
        await rejected('/declined', { key, body: order(name) }, 422, 'mismatch')
        assert.equal(await count(name), 1)
    },
    async 'a repetition while the first is at work is 409 with Retry-After'(name) {
        const key = newKey(), body = order(name, { gate: 1 }), open = await closeGate()
        const first = send('/orders', { key, body })
        await handlerIsAtGate()
        const busy = await send('/orders', { key, body })
        await open()
        const done = await first
        assert.equal(done.status, 201)
        assert.deepEqual([busy.status, busy.headers['retry-after'], code(busy)], [409, '1', 'in_flight'])
        isProblem(busy)
        assert.equal(await count(name), 1)
    },
    async 'a repetition is replayed byte for byte: JSON, PDF, an empty 204'(name) {
        for (const kind of ['json', 'pdf', 'empty']) {
            const key = newKey(), body = order(`${name} ${kind}`, { kind })
            const first = await send('/orders', { key, body })
            const again = await send('/orders', { key: `"${key}"`, body })
            assert.deepEqual([again.status, again.headers['content-type'], again.headers['content-encoding'], again.headers.location],
                [first.status, first.headers['content-type'], first.headers['content-encoding'], first.headers.location], kind)
            assert.deepEqual(again.body, first.body, kind)
            assert.deepEqual([first.headers['idempotent-replayed'], again.headers['idempotent-replayed']], [undefined, 'true'])
            assert.equal(await count(`${name} ${kind}`), 1)
            if (kind === 'json') {
                assert.match(first.body.toString(), /^\{"10":"x","zebra":\d+,"apple":\[\{"b":1,"a":2\}\],"Mango":1.5,/)
                assert.deepEqual([first.headers['set-cookie'], again.headers['set-cookie']], [['session=1'], undefined])
            }
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
    async 'the keys of two clients do not meet'(name) {
        const key = newKey(), body = order(name)
        for (const client of ['a', 'b']) {
            assert.equal((await send('/orders', { key, body, headers: { 'X-Client': client } })).headers['idempotent-replayed'], undefined)
        }
        assert.equal(await count(name), 2)
    },
    async 'a request without a client is 500, never in a shared scope'(name) {
        assert.equal((await send('/orders', { key: newKey(), body: order(name), headers: { 'X-Client': '' } })).status, 500)
        assert.equal(await count(name), 0)
    },
    async 'an error that the handler sends is stored'(name) {
        const key = newKey(), body = order(name)
        const first = await send('/declined', { key, body }), again = await send('/declined', { key, body })
        assert.deepEqual([first.status, again.status, again.headers['idempotent-replayed']], [402, 402, 'true'])
        assert.deepEqual(again.body, first.body)
        assert.equal(await count(name), 1)
    },
    async 'a 503 of the handler is stored as any response, unless the scope does not store it'(name) {
        const key = newKey(), body = order(name)
        const first = await send('/unavailable', { key, body }), again = await send('/unavailable', { key, body })
        assert.deepEqual([first.status, again.status, again.headers['idempotent-replayed']], [503, 503, 'true'])
        assert.equal(await count(name), 1)
        await pool.query(`SELECT idem.idem_http_scope_set('picky', unstored_statuses => '{5xx}')`)
        const unstored = { key: newKey(), body: order(`${name} picky`), headers: { 'X-Client': 'picky' } }
        for (let repetition = 0; repetition < 2; repetition++) {
            const response = await send('/unavailable', unstored)
            assert.deepEqual([response.status, JSON.parse(response.body), response.headers['idempotent-replayed']], [503, { status: 503 }, undefined])
        }
        assert.equal(await count(`${name} picky`), 0)
    },
    async 'a handler that throws is rolled back, and the framework answers'(name) {
        for (const [path, status] of [['/fails', 500], ['/refused', 404]]) {
            const key = newKey()
            for (let repetition = 0; repetition < 2; repetition++) {
                const response = await send(path, { key, body: order(name) })
                assert.deepEqual([response.status, response.headers['idempotent-replayed']], [status, undefined], path)
            }
        }
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
    async 'a stream is stored up to maxResponse; events are refused, and rolled back'(name) {
        const key = newKey(), body = order(name)
        const first = await send('/stream', { key, body }), again = await send('/stream', { key, body })
        assert.deepEqual([first.status, first.body.toString(), first.headers['idempotent-replayed']], [first.status, 'abc', undefined])
        assert.deepEqual([again.status, again.body.toString(), again.headers['idempotent-replayed']], [first.status, 'abc', 'true'])
        assert.equal(await count(name), 1)
        const events = await send('/events', { key: newKey(), body: order(`${name} events`) })
        assert.deepEqual([events.status, code(events)], [500, 'streamed'])
        assert.match(JSON.parse(events.body).detail, /leave its route out/)
        assert.equal(await count(`${name} events`), 0)
    },
    async 'a response over maxResponse is sent whole, and not stored'(name, t) {
        if (!(await hasOmit(pool))) return t.skip('idem_http_complete has no argument omit')
        const key = newKey(), body = order(name)
        const first = await send('/large', { key, body }), again = await send('/large', { key, body })
        assert.deepEqual([first.status, first.body.length, first.body.subarray(-3).toString()], [first.status, 300_003, 'end'])
        assert.deepEqual([again.status, again.body.length, again.headers['idempotent-replayed']], [first.status, 0, 'true'])
        assert.equal(await count(name), 1)
    },
    async 'header fields of earlier middleware are in every answer'(name) {
        const key = newKey(), body = order(name)
        const answers = [await send('/orders', { key, body }), await send('/orders', { key, body }), await send('/orders', { key, body: order(`${name} 2`) }), await send('/orders', { body })]
        assert.deepEqual(answers.map(({ status, headers }) => [status, headers['x-request-id']]), [[201, 'r1'], [201, 'r1'], [422, 'r1'], [400, 'r1']])
    },
    async 'the middleware mounted twice, or met again by the handler of 404, claims once'(name) {
        const key = newKey(), body = order(name)
        const first = await send('/twice', { key, body }), again = await send('/twice', { key, body })
        assert.deepEqual([first.status, again.status, again.headers['idempotent-replayed']], [201, 201, 'true'])
        assert.equal(await count(name), 1)
        for (const key of ['nowhere', 'nowhere']) assert.equal((await send('/nowhere', { key, body })).status, 404)
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
    async 'the work of a client that goes away is committed, and replayed'(name) {
        for (const [kind, status] of [['json', 201], ['empty', 204]]) {
            const item = `${name} ${kind}`, key = newKey(), body = order(item, { kind, gate: 1 }), open = await closeGate()
            await assert.rejects(send('/orders', { key, body, cut: handlerIsAtGate() }))
            await open()
            let response
            do {
                await sleep(200)
                response = await send('/orders', { key, body })
            } while (response.status === 409)
            assert.deepEqual([response.status, response.headers['idempotent-replayed']], [status, 'true'])
            assert.equal(await count(item), 1)
        }
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

test(`${framework}: a storm of requests has one effect for each key`, async () => {
    const report = await storm(server, pool, { requests: Number(process.env.IDEM_REQUESTS ?? 1000), parallel: 16, kills: 3 })
    console.log(`# ${framework}: ${JSON.stringify(report)}`)
})
