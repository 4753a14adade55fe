// docs/orm.md, Drizzle.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { after, test } from 'node:test'
import { and, eq, sql as raw } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'
import { enableGuards, guards, rejection, sql, tablesOfIdem } from './recipes.js'

const { pushSchema } = createRequire(import.meta.url)('drizzle-kit/api')

const pool = new pg.Pool()
const db = drizzle(pool)
after(() => pool.end())

const orders = pgTable('orders', {
    id: integer().primaryKey(),
    state: text().notNull().default('created'),
    note: text(),
    version: integer().notNull().default(1),
})
// Drizzle counts: each update() that does not name the version adds 1 to it.
const counted = pgTable('counted_orders', {
    id: integer().primaryKey(),
    note: text(),
    version: integer().notNull().default(1).$onUpdate(() => raw`version + 1`),
})

const push = async (tables, ...options) => {
    const log = console.log
    console.log = () => {}
    try {
        const result = await pushSchema(tables, db, ...options)
        return result
    } finally {
        console.log = log
    }
}

await (await push({ orders, counted })).apply()
await enableGuards()
await sql("SELECT idem.optimistic_enable('counted_orders')")

const insert = (id, state) => db.insert(orders).values({ id, state })
const claim = async (handle, key) => (await handle.execute(raw`SELECT idem.idem_claim(${key}) AS claimed`)).rows[0].claimed

test('Drizzle: an UPDATE without the version is bumped by the guard, and returning() has the new version', async () => {
    await insert(1)
    assert.deepEqual(await db.update(orders).set({ note: 'a' }).where(eq(orders.id, 1)).returning({ version: orders.version }),
        [{ version: 2 }])
})

test('Drizzle: eq(version) is a compare-and-set; without it the last write wins', async () => {
    await insert(2)
    await sql("UPDATE orders SET note = 'other' WHERE id = 2")
    const stale = db.update(orders).set({ note: 'mine' }).where(and(eq(orders.id, 2), eq(orders.version, 1))).returning()
    assert.deepEqual(await stale, [])
    assert.equal((await db.update(orders).set({ note: 'mine' }).where(eq(orders.id, 2))).rowCount, 1)
})

test('Drizzle: $onUpdate(version + 1) passes the guard', async () => {
    await db.insert(counted).values({ id: 1 })
    assert.deepEqual(await db.update(counted).set({ note: 'a' }).where(eq(counted.id, 1)).returning({ version: counted.version }),
        [{ version: 2 }])
})

test('Drizzle: writing back the whole row that was read is ID004 in error.cause.code when the row has changed', async () => {
    await insert(3)
    const [row] = await db.select().from(orders).where(eq(orders.id, 3))
    const save = (note) => db.update(orders).set({ ...row, note }).where(eq(orders.id, 3))
    await save('a')
    const error = await rejection(save('b'))
    assert.deepEqual([error.code, error.cause.code, error.cause.table], [undefined, 'ID004', 'orders'])
})

test('Drizzle: a state change that skips a transition is ID003 in error.cause.code', async () => {
    await insert(4)
    const error = await rejection(db.update(orders).set({ state: 'shipped' }).where(eq(orders.id, 4)))
    assert.deepEqual([error.cause.code, error.cause.column], ['ID003', 'state'])
})

test('Drizzle: an UPDATE for each state change makes both transitions', async () => {
    await insert(5)
    for (const state of ['paid', 'shipped']) await db.update(orders).set({ state }).where(eq(orders.id, 5))
    assert.deepEqual(await sql('SELECT state, version FROM orders WHERE id = 5'), [{ state: 'shipped', version: 3 }])
})

test('Drizzle: a fixture in another state is ID003', async () => {
    assert.equal((await rejection(insert(6, 'shipped'))).cause.code, 'ID003')
})

test('Drizzle: a fixture while the machine is detached; attaching checks its states', async () => {
    const load = (state) => db.transaction(async (transaction) => {
        await transaction.execute(raw`SELECT idem.idem_machine_detach('orders', 'state')`)
        await transaction.insert(orders).values({ id: 7, state })
        await transaction.execute(raw`SELECT idem.idem_machine_attach('orders', 'state', 'order')`)
    })
    assert.equal((await rejection(load('no such state'))).cause.code, '23514')
    await load('shipped')
    assert.equal(await guards(), 2)
})

test('Drizzle: a claim belongs to the transaction whose handle executes it', async () => {
    await rejection(db.transaction(async (transaction) => {
        assert.equal(await claim(transaction, 'drizzle 1'), true)
        transaction.rollback()
    }))
    await db.transaction((transaction) => claim(transaction, 'drizzle 1'))
    assert.equal(await claim(db, 'drizzle 1'), false)
})

test('Drizzle: with db in the place of the handle the claim is committed although the work is rolled back', async () => {
    await rejection(db.transaction(async (transaction) => {
        await claim(db, 'drizzle 2')
        transaction.rollback()
    }))
    assert.equal(await claim(db, 'drizzle 2'), false)
})

test('Drizzle: a push keeps the guards and does not see the schema of idem', async () => {
    const { statementsToExecute } = await push({ orders, counted })
    assert.deepEqual(statementsToExecute, [])
    assert.equal(await guards(), 2)
})

test('Drizzle: a push that recreates the table drops the guards', async () => {
    const before = await tablesOfIdem()
    await (await push({ counted })).apply()
    await (await push({ orders, counted })).apply()
    assert.equal(await guards(), 0)
    assert.equal(await tablesOfIdem(), before)
})
