// The middleware's options and faults of the database, with Express in this process.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import net from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { bodyParser } from '@koa/bodyparser'
import express from 'express'
import Fastify from 'fastify'
import { current, Idem } from 'idem-postgres'
import { idempotency, keepRawBody } from 'idem-postgres/express'
import { idempotency as fastifyPlugin } from 'idem-postgres/fastify'
import { idempotency as koaMiddleware } from 'idem-postgres/koa'
import Koa from 'koa'
import pg from 'pg'
import { withCutPool } from './cut.js'
import { hasOmit, post } from './server.js'

const pool = new pg.Pool({ max: 8 })
after(() => pool.end())
const rows = async (text, parameters) => (await pool.query(text, parameters)).rows
const count = async (item) => (await rows('SELECT count(*)::int AS orders FROM orders WHERE item = $1', [item]))[0].orders
let keys = 0
const newKey = () => `option-${++keys}`
const quiet = { info() {}, error() {} }

/** Calls `use` with the port of a server, and ends it. */
async function withServer(app, use) {
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
        return await use(server.address().port)
    } finally {
        server.closeAllConnections()
        server.close()
    }
}

const insert = (client, item) => client.query('INSERT INTO orders (item) VALUES ($1)', [item])

/** An application whose POST / inserts the query's item and answers 201; `handler` does more. */
function application(options, handler = async (req, res) => {
    await insert(req.idem.client, req.query.item)
    res.status(201).json({ item: req.query.item })
}) {
    const app = express()
    app.all('/', idempotency({ database: pool, scope: () => 'test', logger: quiet, ...options })(handler))
    app.use((error, req, res, next) => res.status(500).json({ error: error.message }))
    return app
}

test('a missing, unknown or wrong option raises a TypeError that names it', () => {
    const right = { database: pool, scope: () => 'test' }
    const wrong = {
        scope: [undefined, 'test'], database: [undefined, {}], header: [1, ''], methods: ['POST', ['post'], [1]], keyRequired: [true], route: ['/'],
        lease: [30_000, '30', 0, '0 s', NaN, '25 days', '1 month', true, { second: 1 }], wait: [true, 5000, '5', -1, 'soon', null, '1 year'], ttl: [86_400, '30', NaN, {}],
        maxBody: [-1, '5', '1 MB', 1.5], maxResponse: ['1 MB'], oversize: ['drop', true], storeErrors: [402, ['402'], [99]], fingerprint: ['body'], keyFrom: ['id'], skip: [true],
        schema: [1, ''], rollbackOn: [() => true], onError: [{}], onOutcome: [1], logger: [console.log, {}, null], leese: ['30 s', undefined], keyrequired: [false],
    }
    for (const [name, values] of Object.entries(wrong)) {
        for (const value of values) {
            assert.throws(() => idempotency({ ...right, [name]: value }), (error) => error instanceof TypeError && error.message.includes(`"${name}"`), `${name}: ${value}`)
        }
    }
    for (const options of [undefined, null, 'scope', 30]) assert.throws(() => idempotency(options), TypeError)
    assert.throws(() => idempotency(pool), /the database is an option/)
    assert.throws(() => idempotency({ ...right, database: new pg.Client() }), /"database" must be a pool/)
    for (const wait of ['0 s', '5 s', '1.5s', '00:00:05', 'PT5S', '1 min 5 s', { minutes: 1, seconds: 5 }]) idempotency({ ...right, wait, ttl: wait })
    idempotency({ ...right, ttl: '1 month' })
    assert.throws(() => idempotency({ ...right, ttl: 86_400 }), /write '86400 s' or '1 day'/)
    assert.throws(() => idempotency({ ...right, lease: 30_000 }), /write '30000 s' or '30000 ms'/)
    assert.throws(() => idempotency({ ...right, lease: '30 s', oversize: 'rollback' }), /"oversize"/)
    idempotency({ ...right, wait: undefined, lease: '24 days', logger: console, methods: ['POST', 'M-SEARCH'] })
})

