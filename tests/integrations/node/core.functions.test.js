// The typed functions, on node-postgres and on postgres.js.

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { AlreadyDone, Idem, IdemError, InFlight, InvalidTransition, sqlstate, StaleFence } from 'idem-postgres'
import pg from 'pg'
import postgres from 'postgres'

const pool = new pg.Pool({ max: 4 })
const sql = postgres({ host: process.env.PGHOST, port: Number(process.env.PGPORT), max: 4, onnotice: () => {} })
before(async () => {
    await pool.query(await readFile(`${process.env.SHARED}/traps.sql`, 'utf8'))
    await pool.query('CREATE TABLE parcels (id int PRIMARY KEY, state text NOT NULL)')
    await pool.query(`SELECT idem.idem_machine_define('parcel', '{"initial": ["new"], "transitions": {"new": ["sent"]}}')`)
    await pool.query(`SELECT idem.idem_machine_attach('parcels', 'state', 'parcel')`)
})
after(async () => {
    await pool.end()
    await sql.end()
})

const drivers = {
    pg: { handle: pool, transaction: async (work) => {
        const client = await pool.connect()
        await client.query('BEGIN')
        await work(new Idem(client)).finally(() => client.query('ROLLBACK'))
        client.release()
    } },
    'postgres.js': { handle: sql, transaction: (work) => sql.begin(async (tx) => {
        await work(new Idem(tx))
        throw new Error('undone')
    }).catch((error) => assert.equal(error.message, 'undone')) },
}

