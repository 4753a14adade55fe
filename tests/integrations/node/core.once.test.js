// once() and leased(): work that runs once for a key, in a transaction or under a lease.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CommitUnknown, fate, Idem, InDoubt, InFlight, leased, LeaseLost, Mismatch, once, OutputNotStored } from 'idem-postgres'
import pg from 'pg'
import { withCutPool } from './cut.js'

const pool = new pg.Pool({ max: 6 })
after(() => pool.end())
const idem = new Idem(pool)
const insert = (client, item) => client.query('INSERT INTO orders (item) VALUES ($1)', [item])
const count = async (item) => (await pool.query('SELECT count(*)::int AS orders FROM orders WHERE item = $1', [item])).rows[0].orders
const scope = 'jobs'

test('once: the work runs once, and the value is replayed', async () => {
    const work = async ({ client, idem: inside, key }) => {
        await insert(client, key)
        assert.equal(await inside.claim('inside once'), true)
        return { order: 1 }
    }
    assert.deepEqual(await once(pool, 'once', { scope }, work), { value: { order: 1 }, replayed: false, omitted: false, stored: true })
    assert.deepEqual(await once(pool, 'once', { scope }, work), { value: { order: 1 }, replayed: true, omitted: false, stored: true })
    assert.equal(await count('once'), 1)
    assert.equal((await once(pool, 'nothing', {}, async () => {})).value, undefined)
    assert.equal((await once(pool, 'nothing', {}, async () => {})).value, null)
})

test('once: a thrown error rolls back, and a retry runs', async () => {
    await assert.rejects(once(pool, 'throws', { scope }, async ({ client }) => {
        await insert(client, 'throws')
        throw new Error('no')
    }), /^Error: no$/)
    await once(pool, 'throws', { scope }, ({ client }) => insert(client, 'throws').then(() => null))
    assert.equal(await count('throws'), 1)
})

test('once: a serialization failure runs the work again, at most `attempts` times', async () => {
    let runs = 0
    const failing = (times) => async ({ client }) => {
        if (++runs <= times) await client.query(`DO $$ BEGIN RAISE 'no' USING ERRCODE = '40001'; END $$`)
        return runs
    }
    assert.equal((await once(pool, 'serialization', { scope }, failing(2))).value, 3)
    runs = 0
    await assert.rejects(once(pool, 'serialization 2', { scope, attempts: 2 }, failing(9)), (error) => error.code === '40001')
    assert.equal(runs, 2)
})

test('leased and lock: the time that a claim waits for a connection of the pool is no part of its lease', async (t) => {
    const now = performance.now.bind(performance)
    let offset = 0
    t.mock.method(performance, 'now', () => now() + offset)
    const connect = pool.connect.bind(pool)
    const slow = new Proxy(pool, { get: (target, name) => (name === 'connect' ? () => { offset += 60_000; return connect() } : Reflect.get(target, name, target)) })
    assert.equal((await leased(slow, 'queued', { scope, lease: '30 s' }, async (w) => w.attempt)).value, 1)
    const held = await new Idem(slow).lock('queued', { lease: '30 s', wait: '1 hour' })
    assert.equal(held.signal.aborted, false)
    await held.unlock()
})

test('once: another fingerprint is Mismatch, a key in flight is InFlight with a time, another in this process waits', async () => {
    await once(pool, 'print', { scope, fingerprint: Buffer.from('a') }, async () => 1)
    await assert.rejects(once(pool, 'print', { scope, fingerprint: Buffer.from('b') }, async () => 2), Mismatch)
    const { fence } = await idem.begin('held', { scope, lease: '30 s' })
    await assert.rejects(once(pool, 'held', { scope, wait: '0 s' }, async () => 1), (error) => error instanceof InFlight && error.retryAfterMs > 0)
    await idem.release('held', fence, { scope })
    const one = new pg.Pool({ max: 1 })
    let runs = 0
    const results = await Promise.all(Array.from({ length: 8 }, () => once(one, 'clicks', { scope }, async () => {
        await sleep(100)
        return ++runs
    })))
    assert.deepEqual([runs, results.filter(({ replayed }) => replayed).length], [1, 7])
    await one.end()
})

test('once: a key in doubt stays in doubt', async () => {
    await pool.query(`SELECT idem.idem_scope_set('doubt', on_lease_expiry => 'manual')`)
    await idem.begin('doubt', { scope: 'doubt', lease: '20 ms' })
    await sleep(50)
    await assert.rejects(once(pool, 'doubt', { scope: 'doubt' }, async () => 1), InDoubt)
    assert.equal((await pool.query(`SELECT state::text FROM idem.idem_keys WHERE scope = 'doubt'`)).rows[0].state, 'd')
})

test('once: a value that jsonb refuses is replayed exactly; one over the limit is omitted, and the caller is told', async () => {
    for (const [index, value] of ['a\u0000b', '\ud800', { 'k\u0000': ['\udc00', 1] }, { $base64: 'text' }, { $base64: { a: 1 } }, '😀', null].entries()) {
        assert.equal((await once(pool, `json ${index}`, { scope }, async () => value)).stored, true)
        assert.deepEqual((await once(pool, `json ${index}`, { scope }, async () => assert.fail())).value, value)
    }
    await pool.query(`SELECT idem.idem_scope_set('small', max_response_size => 100)`)
    const large = () => once(pool, 'large', { scope: 'small' }, async () => 'x'.repeat(1000))
    assert.deepEqual(await large(), { value: 'x'.repeat(1000), replayed: false, omitted: true, stored: false })
    assert.deepEqual(await large(), { value: null, replayed: true, omitted: true, stored: false })
})

