// Express on each ORM: what the handler writes through the ORM's transaction commits and rolls back with the key.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, test } from 'node:test'
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleOnPostgresJs } from 'drizzle-orm/postgres-js'
import { pgTable, text } from 'drizzle-orm/pg-core'
import express from 'express'
import { Idem, InFlight } from 'idem-postgres'
import { fromDrizzle } from 'idem-postgres/drizzle'
import { idempotency } from 'idem-postgres/express'
import { fromKnex } from 'idem-postgres/knex'
import { fromKysely } from 'idem-postgres/kysely'
import { fromPrisma } from 'idem-postgres/prisma'
import { fromSequelize } from 'idem-postgres/sequelize'
import { fromTypeOrm } from 'idem-postgres/typeorm'
import knexFactory from 'knex'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { Sequelize } from 'sequelize'
import { DataSource } from 'typeorm'
import { post } from './server.js'

const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env
const login = { host: PGHOST, port: Number(PGPORT), user: PGUSER, database: PGDATABASE }
const pool = new pg.Pool({ max: 4 })
const ending = [() => pool.end()]
after(() => Promise.all(ending.map((end) => end())))
const count = async (item) => (await pool.query('SELECT count(*)::int AS orders FROM orders WHERE item = $1', [item])).rows[0].orders

function makePrisma() {
    mkdirSync('prisma', { recursive: true })
    writeFileSync('prisma/schema.prisma', `
generator client {
  provider = "prisma-client-js"
  output   = "./client"
}
datasource db {
  provider = "postgresql"
}
model Order {
  id   Int    @id @default(autoincrement())
  item String
  @@map("orders")
}
`)
    // Generating needs no schema engine, and would download it: a program is named in its place.
    execFileSync(process.execPath, ['../../node_modules/prisma/build/index.js', 'generate', '--schema', 'prisma/schema.prisma'], { stdio: ['ignore', 'ignore', 'inherit'],
        env: { ...process.env, CHECKPOINT_DISABLE: '1', PRISMA_HIDE_UPDATE_MESSAGE: '1', PRISMA_SCHEMA_ENGINE_BINARY: '/bin/false' } })
    const { PrismaClient } = createRequire(import.meta.url)('./prisma/client')
    return new PrismaClient({ adapter: new PrismaPg({}) })
}

const orders = pgTable('orders', { item: text() })

/** By name: () → [the Database, (client, item) → inserts an order through the ORM]. */
const orms = {
    knex() {
        const knex = knexFactory({ client: 'pg', connection: login })
        ending.push(() => knex.destroy())
        return [fromKnex(knex), (trx, item) => trx('orders').insert({ item })]
    },
    kysely() {
        const kysely = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool() }) })
        ending.push(() => kysely.destroy())
        return [fromKysely(kysely), (trx, item) => trx.insertInto('orders').values({ item }).execute()]
    },
    drizzle: () => [fromDrizzle(drizzle(pool)), (tx, item) => tx.insert(orders).values({ item })],
    'drizzle on postgres.js'() {
        const sql = postgres({ ...login, onnotice: () => {} })
        ending.push(() => sql.end())
        return [fromDrizzle(drizzleOnPostgresJs(sql)), (tx, item) => tx.insert(orders).values({ item })]
    },
    async typeorm() {
        const dataSource = await new DataSource({ type: 'postgres', host: PGHOST, port: Number(PGPORT), username: PGUSER, database: PGDATABASE }).initialize()
        ending.push(() => dataSource.destroy())
        return [fromTypeOrm(dataSource), (manager, item) => manager.createQueryBuilder().insert().into('orders').values({ item }).execute()]
    },
    sequelize() {
        const sequelize = new Sequelize(PGDATABASE, PGUSER, '', { dialect: 'postgres', host: PGHOST, port: Number(PGPORT), logging: false })
        ending.push(() => sequelize.close())
        return [fromSequelize(sequelize), (transaction, item) => sequelize.getQueryInterface().bulkInsert('orders', [{ item }], { transaction })]
    },
    prisma() {
        const prisma = makePrisma()
        ending.push(() => prisma.$disconnect())
        return [fromPrisma(prisma), (tx, item) => tx.order.create({ data: { item } })]
    },
}

for (const [orm, make] of Object.entries(orms)) {
    test(`${orm}: work and key commit together, and roll back together`, async () => {
        const [database, insert] = await make()
        let kept
        const app = express()
        const idempotent = idempotency({ database, scope: () => orm, logger: { info() {}, error: (line) => console.error(line) } })
        app.post('/:what', idempotent(async (req, res) => {
            const { what } = req.params
            kept = req.idem.client
            await insert(kept, `${orm} ${what}`)
            if (what === 'throws') throw new Error('the handler fails')
            if (what === 'deadlock') await req.idem.functions.execute('deadlock', `SELECT pg_sleep(1 / 0)`).catch(() => { throw Object.assign(new Error(), { code: '40P01' }) })
            await req.idem.functions.publish(orm, { what })
            res.status(what === 'fails' ? 500 : 201).type('bin').send(Buffer.from([0, 255, 254, 10, 92, 39]))
        }))
        app.use((error, req, res, next) => res.status(500).end())
        const server = app.listen(0, '127.0.0.1')
        await once(server, 'listening')
        const send = (what, key = what) => post(server.address().port, `/${what}`, { key, body: 'bytes: \\000 \u0001 ü' })
        try {
            const [first, busy] = await Promise.all([send('works'), send('works')])
            assert.deepEqual([first.status, busy.status].filter((status) => status !== 409 && status !== 201), [])
            const again = await send('works')
            assert.deepEqual([again.status, again.headers['idempotent-replayed'], [...again.body]], [201, 'true', [0, 255, 254, 10, 92, 39]])
            assert.equal(await count(`${orm} works`), 1)
            assert.equal((await post(server.address().port, '/works', { key: 'works', body: 'other' })).status, 422)
            for (const [what, status, written] of [['throws', 500, 0], ['fails', 500, 1], ['deadlock', 503, 0]]) {
                assert.equal((await send(what)).status, status, what)
                assert.equal(await count(`${orm} ${what}`), written, what)
            }
            // A late use of the handle never reaches the transaction of another request.
            await assert.rejects(async () => insert(kept, `${orm} late`))
            assert.equal(await count(`${orm} late`), 0)
            assert.equal((await send('works', 'throws')).status, 201)
            assert.equal(await count(`${orm} works`), 2)
            const messages = await new Idem(database).take(orm)
            assert.deepEqual(messages.map(({ payload }) => payload.what), ['works', 'fails', 'works'])
            assert.equal(await new Idem(database).ack(messages.map(({ id }) => id), messages[0].fence), 3)
        } finally {
            server.closeAllConnections()
            server.close()
        }
        const idem = new Idem(database)
        const { fence } = await idem.begin(`${orm} lease`, { lease: '30 s', fingerprint: Buffer.from([0, 1]) })
        await assert.rejects(idem.claim(`${orm} lease`), InFlight)
        assert.equal(await idem.complete(`${orm} lease`, { response: { a: '"\\' }, fence }), true)
        assert.deepEqual((await idem.lookup(`${orm} lease`)).response, { a: '"\\' })
        assert.deepEqual(await idem.claimMany([`${orm} "1"`, `${orm} \\2?`]), [`${orm} "1"`, `${orm} \\2?`])
    })
}