for (const [driver, { handle, transaction }] of Object.entries(drivers)) {
    const idem = new Idem(handle)
    const name = (text) => `${driver} ${text}`

    test(`${driver}: claim, claimMany, tryClaim`, async () => {
        assert.deepEqual([await idem.claim(name('a')), await idem.claim(name('a')), await idem.claim(name('a'), { scope: 'other', ttl: '1 min' })], [true, false, true])
        assert.deepEqual(await idem.claimMany([name('a'), name('b "\\ {,}'), name('b "\\ {,}')]), [name('b "\\ {,}')])
        assert.deepEqual([await idem.tryClaim(name('c')), await idem.tryClaim(name('c'))], ['acquired', 'completed'])
    })

    test(`${driver}: a claim belongs to the transaction on which it is called`, async () => {
        await transaction(async (inside) => assert.equal(await inside.claim(name('undone')), true))
        assert.equal(await idem.claim(name('undone')), true)
    })

    test(`${driver}: begin, renew, step, complete, lookup, release`, async () => {
        const fingerprint = Buffer.from([1, 2, 255, 0])
        const ticket = await idem.begin(name('work'), { lease: '30 s', owner: 'me', fingerprint })
        assert.deepEqual([ticket.outcome, typeof ticket.fence, ticket.attempt, ticket.leaseUntil instanceof Date], ['acquired', 'bigint', 1, true])
        assert.equal((await idem.begin(name('work'), { lease: '30 s', owner: 'me', fingerprint })).fence, ticket.fence)
        assert.equal((await idem.begin(name('work'), { lease: '30 s', fingerprint: Buffer.from('other') })).outcome, 'mismatch')
        assert.equal((await idem.begin(name('work'))).outcome, 'in_flight')
        assert.ok((await idem.renew(name('work'), ticket.fence, { lease: '1 min' })) > ticket.leaseUntil)
        assert.equal(await idem.step(name('work'), ticket.fence, 'charge'), true)
        assert.equal(await idem.step(name('work'), String(ticket.fence), 'charge', { id: 'ch_1' }), true)
        await assert.rejects(idem.complete(name('work'), { fence: ticket.fence + 1n }), (error) =>
            error instanceof StaleFence && error.sqlstate === 'ID001' && sqlstate(error.cause) === 'ID001')
        await assert.rejects(idem.claim(name('work')), InFlight)
        assert.equal(await idem.complete(name('work'), { response: ['a', { b: null }], statusCode: 201, fence: ticket.fence }), true)
        const info = await idem.lookup(name('work'))
        assert.deepEqual([info.state, info.statusCode, info.response, info.steps, info.createdAt instanceof Date], ['completed', 201, ['a', { b: null }], { charge: { id: 'ch_1' } }, true])
        assert.equal(await idem.lookup(name('never')), null)
        const { fence } = await idem.begin(name('given back'), { lease: '30 s' })
        assert.equal(await idem.release(name('given back'), fence), true)
    })

    test(`${driver}: execute`, async () => {
        const insert = 'INSERT INTO orders (item) VALUES ($1) RETURNING item'
        assert.deepEqual((await idem.execute(name('execute'), insert, [name('item')])).response, [{ item: name('item') }])
        assert.deepEqual((await idem.execute(name('execute'), insert, [name('item')])).outcome, 'completed')
    })

    test(`${driver}: a lock is held beyond its ttl, and its signal tells that it is lost`, async () => {
        const lock = await idem.lock(name('lock'), { lease: '3 s' })
        assert.equal(typeof lock.fence, 'bigint')
        await sleep(4500)
        assert.equal(await idem.lock(name('lock')), null)
        await transaction(async (inside) => assert.equal(await inside.assertFence(name('lock'), lock.fence), true))
        const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve))
        assert.equal(await idem.unlock(name('lock'), lock.fence), true)
        await lost
        assert.equal(await lock.unlock(), false)
        await transaction((inside) => assert.rejects(inside.assertFence(name('lock'), lock.fence), StaleFence)).catch((error) => assert.equal(sqlstate(error), 'ID001'))
    })

    test(`${driver}: tokens`, async () => {
        const token = await idem.issueToken({ subject: 'alice', ttl: '1 min' })
        assert.deepEqual([await idem.redeemToken(token), await idem.redeemToken(token, { subject: 'alice' }), await idem.redeemToken(token, { subject: 'alice' })],
            ['invalid', 'accepted', 'duplicate'])
    })

    test(`${driver}: publish, take, ack, nack, consume`, async () => {
        const topic = name('topic')
        const id = await idem.publish(topic, { n: 1 }, { key: 'k', headers: { lang: 'zh' }, dedupId: 'one' })
        assert.equal(typeof id, 'bigint')
        assert.equal(await idem.publish(topic, { n: 1 }, { dedupId: 'one' }), id)
        await idem.publish(topic, null)
        const messages = await idem.take(topic, { maxMessages: 10, lease: '30 s' })
        assert.deepEqual(messages.map(({ payload, headers, key }) => ({ payload, headers, key })),
            [{ payload: { n: 1 }, headers: { lang: 'zh' }, key: 'k' }, { payload: null, headers: null, key: null }])
        assert.equal(messages[0].id, id)
        assert.equal(await idem.nack([messages[1].id], messages[1].fence, { retryAfter: '0 s' }), 1)
        assert.equal(await idem.ack(messages.map((message) => message.id), messages[0].fence), 1)
        assert.deepEqual([await idem.consume('c', name('m')), await idem.consume('c', name('m'))], [true, false])
    })

    test(`${driver}: mustClaim, hit, hits, allow, serialize`, async () => {
        assert.equal(await idem.mustClaim(name('must')), true)
        await assert.rejects(idem.mustClaim(name('must')), AlreadyDone)
        assert.deepEqual([await idem.hits(name('hits')), await idem.hit(name('hits'), { ttl: '1 hour' }), await idem.hit(name('hits'))], [null, 1, 2])
        const { hits, expiresAt } = await idem.hits(name('hits'))
        assert.deepEqual([hits, expiresAt > new Date()], [2, true])
        assert.deepEqual(await idem.allow(name('rate'), 0.01, 3, { cost: 2 }), { allowed: true, remaining: 1, retryAfterMs: null })
        const refused = await idem.allow(name('rate'), 0.01, 3, { cost: 2 })
        assert.ok(!refused.allowed && refused.remaining === 1 && refused.retryAfterMs > 1000)
        await transaction(async (inside) => assert.equal(await inside.serialize(name('serial')), true))
    })

    test(`${driver}: publishMany and outboxRenew`, async () => {
        const topic = name('many')
        const ids = await idem.publishMany(topic, [{ payload: { n: 1 }, key: 'a' }, { payload: null, headers: { h: 1 }, delay: { seconds: 0 } }, { payload: 3, dedupId: 'd' }, { payload: 4, dedupId: 'd' }])
        assert.deepEqual([ids.length, typeof ids[0], ids[2] === ids[3]], [4, 'bigint', true])
        const messages = await idem.take(topic, { lease: '30 s' })
        assert.deepEqual(messages.map(({ id, payload }) => [id, payload]), [[ids[0], { n: 1 }], [ids[1], null], [ids[2], 3]])
        assert.equal(await idem.outboxRenew(ids.slice(0, 2), messages[0].fence, { lease: '1 min' }), 2)
    })

    test(`${driver}: webhookReceive and verifyRequest`, async () => {
        const secret = Buffer.from('a secret of the webhooks')
        const body = Buffer.from(JSON.stringify({ driver })), source = name('hooks')
        await pool.query(`SELECT idem.idem_webhook_source_set($1, 'github', $2)`, [source, secret])
        const headers = { 'X-Hub-Signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`, 'X-GitHub-Delivery': name('delivery') }
        assert.deepEqual(await idem.webhookReceive(source, headers, body), { outcome: 'accepted', messageId: name('delivery') })
        assert.equal((await idem.webhookReceive(source, headers, body)).outcome, 'duplicate')
        assert.deepEqual(await idem.webhookReceive(source, headers, Buffer.from('{}')), { outcome: 'invalid', messageId: null })
        await pool.query(`SELECT idem.idem_api_key_set($1, $2)`, [name('key'), secret])
        const params = { amount: 5 }, keyId = name('key'), signedAt = new Date(), nonce = name('nonce')
        const { rows: [{ message }] } = await pool.query('SELECT idem.idem_request_message($1, $2, $3, $4) AS message', [params, keyId, signedAt.toISOString(), nonce])
        const signature = createHmac('sha256', secret).update(message).digest('hex')
        const verify = (over) => idem.verifyRequest(params, { signature, keyId, signedAt, nonce, tolerance: '5 min', ...over })
        assert.deepEqual([await verify(), await verify(), await verify({ signature: '00' })], ['accepted', 'replayed', 'invalid'])
    })

    test(`${driver}: httpBegin and httpComplete`, async () => {
        const request = { scope: 'http', method: 'POST', route: '/orders', key: `"${name('http')}"`, body: Buffer.from('{}'), contentType: 'application/json' }
        assert.equal((await idem.httpBegin({ ...request, key: null })).code, 'key_missing')
        const { action, fence } = await idem.httpBegin(request, { lease: '30 s' })
        assert.deepEqual([action, typeof fence], ['run', 'bigint'])
        const busy = await idem.httpBegin(request)
        assert.deepEqual([busy.action, busy.status, busy.code, busy.retryable], ['reject', 409, 'in_flight', true])
        assert.equal(await idem.httpComplete(request, { status: 201, headers: { 'Content-Type': 'text/plain' }, body: Buffer.from('made') }, { fence }), 'stored')
        const replay = await idem.httpBegin(request)
        assert.deepEqual([replay.action, replay.status, replay.body.toString(), replay.headers['Idempotent-Replayed']], ['replay', 201, 'made', 'true'])
    })

    test(`${driver}: the flows of rows`, async () => {
        const table = `things_${driver.replace('.', '_')}`
        await pool.query(`CREATE TABLE ${table} (id int PRIMARY KEY, name text, stock numeric DEFAULT 5)`)
        await pool.query(`CREATE INDEX ON ${table} (name)`)
        await pool.query(`SELECT idem.optimistic_enable('${table}')`)
        assert.equal((await idem.uniqueInsert(table, { id: 1, name: 'a' })).outcome, 'inserted')
        assert.equal((await idem.uniqueInsert(table, { id: 1, name: 'b' }, { conflictColumns: ['id'] })).row.name, 'a')
        assert.equal((await idem.guardedInsert(table, { id: 2, name: 'a' }, ['name'])).outcome, 'duplicate')
        const { outcome, version, row } = await idem.optimisticUpdate(table, { id: 1 }, 1n, { name: 'c' })
        assert.deepEqual([outcome, version, row.name], ['updated', 2n, 'c'])
        assert.equal((await idem.optimisticUpdate(table, { id: 1 }, '1', { name: 'd' })).outcome, 'conflict')
        assert.equal((await idem.conditionalUpdate(table, { id: 1 }, { name: 'c' }, { name: 'e' })).outcome, 'updated')
        assert.deepEqual(await idem.conditionalAdjust(table, { id: 1 }, 'stock', -2), { outcome: 'adjusted', value: '3' })
        assert.deepEqual(await idem.conditionalAdjust(table, { id: 1 }, 'stock', -9, { minimum: 1 }), { outcome: 'out_of_range', value: '3' })
        await transaction(async (inside) => {
            assert.equal((await inside.pessimisticLock(table, { id: 1 }, { wait: '1 s' })).row.name, 'e')
            assert.deepEqual((await inside.pessimisticLockMany(table, [{ id: 9 }, { id: 1 }])).map((each) => each.outcome), ['not_found', 'locked'])
        })
    })

    test(`${driver}: transition and nextId`, async () => {
        const id = driver === 'pg' ? 1 : 2
        await pool.query(`INSERT INTO parcels VALUES ($1, 'new')`, [id])
        assert.deepEqual(await idem.transition('parcels', { id }, 'new', 'sent'), { outcome: 'moved', state: 'sent' })
        assert.deepEqual(await idem.transition('parcels', { id }, null, 'new'), { outcome: 'not_allowed', state: 'sent' })
        const first = await idem.nextId()
        assert.ok((await idem.nextId()) > first && first > BigInt(Number.MAX_SAFE_INTEGER))
    })
}

