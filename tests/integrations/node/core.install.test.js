// The package carries the portable edition: installed by a function, by a command, and into PGlite.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import { Idem, IdemError, install, leased, once, script, status, uninstall, verify } from 'idem-postgres'
import { fromKnex } from 'idem-postgres/knex'
import { idempotency } from 'idem-postgres/web'
import knex from 'knex'
import pg from 'pg'
import postgres from 'postgres'
import { Sequelize } from 'sequelize'
import { DataSource } from 'typeorm'

const pool = new pg.Pool()
after(() => pool.end())

/** The command, as npx finds it. */
async function run(...words) {
    const done = await promisify(execFile)('node_modules/idem-postgres/bin.js', words, { maxBuffer: 2 ** 22 }).catch((error) => error)
    return { code: done.code ?? 0, stdout: done.stdout.trim(), stderr: done.stderr.trim() }
}

const haveVersion = (database, schema, version) => database.query(
    `CREATE OR REPLACE FUNCTION ${schema}.idem_version(OUT edition text, OUT version text, OUT server text) LANGUAGE sql AS $$ SELECT 'portable', '${version}', '' $$`)

test('where idem is missing, the error and the log say how to install it', async () => {
    const lines = []
    const logger = { info() {}, error: (line) => lines.push(line) }
    const database = new PGlite()
    const how = /idem is not installed here.*await install\(database\)/
    await assert.rejects(once(database, 'k', {}, async () => 1), (error) => error instanceof IdemError && how.test(error.message) && error.sqlstate === '3F000')
    const handler = idempotency({ database, scope: () => 'test', logger })(() => new Response('never'))
    assert.equal((await handler(new Request('http://test/', { method: 'POST', headers: { 'Idempotency-Key': '"k"' } }))).status, 500)
    assert.match(lines.join(), how)
    await database.exec('CREATE SCHEMA idem')
    await assert.rejects(new Idem(database).claim('k'), (error) => how.test(error.message) && error.sqlstate === '42883')
    await database.close()
})

test('pods that start at once queue, and each finds idem installed', async () => {
    const pods = Array.from({ length: 4 }, () => new pg.Pool({ max: 1 }))
    const found = await Promise.all(pods.map((pod) => install(pod, { schema: 'pods' })))
    assert.deepEqual(found, Array(4).fill({ schema: 'pods', edition: 'portable', version: '1.0.0', packaged: '1.0.0', needs: null }))
    assert.equal(await new Idem(pods[0], { schema: 'pods' }).claim('k'), true)
    await uninstall(pods[0], { schema: 'pods' })
    assert.equal((await status(pods[0], { schema: 'pods' })).needs, 'install')
    await Promise.all(pods.map((pod) => pod.end()))
})

test('a Client and postgres.js install it, too, and a failure leaves nothing', async () => {
    const client = new pg.Client(), sql = postgres({ max: 1, host: process.env.PGHOST, onnotice() {} })
    await client.connect()
    for (const database of [client, sql]) {
        assert.equal((await install(database, { schema: 'of a "driver"' })).needs, null)
        await uninstall(database, { schema: 'of a "driver"' })
    }
    await client.query('CREATE SCHEMA occupied; CREATE TABLE occupied.mine (n int)')
    for (const database of [client, sql, pool]) await assert.rejects(install(database, { schema: 'occupied' }), { code: '55000' })
    assert.equal((await client.query('SELECT 1 AS n')).rows[0].n, 1)
    await client.query('DROP SCHEMA occupied CASCADE')
    await Promise.all([client.end(), sql.end()])
})

test('where the extension is, nothing is installed', async () => {
    const found = await status(pool)
    assert.deepEqual({ ...found, edition: 'c' }, { schema: 'idem', edition: 'c', version: '1.0.0', packaged: '1.0.0', needs: null })
    await verify(pool)
    if (found.edition === 'c') assert.deepEqual(await install(pool), found)
    else await assert.rejects(install(pool), { code: '42501' }) // it is another role's
})

test('a schema that another role made is not trusted: none of its code runs', async () => {
    await pool.query(await readFile(`${process.env.SHARED}/squatter.sql`, 'utf8'))
    try {
        await assert.rejects(install(pool, { schema: 'squatted' }), { code: '42501' })
        assert.equal((await status(pool, { schema: 'squatted' })).version, '9.0.0')
        await verify(pool, { schema: 'squatted' })
        assert.match((await run('install', '--schema', 'squatted')).stderr, /must be owner of schema squatted/)
        await pool.query('ALTER SCHEMA squatted OWNER TO CURRENT_USER')
        await assert.rejects(install(pool, { schema: 'squatted' }), { code: '55000' })
        assert.deepEqual((await pool.query('SELECT * FROM squatted.callers')).rows, [])
    } finally {
        await pool.query('DROP SCHEMA squatted CASCADE; DROP ROLE squatter')
    }
})