test('header, route, ttl and methods', () => withServer(application({ header: 'X-Key', route: () => 'order', ttl: '1 min', methods: ['PUT'] }, async (req, res) => {
    if (req.idem) await insert(req.idem.client, req.query.item)
    res.json({ claimed: Boolean(req.idem) })
}), async (port) => {
    const key = newKey()
    const send = (method, item, given = key) => post(port, `/?item=${item}`, { method, headers: { 'X-Key': given } })
    assert.deepEqual(JSON.parse((await send('POST', 'header')).body), { claimed: true })
    assert.equal((await send('POST', 'other-item')).headers['idempotent-replayed'], 'true')
    assert.equal((await send('PUT', 'header')).status, 422)
    assert.equal(await count('header'), 1)
    assert.deepEqual(JSON.parse((await post(port, '/', {})).body), { claimed: false })
    const [{ days }] = await rows(`SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 / 86400 AS days FROM idem.idem_lookup($1, 'test')`, [key])
    assert.ok(days < 0.1)
}))

test('a GET without a key is left alone, with a key it is claimed', () => withServer(application({}, (req, res) => res.json({ claimed: Boolean(req.idem) })), async (port) => {
    const get = (key) => post(port, '/', { method: 'GET', key })
    assert.deepEqual(JSON.parse((await get()).body), { claimed: false })
    const key = newKey()
    assert.deepEqual(JSON.parse((await get(key)).body), { claimed: true })
    assert.equal((await get(key)).headers['idempotent-replayed'], 'true')
}))

test('keyRequired: false runs a request without a key in a plain transaction', () => withServer(application({ keyRequired: false }, async (req, res) => {
    await insert(req.idem.client, req.query.item)
    if (req.query.item !== 'plain') throw new Error('the handler fails')
    res.status(201).end()
}), async (port) => {
    assert.equal((await post(port, '/?item=plain')).status, 201)
    assert.equal((await post(port, '/?item=plain-500')).status, 500)
    assert.deepEqual([await count('plain'), await count('plain-500')], [1, 0])
}))

const hash = (key) => key && createHash('sha256').update(key).digest('hex').slice(0, 32)

test('onOutcome is told run, replay and reject; its errors change nothing', async () => {
    const outcomes = [], errors = []
    const options = {
        onOutcome(outcome) {
            outcomes.push(outcome)
            throw new Error('the hook fails')
        },
        logger: { info() {}, error: (line) => errors.push(line) },
    }
    await withServer(application(options), async (port) => {
        const key = newKey()
        await post(port, '/?item=hook', { key })
        await post(port, '/?item=hook', { key })
        assert.equal((await post(port, '/?item=hook', {})).status, 400)
        assert.deepEqual(outcomes.map(({ ms, ...rest }) => rest), [['run', 201, key], ['replay', 201, key], ['reject', 400, null]]
            .map(([outcome, status, given]) => ({ scope: 'test', key: given, keyHash: hash(given), method: 'POST', route: '/?item=hook', outcome, replayed: outcome === 'replay', status })))
        assert.ok(outcomes.every(({ ms }) => ms > 0))
        assert.equal(errors.length, 3)
    })
})

test('the key is what PostgreSQL parsed: to the handler, onOutcome and the log', async () => {
    const keysSeen = [], outcomes = [], lines = []
    await pool.query(`SELECT idem.idem_http_scope_set('unstored', unstored_statuses => '{503}')`)
    const options = { scope: () => 'unstored', onOutcome: (outcome) => outcomes.push(outcome), logger: { info: (line) => lines.push(line), error() {} } }
    await withServer(application(options, (req, res) => {
        keysSeen.push(req.idem.key)
        res.status(Number(req.query.status ?? 201)).end()
    }), async (port) => {
        const key = newKey()
        for (const given of [`"${key}"`, key, `"${key}";v=1`]) assert.equal((await post(port, '/?status=503', { key: given })).status, 503)
        for (const given of [`"${key}"`, key]) assert.equal((await post(port, '/', { key: given })).status, 201)
        assert.equal((await post(port, '/', { key: `"${key}"`, body: 'other' })).status, 422)
        assert.equal((await post(port, '/', { key: `"${key}` })).status, 400)
        assert.deepEqual(keysSeen, [key, key, key, key])
        assert.deepEqual(outcomes.map((outcome) => outcome.key), [...Array(6).fill(key), null])
        assert.deepEqual(lines.map((line) => / key=(.*) status/.exec(line)[1]), [...Array(6).fill(key), '-'])
    })
})

