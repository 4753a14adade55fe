// What the reference apps for Node have in common: the database, the work, the counts and the hooks. ../README.md has the routes.
import { setTimeout as sleep } from 'node:timers/promises'
import { install } from 'idem-postgres'
import pg from 'pg'

const profile = process.env.PROFILE ?? 'ietf'

async function embed() {
    const { PGlite } = await import('@electric-sql/pglite')
    const pglite = new PGlite()
    await install(pglite)
    return { own: pglite, database: pglite, isEmbedded: true }
}

const connect = () => ({
    // Of the hooks and counts. Its name is its own, because a pooler may give it a session that was the middleware's.
    own: new pg.Pool({ max: 2, application_name: 'conformance-hooks' }).on('error', console.error),
    database: new pg.Pool({ max: 3, application_name: 'conformance' }).on('error', () => {}),
})

const { own, database, isEmbedded } = process.env.DATABASE === 'pglite' ? await embed() : connect()
await own.query('CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text)')
await own.query(`SELECT idem.idem_http_scope_set('conformance', profile => $1)`, [profile])

// acp and ucp have a space of keys for each operation of a client.
const isApart = profile === 'acp' || profile === 'ucp'

/** The options of both middlewares. `describe` returns the header Authorization, the method and the path of the framework's request. */
export function optionsOf(describe) {
    const scope = (request) => {
        const [client, method, path] = describe(request)
        return `conformance/${client ?? ''}${isApart ? ` ${method} ${path}` : ''}`
    }
    const options = { database, scope, logger: { info() {}, error: console.error } }
    return [options, { ...options, lease: '1 s', wait: '10 s' }]
}

const runs = new Map() // how often a handler ran, whatever became of its transaction
const ran = ({ key }) => runs.set(key, (runs.get(key) ?? 0) + 1)
const insert = async ({ client, key }) => (await client.query('INSERT INTO effects (key) VALUES ($1) RETURNING id', [key])).rows[0].id

const answer = ({ item, status = 201, bytes = 0 }, id) =>
    ({ status, headers: { 'content-type': 'application/json', location: `/orders/${id}` }, body: JSON.stringify({ id, item }).padEnd(bytes) })

/** → { status, headers, body }. `errorOf` makes the framework's HTTP error of a status. */
export async function work(idem, input, errorOf) {
    ran(idem)
    const id = await insert(idem)
    if (input.pause) await sleep(input.pause)
    if (input.throw) throw errorOf(input.throw)
    return answer(input, id)
}

export async function late(idem, input, errorOf) {
    const { client, key } = idem
    setTimeout(() => insert({ client, key }).catch(() => {}), 200)
    return work(idem, input, errorOf)
}

export async function underLease(idem, input) {
    ran(idem)
    if (input.pause) await sleep(input.pause)
    idem.withResponse((client) => insert({ client, key: idem.key }))
    return answer(input, Number(idem.fence))
}

/** → the parts of a text, a moment apart. */
export async function stream(idem) {
    ran(idem)
    const id = await insert(idem)
    return (async function* () {
        for (const part of ['a', 'b', `c ${id}`]) {
            yield Buffer.from(part)
            await sleep(5)
        }
    })()
}

export async function effects(key) {
    const { rows: [{ count }] } = await own.query('SELECT count(*)::int FROM effects WHERE key = $1', [key])
    return { count, runs: runs.get(key) ?? 0 }
}

/** By path below /hooks. An embedded database goes with its process, and has no connection to cut. */
export const hooks = isEmbedded ? {} : {
    kill: () => process.kill(process.pid, 'SIGKILL'),
    disconnect: () => own.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'`),
    'lose-commit': () => process.kill(Number(process.env.CUTTER), 'SIGUSR1'),
}

export const port = Number(process.env.PORT ?? 0)
export const listening = (server) => console.log(server.address().port)
