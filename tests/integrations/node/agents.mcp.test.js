// The table of cases of an MCP tool that takes effect once: each SDK and transport, with processes that are killed.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Host } from './mcp_client.js'

const pool = new pg.Pool({ max: 2 })
const count = async (item) => (await pool.query('SELECT count(*)::int AS n FROM orders WHERE item = $1', [item])).rows[0].n
const charges = async (key) => (await pool.query('SELECT count(*)::int AS n FROM charges WHERE key = $1', [key])).rows[0].n
const outcome = ({ meta, isError, thrown }) => thrown ?? meta['idem/outcome'] ?? (isError ? 'error' : 'run')
const tally = (answers) => answers.map(outcome).reduce((all, one) => ({ ...all, [one]: (all[one] ?? 0) + 1 }), {})

before(() => pool.query('CREATE TABLE IF NOT EXISTS charges (key text NOT NULL, amount numeric NOT NULL)'))
after(() => pool.end())

const sdks = (process.env.IDEM_MCP ?? 'v1-stdio v1-http v2-http').split(' ')
for (const sdk of sdks) {
    describe(sdk, { concurrency: false }, () => {
        const hosts = []
        const name = (word) => `${sdk} ${word}`
        before(async () => hosts.push(...await Promise.all([new Host(sdk).start(), new Host(sdk).start()])))
        after(() => Promise.all(hosts.map((host) => host.stop())))
        const order = (word, more = {}, options = {}, host = hosts[0]) => host.call('place_order', { item: name(word), quantity: 1, idempotency_key: name(word), ...more }, options)
        const pay = (word, more = {}, options = {}, host = hosts[0]) => host.call('pay', { invoice: name(word), amount: 5, ...more }, options)

        test('the tools say what they are', async () => {
            const tools = Object.fromEntries((await hosts[0].tools()).map((tool) => [tool.name, tool]))
            const { inputSchema, annotations } = tools.place_order
            assert.ok(inputSchema.required.includes('idempotency_key'))
            assert.match(inputSchema.properties.idempotency_key.description, /A new UUID for each operation/)
            assert.deepEqual([annotations, tools.pay.annotations], Array(2).fill({ readOnlyHint: false, idempotentHint: true }))
            assert.deepEqual(tools.patient_order.annotations, { readOnlyHint: false })
            assert.ok(!('idempotency_key' in tools.pay.inputSchema.properties))
        })

        test('twice at once, and again: one order, and the stored result with a block that says so', async () => {
            const answers = await Promise.all([order('twice', { pause: 200 }), order('twice', { pause: 200 })])
            assert.deepEqual(tally(answers), { run: 1, replay: 1 })
            const [run, replay] = answers[0].meta['idem/outcome'] ? answers.reverse() : answers
            assert.deepEqual([replay.structured, replay.text], [run.structured, `${run.text}\n(place_order: this exact call was made before. It was not done again; this is its stored result.)`])
            assert.equal(outcome(await order('twice', {}, {}, hosts[1])), 'replay')
            assert.equal(await count(name('twice')), 1)
        })

        test('longer than the wait: the second is told that it runs', async () => {
            const answers = await Promise.all([order('long', { pause: 2500 }), order('long', { pause: 2500 }, {}, hosts[1])])
            assert.deepEqual(tally(answers), { run: 1, in_flight: 1 })
            assert.match(answers.find(({ isError }) => isError).text, /^place_order: this call is already running .* and the same idempotency_key\. Do not start it under another key\.$/)
            assert.equal(await count(name('long')), 1)
        })

        test('a client that gives up, or is gone: the call is rolled back, and a retry places one order', async () => {
            assert.match((await order('timeout', { pause: 700 }, { timeout: 200 })).thrown, /time/i)
            assert.ok(['run', 'replay'].includes(outcome(await order('timeout'))))
            const controller = new AbortController()
            setTimeout(() => controller.abort('stop'), 200)
            assert.ok((await order('abort', { pause: 700 }, { signal: controller.signal })).thrown)
            await sleep(900)
            // Version 1 without sessions has no cancels: there the call runs to its end.
            assert.deepEqual([await count(name('timeout')), await count(name('abort'))], [1, sdk === 'v1-http' ? 1 : 0])
            assert.deepEqual([outcome(await order('abort')), await count(name('abort'))], [sdk === 'v1-http' ? 'replay' : 'run', 1])
        })

        test('a host that disconnects and repeats the call: one order', async () => {
            const call = order('gone', { pause: 700 })
            await sleep(200)
            await hosts[0].disconnect()
            assert.ok((await call).thrown)
            assert.equal(sdk === 'v1-stdio' ? 0 : await count(name('gone')), 0)
            assert.ok(['run', 'replay'].includes(outcome(await order('gone'))))
            assert.equal(await count(name('gone')), 1)
        })

        test('onCancel finish: the call ends, and the retry gets its result', async () => {
            const slow = (more, options) => hosts[0].call('slow_order', { item: name('slow'), idempotency_key: name('slow'), ...more }, options)
            assert.ok((await slow({ pause: 700 }, { timeout: 200 })).thrown)
            assert.deepEqual([outcome(await slow({ pause: 700 })), await count(name('slow'))], ['replay', 1])
        })

        test('kill -9 before COMMIT: nothing stays, and the retry places the order', async () => {
            assert.ok((await hosts[0].lastCall('place_order', { item: name('killed'), idempotency_key: name('killed'), fails: 'dies' })).thrown)
            await hosts[0].restart()
            assert.equal(await count(name('killed')), 0)
            assert.deepEqual([outcome(await order('killed')), outcome(await order('killed', {}, {}, hosts[1])), await count(name('killed'))], ['run', 'replay', 1])
        })

        test('kill -9 before and after the charge: one charge and one order', async () => {
            for (const dies of ['before', 'after']) {
                const key = `alice/pay/${name(dies)}/charge`
                assert.ok((await hosts[0].lastCall('pay', { invoice: name(dies), amount: 5, dies })).thrown)
                assert.equal(await charges(key), dies === 'before' ? 0 : 1)
                assert.equal(outcome(await pay(dies, { dies }, {}, hosts[1])), 'in_flight')
                await Promise.all([hosts[0].restart(), sleep(1100)])
                assert.deepEqual([outcome(await pay(dies, { dies })), outcome(await pay(dies, {}, {}, hosts[1])), await charges(key), await count(key)], ['run', 'replay', 1, 1])
            }
        })

        test('a charge whose fate nobody knows: in doubt, at once', async () => {
            assert.ok((await hosts[0].lastCall('pay', { invoice: name('unknown'), amount: 5, dies: 'unknown' })).thrown)
            await Promise.all([hosts[0].restart(), sleep(1100)])
            const answer = await pay('unknown', { dies: 'unknown' })
            assert.deepEqual([outcome(answer), answer.isError], ['in_doubt', true])
            assert.match(answer.text, /step "charge".*Do not call it again.*Tell the user\.$/)
        })

        test('work beyond the lease: it is renewed, and others are told that it runs', async () => {
            const first = pay('beyond', { pause: 2500 })
            await sleep(1500)
            assert.equal(outcome(await pay('beyond', {}, {}, hosts[1])), 'in_flight')
            assert.deepEqual([outcome(await first), await charges(`alice/pay/${name('beyond')}/charge`)], ['run', 1])
        })

        test('a cancel between steps: no further step, and the next attempt goes on', async () => {
            const key = `alice/pay/${name('between')}/charge`
            assert.ok((await pay('between', { pause: 600 }, { timeout: 200 })).thrown)
            await sleep(900)
            assert.deepEqual([await charges(key), await count(key)], [1, sdk === 'v1-http' ? 1 : 0])
            assert.deepEqual([outcome(await pay('between')), await charges(key), await count(key)], [sdk === 'v1-http' ? 'replay' : 'run', 1, 1])
        })

        test('reworded is the same call, another quantity is refused, another user has keys of its own', async () => {
            await order('words')
            assert.equal(outcome(await order('words', { reason: 'please, it is urgent' })), 'replay')
            const other = await order('words', { quantity: 2 })
            assert.deepEqual([outcome(other), other.structured], ['mismatch', undefined])
            assert.ok(other.text.startsWith(`place_order: refused, nothing was done. The key "${name('words')}" belongs to an earlier call`))
            const bob = await new Host(sdk, { MCP_USER: 'bob' }).start()
            assert.deepEqual([outcome(await order('words', {}, {}, bob)), await count(name('words'))], ['run', 2])
            await bob.stop()
        })

        test('an error of the tool, and a result that its schema refuses, store nothing', async () => {
            for (const fails of ['throws', 'isError', 'shape']) {
                const failed = await order(fails, { fails })
                assert.deepEqual([failed.isError, failed.meta['idem/outcome'], await count(name(fails))], [true, undefined, 0])
                assert.equal(outcome(await order(fails, { quantity: 2 })), 'run')
            }
        })

        test('a result over the limit is omitted, and the model is told; an odd one is replayed exactly', async () => {
            const [first, again] = [await order('large', { size: 1_500_000 }), await order('large', { size: 1_500_000 })]
            assert.deepEqual([first.structured.blob.length, outcome(again), again.structured, await count(name('large'))], [1_500_000, 'omitted', undefined, 1])
            assert.match(again.text, /was done before and was not done again\..*another tool\.$/)
            assert.equal((await order('odd', { odd: true })).text, 'a\u0000b\ud800')
            assert.equal((await order('odd', { odd: true })).text.split('\n')[0], 'a\u0000b\ud800')
        })

        test('the id of the call comes from the host; without a key nothing is done', async () => {
            const call = (word, meta) => hosts[0].call('patient_order', { item: name(word) }, { meta })
            for (const [index, field] of ['idempotencyKey', 'io.modelcontextprotocol/idempotencyKey', 'host/toolUseId'].entries()) {
                assert.deepEqual([outcome(await call(field, { [field]: name(index) })), outcome(await call(field, { [field]: name(index) })), await count(name(field))], ['run', 'replay', 1])
            }
            assert.equal(outcome(await call('none')), 'key_missing')
            assert.ok((await hosts[0].call('place_order', { item: name('none') })).isError)
            assert.equal(await count(name('none')), 0)
        })

        test('two processes, ten duplicates each, pools of three: one order and one charge', async () => {
            const twenty = (call) => Promise.all(Array.from({ length: 20 }, (_, index) => call(hosts[index % 2])))
            const orders = await twenty((host) => host.call('patient_order', { item: name('storm'), pause: 500 }, { meta: { idempotencyKey: name('storm') } }))
            assert.deepEqual([tally(orders), await count(name('storm'))], [{ run: 1, replay: 19 }, 1])
            const paid = await twenty((host) => pay('storm', { pause: 2500 }, {}, host))
            const key = `alice/pay/${name('storm')}/charge`
            assert.deepEqual([tally(paid), await charges(key), await count(key)], [{ run: 1, in_flight: 19 }, 1, 1])
        })
    })
}

