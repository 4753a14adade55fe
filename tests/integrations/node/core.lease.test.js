// Leased mode: the claim is committed, and the handler runs outside of a transaction.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { idempotency } from 'idem-postgres/express'
import pg from 'pg'
import { post } from './server.js'

const lease = 3000
const pool = new pg.Pool({ max: 4 })
const rows = async (text, parameters) => (await pool.query(text, parameters)).rows
const attempts = [], outcomes = []
let server, proceed, atWork
const waitForProceed = () => new Promise((resolve) => {
    proceed = resolve
    atWork()
})
const reached = () => new Promise((resolve) => { atWork = resolve })

const handlers = {
    async charge(req, res) {
        const { idem } = req
        const steps = await idem.steps()
        attempts.push({ key: idem.key, fence: idem.fence, steps })
        if (!steps.charge) {
            await idem.step('charge')
            await idem.step('charge', { charge: 'ch_1' })
        }
        idem.withResponse((client) => client.query('INSERT INTO orders (item) VALUES ($1)', [req.query.item]))
        if (req.query.fails && attempts.length === 1) throw new Error('after the charge')
        if (req.query.waits) await waitForProceed()
        res.status(201).json({ zebra: 1, apple: 2 })
    },
    async unavailable(req, res) {
        req.idem.withResponse((client) => client.query(`INSERT INTO orders (item) VALUES ('unavailable')`))
        res.status(503).end()
    },
    async picky(req, res) {
        req.idem.withResponse((client) => client.query('INSERT INTO orders (item) VALUES ($1)', [`picky ${req.query.status}`]))
        res.status(Number(req.query.status)).send('x'.repeat(500))
    },
    async mistakes(req, res) {
        await assert.rejects(req.idem.step(), TypeError)
        assert.throws(() => req.idem.withResponse(), TypeError)
        res.status(201).end()
    },
    async release(req, res) {
        await req.idem.release()
        res.status(402).json({ error: 'declined' })
    },
}
before(async () => {
    const app = express()
    const idempotent = idempotency({ database: pool, scope: () => 'lease', lease: `${lease} ms`, logger: { info() {}, error() {} }, onOutcome: (outcome) => outcomes.push(outcome) })
    for (const [name, handler] of Object.entries(handlers)) app.post(`/${name}`, idempotent(handler))
    app.use((error, req, res, next) => res.status(500).end())
    server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
})
after(async () => {
    server.closeAllConnections()
    server.close()
    await pool.end()
})
const send = (path, key) => post(server.address().port, path, { key })
const count = async (item) => (await rows('SELECT count(*)::int AS orders FROM orders WHERE item = $1', [item]))[0].orders

test('a repetition is 409 for as long as the handler works, beyond the lease, then a replay', { timeout: 120_000 }, async () => {
    const working = reached()
    const first = send('/charge?item=beat&waits=1', 'beat')
    await working
    await sleep(lease * 1.5)
    const busy = await send('/charge?item=beat&waits=1', 'beat')
    assert.deepEqual([busy.status, JSON.parse(busy.body).code], [409, 'in_flight'])
    assert.ok(Number(busy.headers['retry-after']) <= lease / 1000)
    proceed()
    assert.equal((await first).status, 201)
    const again = await send('/charge?item=beat&waits=1', 'beat')
    assert.deepEqual([again.status, again.headers['idempotent-replayed'], again.body], [201, 'true', (await first).body])
    assert.equal(await count('beat'), 1)
})

test('a failure releases the key, and the next attempt finds the steps', async () => {
    attempts.length = outcomes.length = 0
    assert.equal((await send('/charge?item=steps&fails=1', 'steps')).status, 500)
    assert.equal((await send('/charge?item=steps&fails=1', 'steps')).status, 201)
    assert.equal((await send('/charge?item=steps&fails=1', 'steps')).headers['idempotent-replayed'], 'true')
    assert.deepEqual(outcomes.map(({ attempt, fence }) => [attempt, fence]), [[1, attempts[0].fence], [2, attempts[1].fence], [undefined, undefined]])
    assert.deepEqual(attempts.map(({ steps }) => steps), [{}, { charge: { charge: 'ch_1' } }])
    assert.equal(typeof attempts[0].fence, 'bigint')
    assert.ok(attempts[1].fence > attempts[0].fence)
    assert.equal(await count('steps'), 1)
})

test('the handler gets the key without quotes, and steps and release find it', async () => {
    attempts.length = 0
    const field = '"a \\"b\\", \\\\c"'
    assert.equal((await send('/charge?item=quoted&fails=1', field)).status, 500)
    assert.equal((await send('/charge?item=quoted&fails=1', `${field};v=1`)).status, 201)
    assert.equal((await send('/charge?item=quoted&fails=1', field)).headers['idempotent-replayed'], 'true')
    assert.deepEqual(attempts.map(({ key, steps }) => [key, steps]), [['a "b", \\c', {}], ['a "b", \\c', { charge: { charge: 'ch_1' } }]])
})

test('a step without a name and work that is no function raise a TypeError', async () => {
    assert.equal((await send('/mistakes', 'mistakes')).status, 201)
})

test('a status that the scope does not store releases the key', async () => {
    await pool.query(`SELECT idem.idem_http_scope_set('lease', unstored_statuses => '{503}')`)
    for (let repetition = 0; repetition < 2; repetition++) {
        const response = await send('/unavailable', 'unavailable')
        assert.deepEqual([response.status, response.headers['idempotent-replayed']], [503, undefined])
    }
    await pool.query(`SELECT idem.idem_scope_drop('lease')`)
    assert.equal(await count('unavailable'), 0)
})

test('a status that the scope does not store drops the work of withResponse; a response that is too large does not', async () => {
    await pool.query(`SELECT idem.idem_http_scope_set('lease', unstored_statuses => '{429}')`)
    await pool.query(`SELECT idem.idem_scope_set('lease', max_response_size => 200)`)
    for (let repetition = 0; repetition < 2; repetition++) {
        const response = await send('/picky?status=429', 'picky')
        assert.deepEqual([response.status, response.headers['idempotent-replayed']], [429, undefined])
    }
    assert.deepEqual([(await send('/picky?status=201', 'large')).status, (await send('/picky?status=201', 'large')).headers['idempotent-replayed']], [201, 'true'])
    await pool.query(`SELECT idem.idem_scope_drop('lease')`)
    assert.deepEqual([await count('picky 429'), await count('picky 201')], [0, 1])
})

test('release() frees the key at once', async () => {
    for (let repetition = 0; repetition < 2; repetition++) {
        const response = await send('/release', 'release')
        assert.deepEqual([response.status, response.headers['idempotent-replayed']], [402, undefined])
    }
})

test('a holder that was replaced stores nothing', async () => {
    attempts.length = 0
    const working = reached()
    const first = send('/charge?item=stale&waits=1', 'stale')
    await working
    await pool.query(`UPDATE idem.idem_keys SET lease_until = clock_timestamp() - interval '1 s' WHERE key = 'stale'`)
    await pool.query(`SELECT idem.idem_resolve('stale', 'completed', '{"by": "an operator"}', scope => 'lease')`)
    proceed()
    const response = await first
    assert.deepEqual([response.status, response.headers['retry-after'], JSON.parse(response.body).code], [503, '1', 'lease_lost'])
    assert.equal(await count('stale'), 0)
    assert.deepEqual(JSON.parse((await send('/charge?item=stale&waits=1', 'stale')).body), { by: 'an operator' })
})
