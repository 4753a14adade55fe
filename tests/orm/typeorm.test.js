// docs/orm.md, TypeORM.

import 'reflect-metadata'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { DataSource, EntitySchema, EventSubscriber, OptimisticLockVersionMismatchError, QueryFailedError } from 'typeorm'
import { database, enableGuards, guards, host, port, rejection, sql, tablesOfIdem, user } from './recipes.js'

const columns = {
    id: { type: 'int', primary: true },
    state: { type: 'text', default: 'created' },
    note: { type: 'text', nullable: true },
}
// TypeORM counts: what @VersionColumn() declares.
const Order = new EntitySchema({
    name: 'Order', tableName: 'orders', columns: { ...columns, version: { type: 'int', version: true } },
})
// The guard counts: what @Column({ default: 1 }) declares.
const Plain = new EntitySchema({
    name: 'Plain', tableName: 'plain_orders', columns: { ...columns, version: { type: 'int', default: 1 } },
})

const statements = []
const logger = { logQuery: (statement) => statements.push(statement) }
for (const name of ['logQueryError', 'logQuerySlow', 'logSchemaBuild', 'logMigration', 'log']) logger[name] = () => {}
// Called between the SELECT and the UPDATE of save().
let beforeUpdate = () => {}
class Subscriber {
    beforeUpdate() {
        return beforeUpdate()
    }
}
EventSubscriber()(Subscriber)
const source = new DataSource({ subscribers: [Subscriber], type: 'postgres', host, port, username: user, database, entities: [Order, Plain], logger, logging: true })
await source.initialize()
after(() => source.destroy())
await source.synchronize()
await enableGuards()
await sql("SELECT idem.optimistic_enable('plain_orders')")

const orders = source.getRepository(Order)
const plains = source.getRepository(Plain)
const saved = async (repository, id) => {
    await repository.insert({ id })
    return repository.findOneByOrFail({ id })
}
const lastUpdate = () => statements.findLast((statement) => statement.startsWith('UPDATE'))
const claim = async (manager, key) => (await manager.query('SELECT idem.idem_claim($1) AS claimed', [key]))[0].claimed

test('TypeORM: with a version column it counts itself, and the object has the new version', async () => {
    const order = await saved(orders, 1)
    order.note = 'a'
    await orders.save(order)
    assert.match(lastUpdate(), /"version" = "?version"? \+ 1/)
    assert.equal(order.version, 2)
    order.note = 'b'
    await orders.save(order)
    assert.deepEqual(await sql('SELECT note, version FROM orders WHERE id = 1'), [{ note: 'b', version: 3 }])
})

test('TypeORM: save() of a stale object reads the row, finds that the version differs, and writes it: ID004', async () => {
    const order = await saved(orders, 2)
    await sql("UPDATE orders SET note = 'other' WHERE id = 2")
    order.note = 'mine'
    statements.length = 0
    assert.equal((await rejection(orders.save(order))).driverError.code, 'ID004')
    assert.match(statements[0], /^SELECT .* FROM "orders"/)
    assert.match(lastUpdate(), /SET "note" = \$1, "version" = \$2 WHERE "id" = \$3 RETURNING "version"/)
})

test('TypeORM: a change between the SELECT and the UPDATE of save() is overwritten', async () => {
    const order = await saved(orders, 11)
    beforeUpdate = () => sql("UPDATE orders SET note = 'other' WHERE id = 11")
    order.note = 'mine'
    await orders.save(order)
    beforeUpdate = () => {}
    assert.deepEqual(await sql('SELECT note, version FROM orders WHERE id = 11'), [{ note: 'mine', version: 3 }])
})

test('TypeORM: a lock and an optimistic lock in one transaction compare', async () => {
    const order = await saved(orders, 3)
    const save = (version) => source.transaction(async (manager) => {
        await manager.findOneOrFail(Order, { where: { id: 3 }, lock: { mode: 'pessimistic_write' } })
        const found = await manager.findOneOrFail(Order, { where: { id: 3 }, lock: { mode: 'optimistic', version } })
        found.note = 'mine'
        await manager.save(Order, found)
    })
    await sql("UPDATE orders SET note = 'other' WHERE id = 3")
    assert.ok((await rejection(save(order.version))) instanceof OptimisticLockVersionMismatchError)
    await save(2)
})