test('a wrong argument or an unknown option rejects with a TypeError that names it, and nothing is sent', async () => {
    const idem = new Idem({ query: () => assert.fail('a statement was sent'), transaction() {}, handle: null })
    const fence = 1n
    const wrong = {
        key: [() => idem.claim(), () => idem.claim(17), () => idem.claim(null), () => idem.begin({}), () => idem.transition('t', 'k', null, 's')],
        keys: [() => idem.claimMany('k'), () => idem.claimMany([1])],
        scoop: [() => idem.claim('k', { scoop: 's' }), () => idem.lookup('k', { scoop: 's' }), () => idem.unlock('n', fence, { scoop: 's' })],
        scope: [() => idem.claim('k', { scope: 1 }), () => idem.claim('k', { scope: null })],
        ttl: [() => idem.claim('k', { ttl: '30' }), () => idem.lock('n', { ttl: '30 s' }), () => idem.lock('n', { ttl: '30' }), () => idem.lock('n', { ttl: Infinity })],
        lease: [() => idem.begin('k', { lease: '30' }), () => idem.renew('k', fence, { lease: true })],
        wait: [() => idem.lock('n', { wait: true }), () => idem.begin('k', { wait: '5' })],
        wiat: [() => idem.lock('n', { wiat: 5 })],
        fence: [() => idem.release('k'), () => idem.complete('k', { fence: 1.5 }), () => idem.assertFence('n', 'x'), () => idem.ack([1n])],
        fingerprint: [() => idem.begin('k', { fingerprint: 'text' })],
        statusCode: [() => idem.complete('k', { statusCode: '201' })],
        status_code: [() => idem.complete('k', { status_code: 201 })],
        args: [() => idem.execute('k', 'SELECT 1', 'x')],
        payload: [() => idem.publish('t')],
        dedupID: [() => idem.publish('t', {}, { dedupID: 'x' })],
        delay: [() => idem.publish('t', {}, { delay: '10' })],
        maxMessages: [() => idem.take('t', { maxMessages: 1.5 })],
        ids: [() => idem.ack(['x'], fence)],
        retryAfter: [() => idem.nack([fence], fence, { retryAfter: '5' })],
        messageId: [() => idem.consume('c', 5)],
        subject: [() => idem.issueToken({ subject: null })],
        toState: [() => idem.transition('t', {}, null)],
        fromState: [() => idem.transition('t', {}, undefined, 's')],
    }
    for (const [name, calls] of Object.entries(wrong)) {
        for (const call of calls) await assert.rejects(call, (error) => error instanceof TypeError && error.message.includes(`"${name}"`), `${name} ${call}`)
    }
    for (const call of [() => idem.lock('n', 30_000), () => idem.claim('k', 'scope'), () => idem.claim('k', null)]) await assert.rejects(call, TypeError)
    assert.throws(() => new Idem(pool, { shema: 'idem' }), /"shema"/)
    assert.throws(() => new Idem(pool, { schema: 1 }), /"schema"/)
})

