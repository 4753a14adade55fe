// The reference app of `idem http-test --reference` for Express: ../README.md has its routes.
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import pg from 'pg'
import { idempotency, keepRawBody } from 'idem-postgres/express'

const profile = process.env.PROFILE ?? 'ietf'
const database = new pg.Pool({ max: 3, application_name: 'conformance' }).on('error', () => {})
const own = new pg.Pool({ max: 2 }).on('error', console.error) // of the hooks and counts
await own.query('CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text)')
await own.query(`SELECT idem.idem_http_scope_set('conformance', profile => $1)`, [profile])

// acp and ucp have a space of keys for each operation of a client.
const isApart = profile === 'acp' || profile === 'ucp'
const scope = (req) => `conformance/${req.get('Authorization') ?? ''}${isApart ? ` ${req.method} ${req.path}` : ''}`
const logger = { info() {}, error: console.error }
const idempotent = idempotency({ database, scope, logger })
const leased = idempotency({ database, scope, logger, lease: '1 s', wait: '10 s' })

const runs = new Map() // how often a handler ran, whatever became of its transaction
const insert = async (client, key) => (await client.query('INSERT INTO effects (key) VALUES ($1) RETURNING id', [key])).rows[0].id

function begin(req) {
    runs.set(req.idem.key, (runs.get(req.idem.key) ?? 0) + 1)
    return req.body
}

const answer = (res, { item, status = 201, bytes = 0 }, id) =>
    res.status(status).location(`/orders/${id}`).type('json').send(JSON.stringify({ id, item }).padEnd(bytes))

async function work(req, res) {
    const body = begin(req)
    const id = await insert(req.idem.client, req.idem.key)
    if (body.pause) await sleep(body.pause)
    if (body.throw) throw Object.assign(new Error('thrown'), { status: body.throw })
    answer(res, body, id)
}

async function stream(req, res) {
    begin(req)
    const id = await insert(req.idem.client, req.idem.key)
    res.status(201).type('text')
    for (const part of ['a', 'b', `c ${id}`]) {
        res.write(part)
        await sleep(5)
    }
    res.end()
}

async function late(req, res) {
    await work(req, res)
    const { client, key } = req.idem
    setTimeout(() => insert(client, key).catch(() => {}), 200)
}

async function underLease(req, res) {
    const body = begin(req)
    const { key, fence } = req.idem
    if (body.pause) await sleep(body.pause)
    req.idem.withResponse((client) => insert(client, key))
    answer(res, body, Number(fence))
}

const app = express()
app.use(express.json({ verify: keepRawBody }))
app.route('/orders').post(idempotent(work)).put(idempotent(work))
app.post('/other', idempotent(work))
app.post('/stream', idempotent(stream))
app.post('/late', idempotent(late))
app.post('/double', idempotent(idempotent(work)))
app.post('/leased', leased(underLease))
app.get('/effects', async (req, res) => {
    const { rows: [{ count }] } = await own.query('SELECT count(*)::int FROM effects WHERE key = $1', [req.query.key])
    res.json({ count, runs: runs.get(req.query.key) ?? 0 })
})
app.post('/hooks/kill', () => process.kill(process.pid, 'SIGKILL'))
app.post('/hooks/disconnect', async (req, res) => {
    await own.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'`)
    res.sendStatus(204)
})
app.use((error, req, res, next) => (res.headersSent ? next(error) : res.status(error.status ?? 500).json({ error: error.message })))
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(server.address().port))
