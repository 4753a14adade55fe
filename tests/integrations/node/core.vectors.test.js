// The vectors that all languages replay.

import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import net from 'node:net'
import { test } from 'node:test'
import express from 'express'
import { idempotency } from 'idem-postgres/express'
import { post } from './server.js'

const require = createRequire(import.meta.url)
// The machine is no part of the package's interface.
const { Lease } = require('./node_modules/idem-postgres/lib/lease.js')
// This file runs in build/npm/integrations-node/integrations/node.
const vectors = (name) => JSON.parse(readFileSync(new URL(`../../../../../tests/vectors/${name}.json`, import.meta.url), 'utf8')).cases

for (const { name, lease, script } of vectors('lease')) {
    test(`lease: ${name}`, () => {
        const machine = new Lease(lease)
        for (const { at, event, asks, due } of script) {
            assert.deepEqual(machine[event](at), asks, `${event} at ${at}`)
            assert.equal(machine.due, due, `due after ${event} at ${at}`)
        }
    })
}

/** A pool of pg that answers as the script says, and notes the calls. */
class ScriptedPool {
    calls = []
    totalCount = 0
    held = 0
    #script
    #isLookingUp = false

    constructor(script) {
        this.#script = [...script]
    }

    async connect() {
        this.held++
        return this.client = new ScriptedClient(this)
    }

    query(text) {
        assert.fail(text)
    }

    note(call) {
        if (!this.#isLookingUp || call === 'replay') this.calls.push(call)
    }

    answer(asked, client) {
        const call = asked === 'begin' && this.#isLookingUp ? 'replay' : asked
        this.note(call)
        const next = this.#script.shift()
        assert.equal(next?.call, call.split(' ')[0], `the ${call} after ${this.calls}`)
        if (next.answer.lost) {
            this.#isLookingUp ||= call === 'commit' && this.isTransactional
            client.lose()
        }
        if (next.answer.sqlstate) throw Object.assign(new Error(`error ${next.answer.sqlstate}`), { code: next.answer.sqlstate, severity: 'ERROR' })
        return next.answer
    }
}

class ScriptedClient extends EventEmitter {
    #pool
    #isOpen = false

    constructor(pool) {
        super()
        this.#pool = pool
    }

    lose() {
        const error = new Error('Connection terminated unexpectedly')
        this.emit('error', error)
        throw error
    }

