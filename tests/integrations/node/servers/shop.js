// What the servers have in common: the database, the options, and what the routes do.

import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import pg from 'pg'
import postgres from 'postgres'

const usesPostgresJs = process.env.DRIVER === 'postgres.js'
const connections = 8
export const database = usesPostgresJs ?
    postgres({ host: process.env.PGHOST, port: Number(process.env.PGPORT), max: connections, onnotice: () => {} }) :
    new pg.Pool({ max: connections })
const run = async (client, text, parameters) => (usesPostgresJs ? client.unsafe(text, parameters) : (await client.query(text, parameters)).rows)

/** `clientOf` returns the header X-Client of the framework's request. */
export const options = (clientOf) => ({
    database, scope: (request) => clientOf(request) ?? '', maxBody: 64 * 1024,
    logger: { info() {}, error: (line) => console.error(line) },
})

async function insertOrder(client, item) {
    const [{ id }] = await run(client, 'INSERT INTO orders (item) VALUES ($1) RETURNING id', [item])
    return id
}

async function placeOrder(client, { item, kind, pause, gate }) {
    if (pause) await sleep(pause)
    if (gate) await run(client, 'SELECT pg_advisory_xact_lock($1)::text', [gate])
    const id = await insertOrder(client, item)
    const answer = { zebra: id, apple: [{ b: 1, a: 2 }], 10: 'x', Mango: 1.50, item }
    switch (kind) {
    case 'gzip':
        return { status: 201, headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' }, body: gzipSync(JSON.stringify(answer)) }
    case 'pdf':
        return { status: 200, headers: { 'content-type': 'application/pdf' }, body: Buffer.from([...Buffer.from(`%PDF-1.7 ${id}\n`), 0, 255, 254, 128, 10, 13, 0]) }
    case 'empty':
        return { status: 204, headers: {} }
    default:
        return { status: 201, headers: { location: `/orders/${id}`, 'set-cookie': 'session=1' }, body: answer }
    }
}

async function insertAndAnswer(client, item, status) {
    await insertOrder(client, item)
    return { status, headers: {}, body: { status } }
}

/** What a path does: (client, the parsed body) → { status, headers, body }; no body, an object for JSON, or a Buffer. */
export const routes = {
    '/orders': placeOrder,
    '/own': (client, { item }) => insertAndAnswer(client, item, 201),
    async '/deadlock'(client, { item }) {
        await insertOrder(client, item)
        await run(client, `DO $$ BEGIN RAISE 'victim' USING ERRCODE = 'deadlock_detected'; END $$`, [])
    },
    '/text': (client) => insertAndAnswer(client, 'text', 201),
    async '/swallows'(client, { item }) {
        await insertOrder(client, item)
        await run(client, 'SELECT 1 / 0', []).catch(() => {})
        return { status: 201, headers: {}, body: { item } }
    },
}

/** For /breaks and /events: the work is half done when it fails. */
export const insertBeforeRefusal = (client, { item }) => insertOrder(client, item)

/** For /breaks: `raw` is the response of Node. */
export function writeAndFail(raw) {
    raw.writeHead(201, { 'content-type': 'text/plain', 'content-length': 100 })
    raw.write('partial')
    throw new Error('the handler fails after it has written')
}

export function listening(server) {
    console.log(server.address().port)
}
export const port = Number(process.env.PORT ?? 0)