test('with a lease, waiters for a lock hold no connection: each holder holds it alone', { timeout: 60_000 }, async () => {
    const small = new pg.Pool({ max: 3 })
    const idem = new Idem(small)
    let holders = 0, most = 0, lost = 0, acquired = 0
    await Promise.all(Array.from({ length: 4 }, async () => {
        const lock = await idem.lock('small pool', { lease: '5 s', wait: '50 s' })
        acquired++
        most = Math.max(most, ++holders)
        lock.signal.addEventListener('abort', () => { lost++ })
        await sleep(7000)
        holders--
        await lock.unlock()
    }))
    assert.deepEqual([acquired, most, lost], [4, 1, 0])
    await small.end()
})

test('errors of idem are classes of IdemError, also around a driver\'s error', () => {
    for (const Class of [StaleFence, InFlight, AlreadyDone, InvalidTransition]) assert.ok(new Class('x', 'ID001') instanceof IdemError)
    for (const error of [{ code: 'ID001' }, { cause: Object.assign(new Error(), { code: 'ID001' }) }, { original: { code: 'ID001' } }, { driverError: { code: 'ID001' } },
        { code: 'P2010', meta: { driverAdapterError: { cause: { originalCode: 'ID001' } } } }]) assert.equal(sqlstate(error), 'ID001')
    for (const error of [{ code: 'EPIPE' }, { code: 'ECONNRESET' }, {}, null]) assert.equal(sqlstate(error), undefined)
})
