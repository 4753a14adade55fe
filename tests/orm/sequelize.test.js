// docs/orm.md, Sequelize.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { DataTypes, DatabaseError, OptimisticLockError, Sequelize } from 'sequelize'
import { database, enableGuards, guards, host, port, rejection, sql, tablesOfIdem, user } from './recipes.js'

const statements = []
const sequelize = new Sequelize(database, user, undefined, {
    host, port, dialect: 'postgres', logging: (statement) => statements.push(statement),
})
after(() => sequelize.close())

const columns = {
    id: { type: DataTypes.INTEGER, primaryKey: true },
    state: { type: DataTypes.TEXT, allowNull: false, defaultValue: 'created' },
    note: DataTypes.TEXT,
}
// Sequelize counts, from 0 on.
const Order = sequelize.define('order', columns, { tableName: 'orders', timestamps: false, version: true })
// The guard counts: the version is a column like others.
const Plain = sequelize.define('plain', { ...columns, version: { type: DataTypes.BIGINT, defaultValue: 1 } },
    { tableName: 'plain_orders', timestamps: false })

await sequelize.sync()
await enableGuards()
await sql("ALTER TABLE plain_orders ALTER version SET NOT NULL; SELECT idem.optimistic_enable('plain_orders')")

test('Sequelize: with version: true it counts itself, and the object has the new version', async () => {
    const order = await Order.create({ id: 1 })
    assert.equal(order.version, 0)
    order.note = 'a'
    await order.save()
    assert.match(statements.at(-1), /UPDATE "orders" SET "note"=\$1,"version"=\$2 WHERE "id" = \$3 AND "version" = \$4/)
    assert.equal(order.version, 1)
    order.note = 'b'
    await order.save()
    assert.deepEqual(await sql('SELECT note, version FROM orders WHERE id = 1'), [{ note: 'b', version: 2 }])
})

test('Sequelize: a stale object is OptimisticLockError', async () => {
    const order = await Order.create({ id: 2 })
    await sql("UPDATE orders SET note = 'other' WHERE id = 2")
    order.note = 'mine'
    assert.ok((await rejection(order.save())) instanceof OptimisticLockError)
    await order.reload()
    assert.deepEqual([order.note, order.version], ['other', 1])
})

test('Sequelize: Model.update leaves the version to the guard, and the last write wins', async () => {
    await Order.create({ id: 3 })
    await Order.update({ note: 'bulk' }, { where: { id: 3 } })
    assert.match(statements.at(-1), /UPDATE "orders" SET "note"=\$1 WHERE "id" = \$2/)
    assert.deepEqual(await sql('SELECT version FROM orders WHERE id = 3'), [{ version: 1 }])
})

test('Sequelize: without version: true the guard counts, the object is stale until it is reloaded, and the last write wins', async () => {
    const plain = await Plain.create({ id: 1 })
    await sql("UPDATE plain_orders SET note = 'other' WHERE id = 1")
    plain.note = 'mine'
    await plain.save()
    assert.doesNotMatch(statements.at(-1), /SET.*"version"=/)
    assert.equal(String(plain.version), '1')
    await plain.reload()
    assert.deepEqual([plain.note, plain.version], ['mine', '3'])
})

test('Sequelize: two state changes before one save are one UPDATE: ID003 in error.original.code', async () => {
    const order = await Order.create({ id: 4 })
    order.state = 'paid'
    order.state = 'shipped'
    const error = await rejection(order.save())
    assert.ok(error instanceof DatabaseError)
    assert.deepEqual([error.original.code, error.original.column], ['ID003', 'state'])
})

test('Sequelize: a save after each state change makes both transitions', async () => {
    const order = await Order.create({ id: 5 })
    await order.update({ state: 'paid' })
    await order.update({ state: 'shipped' })
    assert.deepEqual(await sql('SELECT state, version FROM orders WHERE id = 5'), [{ state: 'shipped', version: 2 }])
})

test('Sequelize: ID004 is in error.original.code', async () => {
    await Order.create({ id: 6 })
    const error = await rejection(sequelize.query('UPDATE orders SET version = 7 WHERE id = 6'))
    assert.deepEqual([error.original.code, error.original.table], ['ID004', 'orders'])
})

test('Sequelize: a fixture in another state: bulkCreate raises ID003, through the states it is inserted', async () => {
    assert.equal((await rejection(Order.bulkCreate([{ id: 7, state: 'shipped' }]))).original.code, 'ID003')
    const order = await Order.create({ id: 7 })
    for (const state of ['paid', 'shipped']) await order.update({ state })
    assert.deepEqual(await sql('SELECT state FROM orders WHERE id = 7'), [{ state: 'shipped' }])
})

test('Sequelize: a fixture while the machine is detached; attaching checks its states', async () => {
    const load = (state) => sequelize.transaction(async (transaction) => {
        await sequelize.query("SELECT idem.idem_machine_detach('orders', 'state')", { transaction })
        await Order.bulkCreate([{ id: 8, state }], { transaction })
        await sequelize.query("SELECT idem.idem_machine_attach('orders', 'state', 'order')", { transaction })
    })
    assert.equal((await rejection(load('no such state'))).original.code, '23514')
    await load('shipped')
    assert.equal(await guards(), 2)
})

test('Sequelize: a claim belongs to the transaction that the query names', async () => {
    const claim = async (transaction) =>
        (await sequelize.query("SELECT idem.idem_claim('sequelize 1') AS claimed", { transaction, plain: true })).claimed
    await rejection(sequelize.transaction(async (transaction) => {
        assert.equal(await claim(transaction), true)
        throw new Error('the work fails')
    }))
    await sequelize.transaction(async (transaction) => {
        assert.equal(await claim(transaction), true)
        await Order.create({ id: 9 }, { transaction })
    })
    assert.equal(await claim(), false)
})

test('Sequelize: without { transaction } the claim is committed although the work is rolled back', async () => {
    await rejection(sequelize.transaction(async (transaction) => {
        await sequelize.query("SELECT idem.idem_claim('sequelize 2')")
        await Order.create({ id: 10 }, { transaction })
        throw new Error('the work fails')
    }))
    assert.deepEqual(await sql("SELECT idem.idem_claim('sequelize 2') AS claimed"), [{ claimed: false }])
})

test('Sequelize: sync() and sync({ alter: true }) keep the guards', async () => {
    await sequelize.sync()
    await sequelize.sync({ alter: true })
    assert.equal(await guards(), 2)
})

test('Sequelize: sync({ force: true }) and drop() drop the guards with the table, and leave the schema of idem alone', async () => {
    const before = await tablesOfIdem()
    await sequelize.sync({ force: true })
    assert.equal(await guards(), 0)
    await enableGuards()
    await sequelize.drop()
    assert.equal(await guards(), 0)
    assert.equal(await tablesOfIdem(), before)
})