    async query(text) {
        if (text === 'BEGIN') this.#isOpen = true
        else if (text === 'ROLLBACK') this.#end('rollback')
        else if (text === 'COMMIT') {
            this.#isOpen = false
            return { command: this.#pool.answer('commit', this) === 'ok' ? 'COMMIT' : 'ROLLBACK' }
        } else if (text === 'LOSE') this.lose()
        else if (text.includes('idem_http_begin')) return { rows: [this.#begun(this.#pool.answer('begin', this))] }
        else if (text.includes('idem_http_complete')) return { rows: [{ stored: this.#pool.answer(text.includes('omit =>') ? 'complete omit' : 'complete', this) }] }
        else if (text.includes('idem_lookup')) return { rows: [{ attempt: 1 }] }
        else if (text.includes('idem_release')) this.#pool.answer('release', this)
        else assert.fail(text)
        return { rows: [] }
    }

    release() {
        this.#end('rollback')
        this.#pool.held--
    }

    // A connection that is closed rolls back.
    #end(call) {
        if (this.#isOpen) this.#pool.note(call)
        this.#isOpen = false
    }

    #begun({ action, status, code = null, body, fence = null }) {
        const headers = { ...(action === 'replay' && { 'Idempotent-Replayed': 'true' }), ...(code === 'in_flight' && { 'Retry-After': '1' }) }
        return { action, status, code, headers: JSON.stringify(headers), body_bytes: Buffer.from(body ?? JSON.stringify({ code })), fence: fence === null ? null : String(fence),
            key: code === 'unkeyed' ? null : 'k' }
    }
}

const skipped = {
    'a background task does not run when the transaction was rolled back': 'Express has no background tasks',
    'a background task runs after the COMMIT': 'Express has no background tasks',
}

/** What the handler of a script does. */
async function play({ handler, pool, seen }, req, res) {
    seen.ran++
    seen.client = req.idem.client
    if (handler.throws) throw new Error(handler.throws)
    if (handler.throws_status) throw Object.assign(new Error('refused'), { status: handler.throws_status })
    if (handler.throws_sqlstate) throw Object.assign(new Error('failed'), { code: handler.throws_sqlstate, severity: 'ERROR' })
    if (handler.loses_connection) await req.idem.client.query('LOSE')
    if (handler.connection_lost) setTimeout(() => assert.throws(() => pool.client.lose()), 20)
    if (handler.silent) return
    if (handler.gone === 'work') {
        const left = once(req.socket, 'close')
        seen.leave()
        await left
    }
    if (handler.streams) {
        res.status(handler.streams.status)
        for (const length of handler.streams.chunks) {
            res.write('x'.repeat(length))
            await new Promise(setImmediate)
        }
        return res.end()
    }
    res.status(handler.responds.status).set(handler.responds.headers ?? {}).send(handler.responds.body)
}

for (const { name, mode, options, key, database, handler, expect } of vectors('http_flow')) {
    test(`http flow: ${name}`, { skip: skipped[name], timeout: 10_000 }, async () => {
        const pool = Object.assign(new ScriptedPool(database), { isTransactional: mode === 'transactional' })
        const [over, end] = event()
        const [left, leave] = event()
        const seen = { ran: 0, leave, maxResponse: options.maxResponse }
        const lease = options.lease === undefined ? undefined : `${options.lease} ms`
        const idempotent = idempotency({ database: pool, scope: () => 'test', ...options, lease, logger: { info() {}, error() {} }, onOutcome: end })
        const app = express()
        let wrapped = idempotent((req, res) => play({ handler, pool, seen }, req, res))
        for (let mounted = 1; mounted < (handler.mounted ?? 1); mounted++) wrapped = idempotent(wrapped)
        app.post('/', wrapped)
        app.use((error, req, res, next) => res.status(error.status ?? 500).set('X-Framework', '1').end())
        const server = app.listen(0, '127.0.0.1')
        await once(server, 'listening')
        const { port } = server.address()
        try {
            if (handler.gone === 'body') {
                const socket = net.connect(port, '127.0.0.1')
                socket.write('POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: "k"\r\nContent-Length: 10\r\n\r\nabc', () => setTimeout(() => socket.destroy(), 20))
                await over
            } else if (handler.gone === 'work') {
                await assert.rejects(post(port, '/', { key, cut: left }))
                await over
            } else check(expect.sent, await post(port, '/', { key: key ?? undefined }))
            assert.deepEqual(pool.calls, expect.calls)
            assert.equal(seen.ran, expect.ran)
            assert.equal(pool.held, 0, 'each connection is given back')
            if (expect.sent?.late_write) assert.throws(() => seen.client.query('LATE'), /the transaction is over/)
        } finally {
            server.closeAllConnections()
            server.close()
        }
    })
}

function check(sent, { status, headers, body }) {
    if (sent === 'framework') return assert.equal(headers['x-framework'], '1')
    assert.equal(status, sent.status)
    assert.equal(headers['x-framework'], undefined)
    if (sent.code) assert.equal(JSON.parse(body).code, sent.code)
    if (sent.body) assert.equal(body.toString(), sent.body)
    if (sent.length) assert.equal(body.length, sent.length)
    assert.equal(headers['idempotent-replayed'], sent.replayed ? 'true' : undefined)
    if (sent.retry_after) assert.equal(headers['retry-after'], '1')
}

/** A promise, and what resolves it. */
function event() {
    let happen
    const happened = new Promise((resolve) => { happen = resolve })
    return [happened, happen]
}