test('an application learns at its start that idem is missing or old', async () => {
    await assert.rejects(verify(pool, { schema: 'nowhere' }), { name: 'IdemError', message: 'idem is not installed in schema "nowhere"; run: npx idem-postgres install' })
    await install(pool, { schema: 'old' })
    await haveVersion(pool, 'old', '0.9.12')
    assert.equal((await status(pool, { schema: 'old' })).needs, 'upgrade')
    await assert.rejects(verify(pool, { schema: 'old' }), { message: 'schema "old" has idem 0.9.12, which is older than this package (1.0.0); run: npx idem-postgres upgrade' })
    assert.equal((await install(pool, { schema: 'old' })).version, '1.0.0')
    await haveVersion(pool, 'old', '1.10.0')
    await verify(pool, { schema: 'old' })
    await assert.rejects(install(pool, { schema: 'old' }), IdemError)
    await haveVersion(pool, 'old', '1.0.0')
    await uninstall(pool, { schema: 'old' })
})

test('a wrong use says what to write', async () => {
    await assert.rejects(install(pool, { Schema: 'x' }), /unknown option "Schema"; the options are schema/)
    await assert.rejects(install({}, {}), /must be a Pool of pg/)
    await assert.rejects(install(fromKnex({}), {}), /must be the driver's own/)
})

test('the command', async () => {
    const inSchema = ['--schema', 'by command']
    assert.deepEqual(await run('status', ...inSchema), { code: 1, stdout: 'schema "by command": idem is not installed; this package: 1.0.0; run: idem-postgres install', stderr: '' })
    assert.deepEqual(await run('upgrade', ...inSchema), { code: 1, stdout: '', stderr: 'idem-postgres: idem is not installed in schema "by command"; run: idem-postgres install' })
    assert.deepEqual(await run('install', ...inSchema), { code: 0, stdout: '1.0.0 is installed', stderr: '' })
    assert.deepEqual(await run('upgrade', ...inSchema), { code: 0, stdout: '1.0.0 is installed', stderr: '' })
    assert.deepEqual(await run('status', ...inSchema), { code: 0, stdout: 'schema "by command": idem 1.0.0, edition portable; this package: 1.0.0', stderr: '' })
    assert.deepEqual(await run('uninstall', ...inSchema), { code: 0, stdout: 'idem is gone', stderr: '' })
    assert.match((await run('sql')).stdout, /^-- idem 1\.0\.0, the portable edition/)
    for (const words of [[], ['installs'], ['status', 'a', 'b'], ['status', '--scheme', 'x']]) {
        const { code, stderr } = await run(...words)
        assert.equal(code, 2)
        assert.match(stderr, /usage: idem-postgres COMMAND/)
    }
    assert.match((await run('status', 'postgresql://127.0.0.1:1/x')).stderr, /^idem-postgres: .*ECONNREFUSED/)
})

/** In a database of its own: calls migrate(url, text), which is to install idem. */
async function inDatabase(name, migrate) {
    await pool.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await pool.query(`CREATE DATABASE ${name} TEMPLATE template0`)
    const own = new pg.Pool({ database: name, max: 1 })
    try {
        const before = process.env.PGDATABASE
        process.env.PGDATABASE = name
        try {
            await migrate(await script(), name)
        } finally {
            process.env.PGDATABASE = before
        }
        await verify(own)
        assert.equal(await new Idem(own).claim('k'), true)
    } finally {
        await own.end()
        // The connections that are being closed may take a while.
        const isInUse = async () => (await pool.query('SELECT 1 FROM pg_stat_activity WHERE datname = $1', [name])).rowCount > 0
        for (const end = Date.now() + 60_000; Date.now() < end && await isInUse();) await sleep(50)
        await pool.query(`DROP DATABASE ${name}`)
    }
}

test('migrations of Knex, Drizzle, TypeORM and Sequelize install it', async () => {
    await inDatabase('idem_by_knex', async (text) => {
        const db = knex({ client: 'pg', connection: {} })
        const migrationSource = { getMigrations: async () => ['idem'], getMigrationName: (name) => name, getMigration: async () => ({ up: (to) => to.raw(text), down() {} }) }
        await db.migrate.latest({ migrationSource })
        await db.destroy()
    })
    await inDatabase('idem_by_drizzle', async (text) => {
        const folder = await mkdtemp(join(tmpdir(), 'drizzle-'))
        await mkdir(join(folder, 'meta'))
        await writeFile(join(folder, '0000_idem.sql'), text)
        await writeFile(join(folder, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries: [{ idx: 0, version: '7', when: 1, tag: '0000_idem', breakpoints: true }] }))
        const client = new pg.Pool({ max: 1 })
        await migrate(drizzle(client), { migrationsFolder: folder })
        await client.end()
        await rm(folder, { recursive: true })
    })
    await inDatabase('idem_by_typeorm', async (text) => {
        class Idem1 {
            name = 'Idem1700000000000'
            up(runner) { return runner.query(text) }
            down() {}
        }
        const source = await new DataSource({ type: 'postgres', host: process.env.PGHOST, username: process.env.PGUSER, database: process.env.PGDATABASE, migrations: [Idem1] }).initialize()
        await source.runMigrations()
        await source.destroy()
    })
    await inDatabase('idem_by_sequelize', async (text, name) => {
        const sequelize = new Sequelize(name, process.env.PGUSER, '', { dialect: 'postgres', host: process.env.PGHOST, port: process.env.PGPORT, logging: false })
        await sequelize.getQueryInterface().sequelize.query(text)
        await sequelize.close()
    })
})