test('the raw bytes of the body count', () => withServer(application(), async (port) => {
    const key = newKey()
    assert.equal((await post(port, '/?item=bytes', { key, body: '{"a":1}' })).status, 201)
    assert.equal((await post(port, '/?item=bytes', { key, body: '{"a": 1}' })).status, 422)
}))

test('a logger gets one line for each keyed request, and errors name route and key', async () => {
    const lines = [], errors = []
    await withServer(application({ logger: { info: (line) => lines.push(line), error() {} } }), async (port) => {
        const key = newKey()
        await post(port, '/?item=log', { key })
        await post(port, '/?item=log', {})
        assert.deepEqual(lines, [`idem: run POST /?item=log key=${key} status=201`])
    })
    await withServer(application({ schema: 'missing', logger: { info() {}, error: (line) => errors.push(line) } }), async (port) => {
        await post(port, '/?item=log', { key: 'k' })
        await post(port, '/?item=log', {})
        assert.deepEqual(errors.map((line) => /^idem: begin failed( \(.*?\)): /.exec(line)?.[1]), [' (POST /?item=log key=k)', ' (POST /?item=log key=-)'])
    })
})

test('a parser before the middleware must keep the bytes', async () => {
    const errors = []
    for (const [parser, status] of [[express.json({ verify: keepRawBody }), 201], [express.json(), 500]]) {
        const app = express()
        app.use(parser)
        app.use(application({ logger: { info() {}, error: (line) => errors.push(line) } }, (req, res) => res.status(201).json(req.body)))
        await withServer(app, async (port) => {
            const key = newKey()
            const first = await post(port, '/', { key, body: '{"a": 1}' })
            assert.equal(first.status, status)
            if (status === 201) assert.equal((await post(port, '/', { key, body: '{"a":1}' })).status, 422)
        })
    }
    assert.equal(errors.length, 1)
    assert.match(errors[0], /express\.json\(\{ verify: keepRawBody \}\)/)
})

test('the parser after the middleware gets a body of any length, in pieces', () => {
    const app = express()
    const api = express.Router()
    api.use(express.text({ limit: '2mb', type: () => true }))
    api.post('/', (req, res) => res.json({ length: req.body.length ?? 0 }))
    app.use(idempotency({ database: pool, scope: () => 'test' })(api))
    return withServer(app, async (port) => {
        for (const length of [1, 70_000, 1024 * 1024]) {
            assert.deepEqual(JSON.parse((await post(port, '/', { key: newKey(), body: 'x'.repeat(length) })).body), { length })
        }
    })
})

/** A promise, and what resolves it. */
function event() {
    let happen
    const happened = new Promise((resolve) => { happen = resolve })
    return [happened, happen]
}

test('a client that goes away before the handler has read the body: nothing is stored, and a repetition runs', { timeout: 20_000 }, async () => {
    for (const [lease, moment] of [[undefined, 'claim'], [undefined, 'handler'], ['30 s', 'claim'], ['30 s', 'handler']]) {
        const key = newKey(), item = `unread-${key}`, [reached, reach] = event(), [left, leave] = event()
        const meet = async (here) => {
            if (here !== moment) return
            reach()
            await left
            await sleep(50) // for Node's parser to see it
        }
        const slow = Object.create(pool, { connect: { value: () => meet('claim').then(() => pool.connect()) } })
        const app = express(), api = express.Router(), outcomes = [], [over, end] = event()
        const options = { database: slow, scope: () => 'test', lease, logger: quiet, onOutcome: (outcome) => end(outcomes.push(outcome)) }
        api.use((req, res, next) => meet('handler').then(() => next(), next))
        api.use(express.json())
        api.post('/', async (req, res) => {
            if (!req.body) return res.status(400).end()
            if (!lease) await insert(req.idem.client, item)
            res.status(201).end()
        })
        app.use((req, res, next) => {
            req.on('close', leave)
            next()
        })
        app.use(idempotency(options)(api))
        app.use((error, req, res, next) => res.status(500).end())
        await withServer(app, async (port) => {
            await assert.rejects(post(port, '/', { key, body: '{"a": 1}', cut: reached }))
            await over
            assert.deepEqual(outcomes.map(({ status }) => status), [undefined], `${lease} ${moment}`)
            const again = await post(port, '/', { key, body: '{"a": 1}' })
            assert.deepEqual([again.status, again.headers['idempotent-replayed']], [201, undefined])
            if (!lease) assert.equal(await count(item), 1)
        })
    }
})

