// docs/orm.md, MikroORM.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { DriverException, EntitySchema, MikroORM, OptimisticLockError } from '@mikro-orm/postgresql'
import { database, enableGuards, guards, host, port, rejection, sql, tablesOfIdem, user } from './recipes.js'

const properties = {
    id: { type: 'integer', primary: true },
    state: { type: 'text', default: 'created' },
    note: { type: 'text', nullable: true },
}
// MikroORM counts: what @Property({ version: true }) declares.
const Order = new EntitySchema({
    name: 'Order', tableName: 'orders', properties: { ...properties, version: { type: 'integer', version: true } },
})
// The guard counts: an ordinary property.
const Plain = new EntitySchema({
    name: 'Plain', tableName: 'plain_orders', properties: { ...properties, version: { type: 'integer', default: 1 } },
})

const statements = []
const options = {
    host, port, user, dbName: database, entities: [Order, Plain], debug: ['query'], colors: false,
    logger: (line) => statements.push(line), discovery: { warnWhenNoEntities: false },
}
const orm = await MikroORM.init(options)
after(() => orm.close())
await orm.schema.createSchema()
await enableGuards()
await sql("SELECT idem.optimistic_enable('plain_orders')")

const saved = async (Kind, id) => {
    const em = orm.em.fork()
    const order = em.create(Kind, { id })
    await em.persistAndFlush(order)
    return { em, order }
}
const lastUpdate = () => statements.findLast((line) => line.includes('update '))
const claim = async (em, key) => (await em.execute('SELECT idem.idem_claim(?) AS claimed', [key]))[0].claimed

test('MikroORM: with version: true it counts itself, and the object has the new version', async () => {
    const { em, order } = await saved(Order, 1)
    assert.equal(order.version, 1)
    order.note = 'a'
    await em.flush()
    assert.match(lastUpdate(), /"version" = "version" \+ 1 where "id" = \$2 and "version" = \$3 returning "version"/)
    assert.equal(order.version, 2)
    order.note = 'b'
    await em.flush()
    assert.deepEqual(await sql('SELECT note, version FROM orders WHERE id = 1'), [{ note: 'b', version: 3 }])
})

test('MikroORM: a stale object is OptimisticLockError', async () => {
    const { em, order } = await saved(Order, 2)
    await sql("UPDATE orders SET note = 'other' WHERE id = 2")
    order.note = 'mine'
    assert.ok((await rejection(em.flush())) instanceof OptimisticLockError)
})

test('MikroORM: nativeUpdate leaves the version to the guard, and the last write wins', async () => {
    const { em } = await saved(Order, 3)
    await em.nativeUpdate(Order, { id: 3 }, { note: 'bulk' })
    assert.deepEqual(await sql('SELECT version FROM orders WHERE id = 3'), [{ version: 2 }])
})

test('MikroORM: with an ordinary property the guard counts, the object is stale until it is refreshed, and the last write wins', async () => {
    const { em, order } = await saved(Plain, 1)
    await sql("UPDATE plain_orders SET note = 'other' WHERE id = 1")
    order.note = 'mine'
    await em.flush()
    assert.equal(order.version, 1)
    await em.refresh(order)
    assert.deepEqual([order.note, order.version], ['mine', 3])
})

test('MikroORM: two state changes in one flush are one UPDATE: ID003 in error.code', async () => {
    const { em, order } = await saved(Order, 4)
    order.state = 'paid'
    order.state = 'shipped'
    const error = await rejection(em.flush())
    assert.ok(error instanceof DriverException)
    assert.deepEqual([error.code, error.column], ['ID003', 'state'])
})

test('MikroORM: a flush after each state change makes both transitions', async () => {
    const { em, order } = await saved(Order, 5)
    await em.transactional(async (inner) => {
        const found = await inner.findOneOrFail(Order, { id: 5 })
        for (const state of ['paid', 'shipped']) {
            found.state = state
            await inner.flush()
        }
    })
    assert.deepEqual(await sql('SELECT state, version FROM orders WHERE id = 5'), [{ state: 'shipped', version: 3 }])
    assert.equal(order.version, 3)
})

test('MikroORM: ID004 is in error.code', async () => {
    const { em } = await saved(Order, 6)
    const error = await rejection(em.nativeUpdate(Order, { id: 6 }, { version: 7 }))
    assert.deepEqual([error.code, error.table], ['ID004', 'orders'])
})

test('MikroORM: a fixture in another state is ID003', async () => {
    const em = orm.em.fork()
    assert.equal((await rejection(em.insertMany(Order, [{ id: 7, state: 'shipped' }]))).code, 'ID003')
})

test('MikroORM: a fixture while the machine is detached; attaching checks its states', async () => {
    const load = (state) => orm.em.fork().transactional(async (em) => {
        await em.execute("SELECT idem.idem_machine_detach('orders', 'state')")
        await em.insert(Order, { id: 8, state })
        await em.execute("SELECT idem.idem_machine_attach('orders', 'state', 'order')")
    })
    assert.equal((await rejection(load('no such state'))).code, '23514')
    await load('shipped')
    assert.equal(await guards(), 2)
})

test('MikroORM: a claim belongs to the transaction of the entity manager', async () => {
    await rejection(orm.em.fork().transactional(async (em) => {
        assert.equal(await claim(em, 'mikro-orm 1'), true)
        throw new Error('the work fails')
    }))
    await orm.em.fork().transactional((em) => claim(em, 'mikro-orm 1'))
    assert.equal(await claim(orm.em.fork(), 'mikro-orm 1'), false)
})

test('MikroORM: em.getConnection().execute() without the transaction context is another transaction', async () => {
    const key = 'mikro-orm 2'
    await rejection(orm.em.fork().transactional(async (em) => {
        await em.getConnection().execute('SELECT idem.idem_claim(?)', [key])
        throw new Error('the work fails')
    }))
    assert.equal(await claim(orm.em.fork(), key), false)
})

test('MikroORM: the schema generator keeps the guards, and has nothing to change in the schema of idem', async () => {
    assert.equal(await orm.schema.getUpdateSchemaSQL(), '')
    await orm.schema.updateSchema()
    assert.equal(await guards(), 2)
})

test('MikroORM: refreshDatabase() drops the guards with the table, and leaves the schema of idem alone', async () => {
    const before = await tablesOfIdem()
    await orm.schema.refreshDatabase()
    assert.equal(await guards(), 0)
    assert.equal(await tablesOfIdem(), before)
})