test('PGlite: keys, leases, the outbox and HTTP without a server', async () => {
    const database = new PGlite()
    await install(database)
    await database.exec('CREATE TABLE payments (id int GENERATED ALWAYS AS IDENTITY, amount int)')
    const pay = (amount = 5) => once(database, 'order 17', { scope: 'payments' }, async ({ client }) =>
        (await client.query('INSERT INTO payments (amount) VALUES ($1) RETURNING id, amount', [amount])).rows[0])
    const paid = await Promise.all([pay(), pay(), pay()])
    assert.deepEqual(paid.map(({ value, replayed }) => [value, replayed]), [[{ id: 1, amount: 5 }, false], [{ id: 1, amount: 5 }, true], [{ id: 1, amount: 5 }, true]])

    await assert.rejects(once(database, 'fails', {}, async ({ client }) => {
        await client.query('SELECT 1 / 0').catch(() => {})
    }))
    let kept
    await once(database, 'late', {}, async ({ client }) => { kept = client })
    await assert.rejects(async () => kept.query('SELECT 1'), /the transaction is over/)

    const work = async (lease) => {
        const charge = await lease.step('charge', async ({ key }) => ({ key }))
        return lease.write('order', async ({ client }) => (await client.query('INSERT INTO payments (amount) VALUES (7) RETURNING amount')).rows[0].amount + charge.key.length)
    }
    const first = await leased(database, 'k', {}, work), again = await leased(database, 'k', {}, work)
    assert.deepEqual([again.value, again.replayed], [first.value, true])

    const idem = new Idem(database)
    assert.deepEqual(await idem.claimMany(['a', 'b', 'a']), ['a', 'b'])
    await idem.publish('mail', { to: 'x' })
    const [message] = await idem.take('mail')
    assert.equal(await idem.ack([message.id], message.fence), 1)
    const lock = await idem.lock('cron')
    assert.equal(await idem.lock('cron'), null)
    assert.equal(await lock.unlock(), true)

    const POST = idempotency({ database, scope: () => 'web' })(async (request) => {
        const { rows: [row] } = await request.idem.client.query('INSERT INTO payments (amount) VALUES ($1) RETURNING id', [(await request.json()).amount])
        return Response.json(row, { status: 201 })
    })
    const send = (amount) => POST(new Request('http://shop/pay', { method: 'POST', headers: { 'Idempotency-Key': '"1"', 'Content-Type': 'application/json' }, body: JSON.stringify({ amount }) }))
    const [created, replayed, other] = [await send(9), await send(9), await send(8)]
    assert.deepEqual([created.status, replayed.status, replayed.headers.get('Idempotent-Replayed'), other.status], [201, 201, 'true', 422])
    assert.equal(await created.text(), await replayed.text())
    assert.equal((await database.query('SELECT count(*)::int AS n FROM payments')).rows[0].n, 3)
    await database.close()
})

test('PGlite: a transaction that has failed is not taken for a success', async () => {
    const database = new PGlite()
    await install(database)
    await database.exec('CREATE TABLE t (n int)')
    const POST = idempotency({ database, scope: () => 'web', keyRequired: false })(async (request) => {
        await request.idem.client.query('INSERT INTO t VALUES (1)')
        await request.idem.client.query('SELECT 1 / 0').catch(() => {})
        return new Response('done', { status: 200 })
    })
    const { status: code } = await POST(new Request('http://shop/', { method: 'POST' }))
    assert.equal(code, 500)
    assert.equal((await database.query('SELECT count(*)::int AS n FROM t')).rows[0].n, 0)
    await database.close()
})