test('leased mode: a success without the body is stored though the client went away', { timeout: 20_000 }, async () => {
    const key = newKey(), [reached, reach] = event(), [left, leave] = event(), [over, end] = event()
    const handler = async (req, res) => {
        req.on('close', leave)
        reach()
        await left
        res.status(201).end()
    }
    await withServer(application({ lease: '30 s', onOutcome: () => end() }, handler), async (port) => {
        await assert.rejects(post(port, '/', { key, body: '{}', cut: reached }))
        await over
        assert.equal((await post(port, '/', { key, body: '{}' })).headers['idempotent-replayed'], 'true')
    })
})

/** The applications that answer POST / with the length of the body, by name: a server that is to listen. */
const lengthServers = {
    express() {
        const app = express(), api = express.Router()
        api.use(express.text({ type: () => true }))
        api.post('/', (req, res) => res.json({ length: req.body?.length ?? 0 }))
        return http.createServer(app.use(idempotency({ database: pool, scope: () => 'test', maxBody: 1000 })(api)))
    },
    koa(create) {
        const app = new Koa()
        app.use(koaMiddleware({ database: pool, scope: () => 'test', maxBody: 1000 }))
        app.use(bodyParser({ enableTypes: ['text'], extendTypes: { text: ['*/*'] } }))
        app.use((ctx) => { ctx.body = { length: ctx.request.body?.length ?? 0 } })
        return create(app.callback())
    },
    async fastify(create) {
        const app = Fastify({ serverFactory: create, http2: create === http2.createServer })
        app.addContentTypeParser('*', { parseAs: 'string' }, (request, body, done) => done(null, body))
        app.register(fastifyPlugin, { database: pool, scope: () => 'test', maxBody: 1000 })
        app.register(async (shop) => { shop.post('/', async (request) => ({ length: request.body?.length ?? 0 })) })
        await app.ready()
        return app.server
    },
}

