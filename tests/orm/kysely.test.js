// docs/orm.md, Kysely.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Kysely, PostgresDialect, sql as raw } from 'kysely'
import pg from 'pg'
import { enableGuards, guards, rejection, sql, tablesOfIdem } from './recipes.js'

const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool() }) })
after(() => db.destroy())

const createTable = () => db.schema.createTable('orders')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('state', 'text', (column) => column.notNull().defaultTo('created'))
    .addColumn('note', 'text')
    .addColumn('version', 'integer', (column) => column.notNull().defaultTo(1))
    .execute()

await createTable()
await enableGuards()

const insert = (id, state) => db.insertInto('orders').values({ id, ...(state && { state }) }).execute()
const update = (id) => db.updateTable('orders').where('id', '=', id)
const claim = async (handle, key) => (await raw`SELECT idem.idem_claim(${key}) AS claimed`.execute(handle)).rows[0].claimed

test('Kysely: an UPDATE without the version is bumped by the guard, and returning() has the new version', async () => {
    await insert(1)
    assert.deepEqual(await update(1).set({ note: 'a' }).returning(['note', 'version']).executeTakeFirst(), { note: 'a', version: 2 })
})

test('Kysely: where version = is a compare-and-set; without it the last write wins', async () => {
    await insert(2)
    await sql("UPDATE orders SET note = 'other' WHERE id = 2")
    assert.equal((await update(2).where('version', '=', 1).set({ note: 'mine' }).executeTakeFirst()).numUpdatedRows, 0n)
    assert.equal((await update(2).set({ note: 'mine' }).executeTakeFirst()).numUpdatedRows, 1n)
})

test('Kysely: writing back the whole row that was read is ID004 in error.code when the row has changed', async () => {
    await insert(3)
    const { id, ...row } = await db.selectFrom('orders').selectAll().where('id', '=', 3).executeTakeFirst()
    await update(3).set({ ...row, note: 'a' }).execute()
    const error = await rejection(update(3).set({ ...row, note: 'b' }).execute())
    assert.deepEqual([error.code, error.table], ['ID004', 'orders'])
})

test('Kysely: a state change that skips a transition is ID003 in error.code', async () => {
    await insert(4)
    const error = await rejection(update(4).set({ state: 'shipped' }).execute())
    assert.deepEqual([error.code, error.column], ['ID003', 'state'])
})

test('Kysely: an UPDATE for each state change makes both transitions', async () => {
    await insert(5)
    for (const state of ['paid', 'shipped']) await update(5).set({ state }).execute()
    assert.deepEqual(await sql('SELECT state, version FROM orders WHERE id = 5'), [{ state: 'shipped', version: 3 }])
})

test('Kysely: a fixture in another state is ID003', async () => {
    assert.equal((await rejection(insert(6, 'shipped'))).code, 'ID003')
})

test('Kysely: a fixture while the machine is detached; attaching checks its states', async () => {
    const load = (state) => db.transaction().execute(async (transaction) => {
        await raw`SELECT idem.idem_machine_detach('orders', 'state')`.execute(transaction)
        await transaction.insertInto('orders').values({ id: 7, state }).execute()
        await raw`SELECT idem.idem_machine_attach('orders', 'state', 'order')`.execute(transaction)
    })
    assert.equal((await rejection(load('no such state'))).code, '23514')
    await load('shipped')
    assert.equal(await guards(), 2)
})

test('Kysely: a claim belongs to the transaction whose handle executes it', async () => {
    await rejection(db.transaction().execute(async (transaction) => {
        assert.equal(await claim(transaction, 'kysely 1'), true)
        throw new Error('the work fails')
    }))
    await db.transaction().execute((transaction) => claim(transaction, 'kysely 1'))
    assert.equal(await claim(db, 'kysely 1'), false)
})

test('Kysely: with db in the place of the handle the claim is committed although the work is rolled back', async () => {
    await rejection(db.transaction().execute(async () => {
        await claim(db, 'kysely 2')
        throw new Error('the work fails')
    }))
    assert.equal(await claim(db, 'kysely 2'), false)
})

test('Kysely: a bigint version is a string', async () => {
    await sql('CREATE TABLE big (id int PRIMARY KEY); INSERT INTO big VALUES (1)')
    await sql("SELECT idem.optimistic_enable('big')")
    assert.equal((await db.selectFrom('big').selectAll().executeTakeFirst()).version, '1')
})

test('Kysely: a migration that drops and creates the table drops the guards, and introspection shows the tables of idem', async () => {
    await db.schema.dropTable('orders').execute()
    await createTable()
    assert.equal(await guards(), 0)
    const schemas = new Set((await db.introspection.getTables()).map((table) => table.schema))
    assert.deepEqual([...schemas].sort(), ['idem', 'public'])
    assert.ok(await tablesOfIdem() > 0)
})
