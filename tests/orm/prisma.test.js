// docs/orm.md, Prisma.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, test } from 'node:test'
import { PrismaPg } from '@prisma/adapter-pg'
import { enableGuards, guards, rejection, sql, tablesOfIdem } from './recipes.js'

const directory = `${import.meta.dirname ?? process.cwd()}/prisma`
mkdirSync(directory, { recursive: true })
writeFileSync(`${directory}/schema.prisma`, `
generator client {
  provider = "prisma-client-js"
  output   = "./client"
}
datasource db {
  provider = "postgresql"
}
model Order {
  id      Int     @id
  state   String  @default("created")
  note    String?
  version Int     @default(1)
  @@map("orders")
}
`)
// Generating needs no schema engine, and would download it: a program is named in its place.
execFileSync(process.execPath, ['../node_modules/prisma/build/index.js', 'generate', '--schema', `${directory}/schema.prisma`],
    { cwd: `${directory}/..`, stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, CHECKPOINT_DISABLE: '1', PRISMA_HIDE_UPDATE_MESSAGE: '1',
        PRISMA_SCHEMA_ENGINE_BINARY: '/bin/false' } })
const { Prisma, PrismaClient } = createRequire(import.meta.url)('./prisma/client')

const createTable = () => sql(`CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL DEFAULT 'created', note text,
                                                    version int NOT NULL DEFAULT 1)`)
const prisma = new PrismaClient({ adapter: new PrismaPg({}) })
after(() => prisma.$disconnect())
await createTable()
await enableGuards()

// The PostgreSQL error is nested: in meta for what a client call raises, and for raw queries.
const sqlstate = (error) => error.meta?.driverAdapterError?.cause?.originalCode
const claim = async (handle, key) => (await handle.$queryRaw`SELECT idem.idem_claim(${key}) AS claimed`)[0].claimed
const create = (id) => prisma.order.create({ data: { id } })

test('Prisma: an update without the version is bumped by the guard, and returns the new version', async () => {
    await create(1)
    assert.equal((await prisma.order.update({ where: { id: 1 }, data: { note: 'a' } })).version, 2)
})

test('Prisma: { version: { increment: 1 } } passes the guard', async () => {
    await create(2)
    assert.equal((await prisma.order.update({ where: { id: 2 }, data: { note: 'a', version: { increment: 1 } } })).version, 2)
})

test('Prisma: the version in where is a compare-and-set: P2025, or a count of 0', async () => {
    await create(3)
    await sql("UPDATE orders SET note = 'other' WHERE id = 3")
    const data = { note: 'mine' }
    assert.equal((await rejection(prisma.order.update({ where: { id: 3, version: 1 }, data }))).code, 'P2025')
    assert.equal((await prisma.order.updateMany({ where: { id: 3, version: 1 }, data })).count, 0)
    assert.equal((await prisma.order.update({ where: { id: 3, version: 2 }, data })).version, 3)
})

test('Prisma: writing back the whole row that was read is ID004 when the row has changed', async () => {
    const row = await create(4)
    await prisma.order.update({ where: { id: 4 }, data: { ...row, note: 'a' } })
    const error = await rejection(prisma.order.update({ where: { id: 4 }, data: { ...row, note: 'b' } }))
    assert.equal(sqlstate(error), 'ID004')
})

test('Prisma: a state change that skips a transition is ID003 in meta.driverAdapterError.cause.originalCode', async () => {
    await create(5)
    const error = await rejection(prisma.order.update({ where: { id: 5 }, data: { state: 'shipped' } }))
    assert.equal(sqlstate(error), 'ID003')
    const raw = await rejection(prisma.$executeRaw`UPDATE orders SET state = 'shipped' WHERE id = 5`)
    assert.deepEqual([raw.code, sqlstate(raw)], ['P2010', 'ID003'])
})

test('Prisma: an update for each state change makes both transitions, also in a batch', async () => {
    await create(6)
    await prisma.$transaction(['paid', 'shipped'].map((state) => prisma.order.update({ where: { id: 6 }, data: { state } })))
    assert.deepEqual(await sql('SELECT state, version FROM orders WHERE id = 6'), [{ state: 'shipped', version: 3 }])
})

test('Prisma: a fixture in another state is ID003', async () => {
    assert.equal(sqlstate(await rejection(prisma.order.createMany({ data: [{ id: 7, state: 'shipped' }] }))), 'ID003')
})

test('Prisma: a fixture while the machine is detached; attaching checks its states', async () => {
    const load = (state) => prisma.$transaction(async (tx) => {
        await tx.$executeRaw`SELECT idem.idem_machine_detach('orders', 'state')`
        await tx.order.create({ data: { id: 8, state } })
        await tx.$executeRaw`SELECT idem.idem_machine_attach('orders', 'state', 'order')`
    })
    assert.equal(sqlstate(await rejection(load('no such state'))), '23514')
    await load('shipped')
    assert.equal(await guards(), 2)
})