test('TypeORM: update() with the version among the criteria is a compare-and-set', async () => {
    await saved(orders, 4)
    assert.equal((await orders.update({ id: 4, version: 1 }, { note: 'mine' })).affected, 1)
    assert.equal((await orders.update({ id: 4, version: 1 }, { note: 'stale' })).affected, 0)
})

test('TypeORM: with an ordinary column the guard counts, and the second save of the same object is ID004 until it is read again', async () => {
    const plain = await saved(plains, 1)
    plain.note = 'a'
    await plains.save(plain)
    assert.equal(plain.version, 1)
    plain.note = 'b'
    assert.equal((await rejection(plains.save(plain))).driverError.code, 'ID004')
    await plains.save(Object.assign(await plains.findOneByOrFail({ id: 1 }), { note: 'b' }))
    assert.deepEqual(await sql('SELECT note, version FROM plain_orders WHERE id = 1'), [{ note: 'b', version: 3 }])
})

test('TypeORM: two state changes before one save are one UPDATE: ID003 in error.driverError.code', async () => {
    const order = await saved(orders, 5)
    order.state = 'paid'
    order.state = 'shipped'
    const error = await rejection(orders.save(order))
    assert.ok(error instanceof QueryFailedError)
    assert.deepEqual([error.driverError.code, error.driverError.column], ['ID003', 'state'])
})

test('TypeORM: a save after each state change makes both transitions', async () => {
    const order = await saved(orders, 6)
    for (const state of ['paid', 'shipped']) await orders.save(Object.assign(order, { state }))
    assert.deepEqual(await sql('SELECT state, version FROM orders WHERE id = 6'), [{ state: 'shipped', version: 3 }])
})

test('TypeORM: save() of an object that was not read finds the row first, and writes what differs', async () => {
    await saved(orders, 7)
    await orders.save({ id: 7, note: 'a' })
    assert.deepEqual(await sql('SELECT state, note, version FROM orders WHERE id = 7'), [{ state: 'created', note: 'a', version: 2 }])
})

test('TypeORM: ID004 is in error.driverError.code', async () => {
    await saved(orders, 8)
    const error = await rejection(source.query('UPDATE orders SET version = 7 WHERE id = 8'))
    assert.deepEqual([error.driverError.code, error.driverError.table], ['ID004', 'orders'])
})

test('TypeORM: a fixture in another state is ID003', async () => {
    assert.equal((await rejection(orders.save({ id: 9, state: 'shipped' }))).driverError.code, 'ID003')
})

test('TypeORM: a fixture while the machine is detached; attaching checks its states', async () => {
    const load = (state) => source.transaction(async (manager) => {
        await manager.query("SELECT idem.idem_machine_detach('orders', 'state')")
        await manager.insert(Order, { id: 10, state })
        await manager.query("SELECT idem.idem_machine_attach('orders', 'state', 'order')")
    })
    assert.equal((await rejection(load('no such state'))).driverError.code, '23514')
    await load('shipped')
    assert.equal(await guards(), 2)
})

test('TypeORM: a claim belongs to the transaction whose manager runs it', async () => {
    await rejection(source.transaction(async (manager) => {
        assert.equal(await claim(manager, 'typeorm 1'), true)
        throw new Error('the work fails')
    }))
    await source.transaction((manager) => claim(manager, 'typeorm 1'))
    assert.equal(await claim(source, 'typeorm 1'), false)
})

test('TypeORM: with the data source in the place of the manager the claim is committed although the work is rolled back', async () => {
    await rejection(source.transaction(async () => {
        await claim(source, 'typeorm 2')
        throw new Error('the work fails')
    }))
    assert.equal(await claim(source, 'typeorm 2'), false)
})

test('TypeORM: synchronize() keeps the guards', async () => {
    await source.synchronize()
    assert.equal(await guards(), 2)
})

test('TypeORM: dropDatabase() and synchronize(true) drop the guards with the table, and leave the schema of idem alone', async () => {
    const before = await tablesOfIdem()
    await source.synchronize(true)
    assert.equal(await guards(), 0)
    assert.equal(await tablesOfIdem(), before)
})