test('kill -9 at each statement of a leased tool: one charge and one order', { skip: sdks.length === 1 && 'in the long suite' }, async () => {
    const healthy = await new Host('v1-stdio', { LEASE: '1500 ms', WAIT: '20 s' }).start()
    let killed = 0
    const points = Array.from({ length: 14 }, (_, index) => index + 1).flatMap((at) => [[at, 'before'], [at, 'after']])
    const dieAt = async ([at, when]) => {
        const invoice = `point ${at} ${when}`, key = `alice/pay/${invoice}/charge`
        const host = await new Host('v1-stdio', { KILL_AT: at, KILL_WHEN: when, LEASE: '1500 ms' }).start()
        const answer = await host.call('pay', { invoice, amount: 5 })
        if (answer.thrown) killed++
        let again
        do again = await healthy.call('pay', { invoice, amount: 5 })
        while (['in_flight', 'lease_lost'].includes(outcome(again)))
        assert.deepEqual([again.isError, again.text.split('\n')[0], await charges(key), await count(key)], [false, `paid ${key}`, 1, 1], invoice)
        await host.stop()
    }
    while (points.length > 0) await Promise.all(points.splice(0, 7).map(dieAt))
    await healthy.stop()
    assert.ok(killed >= 20, `${killed} were killed`)
})