test('Prisma: a claim belongs to the transaction whose client runs it', async () => {
    await rejection(prisma.$transaction(async (tx) => {
        assert.equal(await claim(tx, 'prisma 1'), true)
        throw new Error('the work fails')
    }))
    await prisma.$transaction((tx) => claim(tx, 'prisma 1'))
    assert.equal(await claim(prisma, 'prisma 1'), false)
})

test('Prisma: with the global client in its place the claim is committed although the work is rolled back', async () => {
    await rejection(prisma.$transaction(async () => {
        await claim(prisma, 'prisma 2')
        throw new Error('the work fails')
    }))
    assert.equal(await claim(prisma, 'prisma 2'), false)
})

test('Prisma: a false claim does not stop a batch', async () => {
    await prisma.$transaction([prisma.$queryRaw`SELECT idem.idem_claim('prisma 3')`, prisma.order.create({ data: { id: 9 } })])
    await prisma.$transaction([prisma.$queryRaw`SELECT idem.idem_claim('prisma 3')`, prisma.order.create({ data: { id: 10 } })])
    assert.deepEqual(await sql('SELECT count(*)::int AS orders FROM orders WHERE id IN (9, 10)'), [{ orders: 2 }])
})

test('Prisma: a batch that begins with idem_must_claim does its work once', async () => {
    const batch = (id) => prisma.$transaction([prisma.$queryRaw`SELECT idem.idem_must_claim('prisma 6')`, prisma.order.create({ data: { id } })])
    await batch(11)
    assert.equal(sqlstate(await rejection(batch(12))), 'ID006')
    assert.deepEqual(await sql('SELECT id FROM orders WHERE id IN (11, 12)'), [{ id: 11 }])
})

test('Prisma: $queryRaw reads what the functions for applications return', async () => {
    const one = async (handle, query) => (await handle.$queryRaw(query))[0]
    const { fence } = await one(prisma, Prisma.sql`SELECT fence FROM idem.idem_begin('prisma 7', lease => '1 minute'::interval)`)
    const busy = await one(prisma, Prisma.sql`SELECT * FROM idem.idem_begin('prisma 7', lease => '1 minute'::interval)`)
    assert.deepEqual([busy.outcome, typeof busy.retry_after_ms, busy.lease_until instanceof Date], ['in_flight', 'number', true])
    assert.equal((await one(prisma, Prisma.sql`SELECT idem.idem_renew('prisma 7', ${fence}) AS until`)).until instanceof Date, true)
    assert.deepEqual(await one(prisma, Prisma.sql`SELECT idem.idem_release('prisma 7', ${fence}) AS released`), { released: true })
    const { lock } = await one(prisma, Prisma.sql`SELECT idem.idem_lock('prisma') AS lock`)
    assert.deepEqual(await prisma.$transaction((tx) => one(tx, Prisma.sql`SELECT idem.idem_assert_fence('prisma', ${lock}) AS held`)), { held: true })
    const allow = () => one(prisma, Prisma.sql`SELECT * FROM idem.idem_allow('prisma', 0.001, 1)`)
    assert.deepEqual(await allow(), { allowed: true, remaining: 0, retry_after_ms: null })
    assert.equal(typeof (await allow()).retry_after_ms, 'number')
})

test('Prisma: $queryRaw cannot read interval and void, and the call has committed by then; a cast and $executeRaw avoid it', async () => {
    for (const statement of ["SELECT interval '1 second'", "SELECT pg_notify('channel', '')"])
        assert.equal((await rejection(prisma.$queryRawUnsafe(statement))).code, 'P2010', statement)
    await rejection(prisma.$queryRaw`SELECT idem.idem_claim('prisma 5'), interval '1 second'`)
    assert.equal(await claim(prisma, 'prisma 5'), false)
    assert.deepEqual(await prisma.$queryRaw`SELECT (interval '1 second')::text AS wait`, [{ wait: '00:00:01' }])
    assert.equal(await prisma.$executeRaw`SELECT pg_notify('channel', '')`, 1)
})

test('Prisma: bigint is a BigInt, which JSON.stringify refuses', async () => {
    const [ticket] = await prisma.$queryRaw`SELECT outcome, fence FROM idem.idem_begin('prisma 4', lease => '1 minute'::interval)`
    assert.deepEqual([ticket.outcome, typeof ticket.fence], ['acquired', 'bigint'])
    assert.throws(() => JSON.stringify(ticket), TypeError)
})

test('Prisma: a migration that drops and creates the table drops the guards, and leaves the schema of idem alone', async () => {
    const before = await tablesOfIdem()
    await prisma.$executeRaw`DROP TABLE orders`
    await createTable()
    assert.equal(await guards(), 0)
    assert.equal(await tablesOfIdem(), before)
})