test('an empty body in chunks is a body', { timeout: 20_000 }, async () => {
    for (const [name, create] of Object.entries(lengthServers)) {
        const server = await create(http.createServer)
        await withServer({ listen: (...args) => server.listen(...args) }, async (port) => {
            const socket = net.connect(port, '127.0.0.1')
            socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nIdempotency-Key: ${newKey()}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`)
            const [head] = await once(socket, 'data')
            socket.destroy()
            assert.match(head.toString(), /^HTTP\/1.1 200 /, name)
        })
    }
})

/** → { status, headers, body }, over HTTP/2 and without content-length. */
async function post2(session, key, body, endStream = false) {
    const stream = session.request({ ':method': 'POST', ':path': '/', 'content-type': 'text/plain', 'idempotency-key': key }, { endStream })
    if (!endStream) stream.end(body)
    const [headers] = await once(stream, 'response')
    const chunks = []
    for await (const chunk of stream) chunks.push(chunk)
    return { status: headers[':status'], headers, body: Buffer.concat(chunks) }
}

test('over HTTP/2 a body without content-length is read, is a part of the fingerprint, and has its limit', { timeout: 20_000 }, async () => {
    for (const name of ['koa', 'fastify']) {
        const server = await lengthServers[name](http2.createServer)
        server.listen(0, '127.0.0.1')
        await once(server, 'listening')
        const session = http2.connect(`http://127.0.0.1:${server.address().port}`)
        const key = newKey()
        assert.deepEqual(JSON.parse((await post2(session, newKey(), '', true)).body), { length: 0 }, name)
        for (const body of ['', 'a', 'x'.repeat(1000)]) assert.deepEqual(JSON.parse((await post2(session, newKey(), body)).body), { length: body.length }, name)
        assert.equal((await post2(session, key, 'first')).status, 200)
        assert.equal((await post2(session, key, 'first')).headers['idempotent-replayed'], 'true')
        assert.equal((await post2(session, key, 'other')).status, 422)
        assert.equal((await post2(session, newKey(), 'x'.repeat(1001))).status, 413)
        session.destroy()
        server.close()
    }
})

test('a route that the router does not have is the next one\'s, claims nothing, and is reported as passed', async () => {
    for (const lease of [undefined, '30 s']) {
        const app = express(), outcomes = [], lines = []
        const options = { database: pool, scope: () => 'test', lease, onOutcome: (outcome) => outcomes.push(outcome), logger: { info: (line) => lines.push(line), error() {} } }
        app.use(idempotency(options)(express.Router()))
        await withServer(app, async (port) => {
            const key = newKey()
            assert.equal((await post(port, '/nowhere', { key })).status, 404)
            assert.deepEqual(outcomes.map(({ outcome, status }) => [outcome, status]), [['passed', undefined]])
            assert.deepEqual(lines, [`idem: passed POST /nowhere key=${key} status=-`])
            const states = await rows(`SELECT state FROM idem.idem_lookup($1, 'test')`, [key])
            assert.deepEqual(states, lease ? [{ state: 'released' }] : [])
        })
    }
})

test('the client of a transaction that is over raises', async () => {
    let kept
    await withServer(application({}, async (req, res) => {
        kept = req.idem.client
        await insert(kept, 'kept')
        res.status(201).end()
    }), async (port) => {
        assert.equal((await post(port, '/', { key: newKey() })).status, 201)
        assert.throws(() => kept.query('SELECT 1'), (error) => error instanceof TypeError && /the transaction is over: use your own connection/.test(error.message))
    })
})

test('a handler that ends the transaction is not answered as if it were stored', () => withServer(application({}, async (req, res) => {
    await req.idem.client.query('ROLLBACK')
    res.status(201).end()
}), async (port) => {
    assert.equal((await post(port, '/', { key: newKey() })).status, 500)
}))

test('a deferred constraint that fails at COMMIT is 500, and the key is free', async () => {
    await pool.query('CREATE TABLE deferred (id int PRIMARY KEY, other int REFERENCES deferred DEFERRABLE INITIALLY DEFERRED)')
    await withServer(application({}, async (req, res) => {
        await req.idem.client.query('INSERT INTO deferred VALUES (1, 2)')
        res.status(201).end()
    }), async (port) => {
        const key = newKey()
        assert.equal((await post(port, '/', { key })).status, 500)
        assert.deepEqual(await rows(`SELECT FROM idem.idem_lookup($1, 'test')`, [key]), [])
    })
})

test('a serialization failure at COMMIT is 503', () => withServer(application({}, async (req, res) => {
    await req.idem.client.query(`CREATE FUNCTION pg_temp.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING ERRCODE = '40001'; END $$`)
    await req.idem.client.query('CREATE TEMP TABLE late (id int)')
    await req.idem.client.query('CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.fail()')
    await req.idem.client.query('INSERT INTO late VALUES (1)')
    res.status(201).end()
}), async (port) => {
    const response = await post(port, '/', { key: newKey() })
    assert.deepEqual([response.status, response.headers['retry-after']], [503, '1'])
}))

test('a database that cannot be reached is 503', async () => {
    const nowhere = new pg.Pool({ host: '/nonexistent' })
    await withServer(application({ database: nowhere }), async (port) => {
        const response = await post(port, '/', { key: newKey() })
        assert.deepEqual([response.status, response.headers['retry-after'], JSON.parse(response.body).code], [503, '1', 'unavailable'])
    })
    await nowhere.end()
})

test('a status that the scope does not store is rolled back, and sent', async () => {
    await pool.query(`SELECT idem.idem_http_scope_set('picky', unstored_statuses => '{429}')`)
    await withServer(application({ scope: () => 'picky' }, async (req, res) => {
        await insert(req.idem.client, 'picky')
        res.status(429).json({ slow: 'down' })
    }), async (port) => {
        const key = newKey()
        for (let repetition = 0; repetition < 2; repetition++) {
            const response = await post(port, '/', { key })
            assert.deepEqual([response.status, response.headers['idempotent-replayed']], [429, undefined])
        }
        assert.equal(await count('picky'), 0)
    })
})

test('a method with which the scope does not use the key runs each time', async () => {
    await pool.query(`SELECT idem.idem_http_scope_set('ignoring', ignored_methods => '{DELETE}')`)
    const statuses = []
    for (const lease of [undefined, '30 s']) {
        const keys = []
        const handler = async (req, res) => {
            keys.push(req.idem.key)
            res.status(200).json({})
        }
        await withServer(application({ scope: () => 'ignoring', lease }, handler), async (port) => {
            const key = newKey()
            for (let repetition = 0; repetition < 2; repetition++) statuses.push((await post(port, '/', { key, method: 'DELETE' })).status)
        })
        assert.deepEqual(keys, [null, null])
    }
    assert.deepEqual(statuses, [200, 200, 200, 200])
})

test('where the scope echoes the key, each response has it: that of the handler, stored or not, and those of idem', async () => {
    await pool.query(`SELECT idem.idem_http_scope_set('echoing', profile => 'acp')`)
    for (const lease of [undefined, '30 s']) {
        await withServer(application({ scope: () => 'echoing', lease }, (req, res) => res.status(Number(req.query.status)).json({})), async (port) => {
            const key = newKey()
            const send = async (status, field) => {
                const response = await post(port, `/?status=${status}`, { key: field, body: JSON.stringify({ status }) })
                return [response.status, response.headers['idempotency-key'], response.headers['idempotent-replayed']]
            }
            assert.deepEqual(await send(503, key), [503, key, undefined])
            assert.deepEqual(await send(201, key), [201, key, undefined])
            assert.deepEqual(await send(201, key), [201, key, 'true'])
            assert.deepEqual(await send(202, key), [422, key, undefined])
            assert.deepEqual(await send(201), [400, undefined, undefined])
        })
    }
})

test('a connection that is lost after COMMIT: what was committed is sent', () => withCutPool('after', (database) => withServer(application({ database }), async (port) => {
    const key = newKey()
    const response = await post(port, '/?item=lost-after', { key })
    assert.deepEqual([response.status, response.headers['idempotent-replayed'], JSON.parse(response.body)], [201, undefined, { item: 'lost-after' }])
    assert.equal((await post(port, '/?item=lost-after', { key })).headers['idempotent-replayed'], 'true')
    assert.equal(await count('lost-after'), 1)
})))

test('a connection that is lost before COMMIT: 503, and a repetition runs', () => withCutPool('before', (database) => withServer(application({ database }), async (port) => {
    const key = newKey()
    const response = await post(port, '/?item=lost-before', { key })
    assert.deepEqual([response.status, response.headers['retry-after'], JSON.parse(response.body).code], [503, '1', 'not_committed'])
    assert.equal(await count('lost-before'), 0)
    assert.equal((await post(port, '/?item=lost-before', { key })).status, 201)
    assert.equal(await count('lost-before'), 1)
})))

test('leased mode: a response whose connection is lost is stored again, and the work of withResponse is done once', async () => {
    let commits
    const isSecondCommit = (data) => data.includes('COMMIT') && ++commits === 2
    for (const [item, when, isStatement] of [
        ['lease-complete', 'before', (data) => data.includes('idem_http_complete')], ['lease-before-commit', 'before', isSecondCommit], ['lease-after-commit', 'after', isSecondCommit],
    ]) {
        commits = 0
        await withCutPool(when, (database) => withServer(application({ database, lease: '30 s' }, (req, res) => {
            req.idem.withResponse((client) => insert(client, item))
            res.status(201).end()
        }), async (port) => {
            const key = newKey()
            assert.equal((await post(port, '/', { key })).status, 201, item)
            assert.equal((await post(port, '/', { key })).headers['idempotent-replayed'], 'true', item)
            assert.equal(await count(item), 1, item)
        }), isStatement)
    }
})

test('leased mode: a serialization failure while the response is stored is 503', () => withServer(application({ lease: '30 s' }, (req, res) => {
    req.idem.withResponse((client) => client.query(`DO $$ BEGIN RAISE 'no' USING ERRCODE = '40001'; END $$`))
    res.status(201).end()
}), async (port) => {
    const response = await post(port, '/', { key: newKey() })
    assert.deepEqual([response.status, JSON.parse(response.body).code], [503, 'serialization_failure'])
}))

test('a connection that is lost in a call on a pool rejects the call, and the process goes on', () => withCutPool('before', async (database) => {
    const idem = new Idem(database)
    await assert.rejects(idem.claim('lost in a call'))
    assert.equal(await idem.claim('lost in a call'), true)
}, (data) => data.includes('idem_claim')))

test('a handler that writes in pieces', () => withServer(application({}, (req, res) => {
    res.writeHead(201, 'Made', { 'Content-Type': 'text/plain', 'X-A': ['1', '2'] })
    res.write('a')
    res.write('b')
    res.end('c')
}), async (port) => {
    const key = newKey()
    const first = await post(port, '/', { key }), again = await post(port, '/', { key })
    assert.deepEqual([first.status, first.body.toString(), first.headers['x-a']], [201, 'abc', '1, 2'])
    assert.deepEqual([again.status, again.body.toString(), again.headers['content-type']], [201, 'abc', 'text/plain'])
}))

test('a connection that the server ends in a silent handler ends the request, and gives the slot back', { timeout: 20_000 }, async () => {
    const one = new pg.Pool({ max: 1, options: '-c idle_in_transaction_session_timeout=200ms' })
    await withServer(application({ database: one }, async (req, res) => {
        if (req.query.item) res.status(201).end()
    }), async (port) => {
        const response = await post(port, '/', { key: newKey() })
        assert.deepEqual([response.status, response.headers['retry-after'], JSON.parse(response.body).code], [503, '1', 'unavailable'])
        assert.equal((await post(port, '/?item=next', { key: newKey() })).status, 201)
    })
    await one.end()
})

test('the middleware mounted twice claims once: nested, in a Router, and for two Routers in sequence', async () => {
    const one = new pg.Pool({ max: 1 })
    const idempotent = idempotency({ database: one, scope: () => 'test', logger: quiet })
    const inner = express.Router().use(express.json())
    inner.post('/nested', idempotent(async (req, res) => {
        await insert(req.idem.client, 'nested')
        res.status(201).json(req.body)
    }))
    const first = express.Router().use(express.json()), second = express.Router().use(express.json())
    first.post('/first', (req, res) => res.status(201).json(req.body))
    second.post('/second', (req, res) => res.status(201).json(req.body))
    const app = express()
    app.use('/a', idempotent(inner))
    app.use('/b', idempotent(first), idempotent(second))
    app.use((error, req, res, next) => res.status(500).end())
    await withServer(app, async (port) => {
        for (const path of ['/a/nested', '/b/first', '/b/second']) {
            const key = newKey(), body = '{"a":1}'
            const response = await post(port, path, { key, body }), again = await post(port, path, { key, body })
            assert.deepEqual([response.status, response.body.toString(), again.status, again.headers['idempotent-replayed']], [201, body, 201, 'true'], path)
        }
        assert.equal(await count('nested'), 1)
    })
    await one.end()
})

test('several handlers in idempotent() run one after another; a wrong use fails loudly', async () => {
    const idempotent = idempotency({ database: pool, scope: () => 'test', logger: quiet })
    const app = express()
    const validate = (req, res, next) => (req.query.item ? next() : res.status(422).end())
    app.post('/', idempotent(validate, [async (req, res) => {
        await insert(req.idem.client, req.query.item)
        res.status(201).end()
    }]))
    app.use('/wrong', idempotency({ database: pool, scope: () => 'test' }))
    app.use((error, req, res, next) => res.status(500).json({ error: error.message }))
    await withServer(app, async (port) => {
        assert.equal((await post(port, '/?item=several', { key: newKey() })).status, 201)
        assert.equal((await post(port, '/', { key: newKey() })).status, 422)
        assert.equal(await count('several'), 1)
        const { status, body } = await post(port, '/wrong')
        assert.equal(status, 500)
        assert.match(body.toString(), /idempotency\(options\) is no middleware.*app\.use\(idempotent\(router\)\)/)
    })
    for (const wrong of [[], [undefined], [(error, req, res, next) => next(error)]]) assert.throws(() => idempotent(...wrong), TypeError)
})

test('a response over maxResponse is streamed, and not stored', async () => {
    const lines = []
    const handler = async (req, res) => {
        await insert(req.idem.client, req.query.item)
        res.status(200).type('bin')
        await pipeline(Readable.from((function* () { for (let part = 0; part < 50; part++) yield Buffer.alloc(20_000, part) })()), res)
    }
    const whole = Buffer.concat(Array.from({ length: 50 }, (_, part) => Buffer.alloc(20_000, part)))
    for (const [oversize, maxResponse, statuses, orders] of [['omit', 900_000, [200, 200], 1], ['rollback', 100_000, [500, 500], 0]]) {
        if (oversize === 'omit' && !(await hasOmit(pool))) continue
        await withServer(application({ oversize, maxResponse, logger: { info() {}, error() {}, warn: (line) => lines.push(line) } }, handler), async (port) => {
            const key = newKey(), item = `large-${oversize}`
            const first = await post(port, `/?item=${item}`, { key }), again = await post(port, `/?item=${item}`, { key })
            assert.deepEqual([first.status, again.status], statuses)
            if (oversize === 'omit') assert.deepEqual(first.body, whole)
            assert.equal(await count(item), orders)
        })
    }
})

test('COMMIT by the handler is refused: the middleware ends the transaction', () => withServer(application({}, async (req, res) => {
    for (const text of ['COMMIT', ' rollback', 'BEGIN', { text: 'end' }]) assert.throws(() => req.idem.client.query(text), TypeError)
    await req.idem.client.query('SAVEPOINT a')
    await req.idem.client.query('ROLLBACK TO a')
    res.status(201).end()
}), async (port) => assert.equal((await post(port, '/', { key: newKey() })).status, 201)))

test('fingerprint, keyFrom, skip, onError, storeErrors and current()', async () => {
    const options = {
        fingerprint: (req, body) => (req.query.parts ? Buffer.from(req.query.parts) : undefined),
        keyFrom: (req, body) => (body.length > 0 && body.toString().startsWith('{') ? JSON.parse(body).id : null),
        skip: (req) => req.query.skip === '1',
        onError: ({ status, code }) => ({ headers: { 'x-own': '1' }, body: { status, own: code } }),
        storeErrors: [402],
    }
    await withServer(application(options, async (req, res) => {
        if (req.query.declined) throw Object.assign(new Error('declined'), { status: 402 })
        assert.equal(current(), req.idem)
        res.status(201).json({ key: req.idem?.key ?? null })
    }), async (port) => {
        const key = newKey()
        assert.equal((await post(port, '/?parts=a', { key, body: 'boundary 1' })).status, 201)
        assert.equal((await post(port, '/?parts=a', { key, body: 'boundary 2' })).headers['idempotent-replayed'], 'true')
        const mismatch = await post(port, '/?parts=b', { key, body: 'boundary 3' })
        assert.deepEqual([mismatch.status, mismatch.headers['x-own'], JSON.parse(mismatch.body)], [422, '1', { status: 422, own: 'mismatch' }])
        const id = newKey(), body = JSON.stringify({ id })
        assert.deepEqual(JSON.parse((await post(port, '/', { body })).body), { key: id })
        assert.equal((await post(port, '/', { body })).headers['idempotent-replayed'], 'true')
        assert.deepEqual(JSON.parse((await post(port, '/?skip=1', { body })).body), { key: null })
        assert.equal(current(), undefined)
    })
    const app = express()
    app.post('/', idempotency({ database: pool, scope: () => 'test', storeErrors: [402], logger: quiet })(async (req) => {
        await insert(req.idem.client, 'declined')
        throw Object.assign(new Error('declined'), { status: Number(req.query.status) })
    }))
    app.use((error, req, res, next) => res.status(error.status).json({ error: error.message }))
    await withServer(app, async (port) => {
        const key = newKey()
        assert.deepEqual([(await post(port, '/?status=402', { key })).status, (await post(port, '/?status=402', { key })).headers['idempotent-replayed']], [402, 'true'])
        assert.equal((await post(port, '/?status=404', { key: newKey() })).status, 404)
        assert.equal(await count('declined'), 1)
    })
})

test('a lease that ran out while the event loop was busy is lost: the signal says so at once', { timeout: 60_000 }, async () => {
    let seen
    await withServer(application({ lease: '500 ms' }, (req, res) => {
        const end = performance.now() + 700
        while (performance.now() < end);
        seen = req.idem.signal.aborted
        res.status(201).end()
    }), async (port) => {
        await post(port, '/', { key: newKey() })
        assert.equal(seen, true)
    })
})

test('a claim that waits for a connection longer than its lease gets it, and the work runs', { timeout: 60_000 }, async () => {
    const one = new pg.Pool({ max: 1 })
    await withServer(application({ database: one, lease: '1 s' }, (req, res) => res.status(201).end()), async (port) => {
        const busy = await one.connect()
        setTimeout(() => busy.release(), 1500)
        assert.equal((await post(port, '/', { key: newKey() })).status, 201)
    })
    await one.end()
})