test('once: a COMMIT whose answer is lost is found out by the next claim', async () => {
    for (const when of ['before', 'after']) {
        await withCutPool(when, async (database) => {
            const result = await once(database, `cut ${when}`, { scope }, ({ client }) => insert(client, `cut ${when}`).then(() => 7))
            assert.deepEqual([result.value, result.replayed], [7, when === 'after'])
            assert.equal(await count(`cut ${when}`), 1)
        })
    }
    await withCutPool('before', (database) => assert.rejects(once(database, 'cut once', { scope, attempts: 1 }, async () => 1), CommitUnknown))
})

test('once: the handle is dead after the transaction, and wrong arguments are named', async () => {
    let kept
    await once(pool, 'kept', { scope }, async ({ client }) => { kept = client })
    assert.throws(() => kept.query('SELECT 1'), /the transaction is over/)
    for (const options of [{ ttl: 86_400 }, { leese: 1 }, { wait: 5 }, { attempts: 0 }]) {
        await assert.rejects(once(pool, 'wrong', options, async () => {}), (error) => error instanceof TypeError && error.message.includes(`"${Object.keys(options)[0]}"`))
    }
    await assert.rejects(once(pool, 'wrong', {}), /"work"/)
})

test('leased: steps are not repeated by a later attempt, write commits rows and output together', async () => {
    const charges = []
    const pay = (fails) => leased(pool, 'pay', { scope }, async (w) => {
        const charge = await w.step('charge', async ({ key, fence, signal }) => {
            assert.deepEqual([typeof fence, signal.aborted], ['bigint', false])
            charges.push(key)
            return { id: 'ch_1' }
        })
        await w.write('order', async ({ client }) => {
            await insert(client, 'pay')
            return { order: 1 }
        })
        if (fails) throw new Error('after the charge')
        return { charge, attempt: w.attempt, steps: w.steps }
    })
    await assert.rejects(pay(true), /after the charge/)
    const steps = { charge: { id: 'ch_1' }, order: { order: 1 } }
    const { value, attempt } = await pay(false)
    assert.deepEqual([value, attempt], [{ charge: { id: 'ch_1' }, attempt: 2, steps }, 2])
    assert.equal((await pay(false)).replayed, true)
    assert.deepEqual([charges, await count('pay')], [['jobs/pay/charge'], 1])
})

test('leased: reconcile tells the fate of a step that was intended', async () => {
    const intend = (key) => assert.rejects(leased(pool, key, { scope }, (w) => w.step('act', async () => { throw new Error('who knows') })), /who knows/)
    const again = (key, reconcile) => leased(pool, key, { scope }, (w) => w.step('act', async () => 'by act', reconcile))
    for (const [key, reconcile, value] of [['done', () => fate.done('before'), 'before'], ['not done', async () => fate.notDone(), 'by act'], ['default', undefined, 'by act']]) {
        await intend(key)
        assert.equal((await again(key, reconcile)).value, value)
    }
    await intend('unknown')
    await assert.rejects(again('unknown', () => fate.unknown()), (error) => error instanceof InDoubt && error.step === 'act')
    assert.equal((await idem.lookup('unknown', { scope })).state, 'in_progress')
})

test('leased: an output that cannot be stored keeps the key, so that a retry does not act again', async () => {
    await pool.query(`SELECT idem.idem_scope_set('small', max_response_size => 100)`)
    let acts = 0
    const act = (output) => (w) => w.step('act', async () => {
        acts++
        return output
    })
    await assert.rejects(leased(pool, 'kept', { scope: 'small' }, act('x'.repeat(1000))), OutputNotStored)
    await assert.rejects(leased(pool, 'kept', { scope: 'small', wait: '0 s' }, act('x')), InFlight)
    acts = 0
    await assert.rejects(leased(pool, 'bigint', { scope }, act(1n)), OutputNotStored)
    await assert.rejects(leased(pool, 'bigint', { scope, wait: '0 s' }, act(1n)), InFlight)
    assert.equal(acts, 1)
    const odd = { text: 'a\u0000\ud800' }
    await assert.rejects(leased(pool, 'odd', { scope }, async (w) => {
        await act(odd)(w)
        throw new Error('later')
    }), /later/)
    assert.deepEqual((await leased(pool, 'odd', { scope }, act('again'))).value, odd)
    assert.equal(acts, 2)
})

test('leased: the lease is renewed while the work runs; waiters hold no connection; onError keep', { timeout: 60_000 }, async () => {
    const small = new pg.Pool({ max: 2 })
    let runs = 0
    const work = async (w) => {
        runs++
        await sleep(8000)
        assert.equal(w.signal.aborted, false)
        return runs
    }
    const results = await Promise.all(Array.from({ length: 6 }, () => leased(small, 'long', { scope, lease: '5 s', wait: '40 s' }, work)))
    assert.deepEqual([runs, results.map(({ value }) => value)], [1, Array(6).fill(1)])
    await assert.rejects(leased(small, 'kept by error', { scope, onError: 'keep' }, async () => { throw new Error('no') }), /no/)
    await assert.rejects(leased(small, 'kept by error', { scope, wait: '0 s' }, async () => 1), InFlight)
    await small.end()
})

test('leased: a holder that was replaced is told, and stores nothing', async () => {
    await assert.rejects(leased(pool, 'replaced', { scope, lease: '1 s' }, async (w) => {
        await pool.query(`UPDATE idem.idem_keys SET lease_until = clock_timestamp() - interval '1 s' WHERE key = 'replaced'`)
        assert.equal((await idem.begin('replaced', { scope, lease: '30 s' })).outcome, 'taken_over')
        while (!w.signal.aborted) await sleep(20)
        await w.step('late', async () => assert.fail('a lost lease begins no step'))
    }), (error) => error instanceof LeaseLost || /lease/.test(error.message))
})
