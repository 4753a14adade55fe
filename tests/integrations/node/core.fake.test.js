// The fake for unit tests: each scenario gives the same on PostgreSQL and on the fake.

import assert from 'node:assert/strict'
import { once as event } from 'node:events'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { fate, Idem, leased, once } from 'idem-postgres'
import { idempotency } from 'idem-postgres/express'
import { fakeDatabase } from 'idem-postgres/fake'
import pg from 'pg'
import { post } from './server.js'

const pool = new pg.Pool({ max: 4 })
after(() => pool.end())
const scope = 'fake'
const quick = { scope, wait: '0 s' }
const told = (promise) => promise.then((value) => value, (error) => `${error.constructor.name} ${error.sqlstate ?? error.step ?? error.message}`)
const boom = async () => { throw new Error('boom') }

const scenarios = {
    once: async (db) => [
        await told(once(db, 'o1', quick, async () => ({ id: 1 }))),
        await told(once(db, 'o1', quick, boom)),
        await told(once(db, 'o2', quick, boom)),
        await told(once(db, 'o2', quick, async () => undefined)),
        await told(once(db, 'o2', quick, boom)),
        await told(once(db, 'o3', { ...quick, fingerprint: Buffer.from('a') }, async () => 'a\u0000')),
        await told(once(db, 'o3', { ...quick, fingerprint: Buffer.from('b') }, boom)),
        await told(once(db, 'o3', { ...quick, fingerprint: Buffer.from('a') }, boom)),
        await told(once(db, 'o3', { ...quick, scope: 'other' }, async () => 3)),
        await told(once(db, 'o4', quick, async ({ idem }) => [await idem.claim('inside', { scope }), await idem.claim('inside', { scope }), await idem.tryClaim('inside', { scope })])),
    ],
    leased: async (db) => {
        const acts = []
        const charge = (w, fails) => w.step('charge', async ({ key }) => {
            acts.push(key)
            if (fails) throw new Error('the gateway fails')
            return { id: acts.length }
        }, () => fate.notDone())
        return [
            await told(leased(db, 'l1', quick, (w) => charge(w, true))),
            await told(leased(db, 'l1', quick, async (w) => { await charge(w); throw new Error('after the step') })),
            await told(leased(db, 'l1', quick, async (w) => [w.attempt, w.steps, await charge(w), await w.write('row', async () => ({ row: 1 }))])),
            await told(leased(db, 'l1', quick, boom)),
            await told(leased(db, 'l2', { ...quick, lease: '400 ms', onError: 'keep' }, boom)),
            await told(leased(db, 'l2', quick, boom)),
            await sleep(500),
            await told(leased(db, 'l2', quick, async (w) => w.attempt)),
            await told(leased(db, 'l3', quick, async (w) => { w.steps.odd = null; return w.step('odd', boom, () => fate.unknown()) })),
            acts,
        ]
    },
    functions: async (db) => {
        const idem = new Idem(db)
        const first = await idem.begin('f1', { scope, lease: '30 s', owner: 'a' })
        const ticket = ({ outcome, attempt, steps, response }) => ({ outcome, attempt, steps, response })
        const brief = await idem.begin('f4', { scope, lease: '100 ms', owner: 'a' })
        await sleep(200)
        const again = await idem.begin('f4', { scope, lease: '30 s', owner: 'a' })
        return [
            ticket(again), again.fence === brief.fence, ticket(await idem.begin('f4', { scope, lease: '30 s', owner: 'b' })),
            ticket(first), ticket(await idem.begin('f1', { scope, lease: '30 s', owner: 'a' })), ticket(await idem.begin('f1', { scope, lease: '30 s', owner: 'b' })),
            await idem.step('f1', first.fence, 's', undefined, { scope }), await idem.step('f1', first.fence, 's', { a: 1 }, { scope }),
            await idem.step('f1', first.fence, 's', { a: 1 }, { scope }), await told(idem.step('f1', first.fence, 's', { a: 2 }, { scope })), await told(idem.complete('f1', { scope, fence: first.fence + 1n })),
            await idem.release('f1', first.fence, { scope }), await told(idem.renew('f1', first.fence, { scope })),
            ticket(await idem.begin('f1', { scope, lease: '30 s', owner: 'b' })), (await idem.lookup('f1', { scope })).state, await idem.lookup('f2', { scope }),
            await idem.claim('f3', { scope }), await idem.claim('f3', { scope }), await told(idem.mustClaim('f3', { scope })), await idem.tryClaim('f3', { scope }),
        ]
    },
    middleware: async (database) => {
        const app = express(), logger = { info() {}, error() {} }, answers = []
        let ran = 0
        const handler = (req, res) => {
            ran++
            if (req.query.fails) throw Object.assign(new Error('thrown'), { status: 418 })
            res.status(201).set({ 'Set-Cookie': 's=1', Location: '/1' }).json({ ran })
        }
        app.all('/', idempotency({ database, scope: () => 'fake http', logger })(handler))
        app.all('/leased', idempotency({ database, scope: () => 'fake http', logger, lease: '30 s' })(handler))
        app.use((error, req, res, next) => res.status(error.status).end())
        const server = app.listen(0, '127.0.0.1')
        await event(server, 'listening')
        for (const [key, path, options] of [
            ['a', '/'], ['"a"', '/'], ['a', '/', { body: '{}' }], [undefined, '/'], ['a, b', '/'], ['"', '/'], [undefined, '/', { method: 'PUT' }],
            ['b', '/?fails=1'], ['b', '/?fails=1'], ['c', '/leased'], ['c', '/leased'], ['d', '/leased?fails=1'], ['d', '/leased?fails=1'],
        ]) {
            const { status, headers, body } = await post(server.address().port, path, { key, ...options })
            answers.push([status, headers['content-type'], headers['set-cookie'], headers.location, headers['idempotent-replayed'], headers['retry-after'],
                status < 400 ? body.toString() : body.length && JSON.parse(body).code])
        }
        server.closeAllConnections()
        server.close()
        return answers
    },
}

for (const [name, run] of Object.entries(scenarios)) {
    test(`${name}: the fake does what PostgreSQL does`, { timeout: 30_000 }, async () => assert.deepEqual(await run(fakeDatabase()), await run(pool)))
}

test('a key in use is in flight at once, a handle is dead after its transaction, and clear() forgets', async () => {
    const client = { query: async () => ({ rows: [{ id: 7 }] }) }
    const db = fakeDatabase({ client })
    let late
    const first = await once(db, 'k', quick, async (call) => {
        late = call.client
        await assert.rejects(new Idem(db).claim('k', { scope }), /in flight/)
        return (await call.client.query('INSERT')).rows[0].id
    })
    assert.deepEqual(first, { value: 7, replayed: false, omitted: false, stored: true })
    assert.throws(() => late.query('INSERT'), /the transaction is over/)
    db.clear()
    assert.equal((await once(db, 'k', quick, async () => 8)).value, 8)
    await assert.rejects(new Idem(db).allow('rate', 1, 1), /the fake has no idem_allow/)
})
