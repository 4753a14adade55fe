import express from 'express'
import type { FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import postgres from 'postgres'
import { Idem, StaleFence, type IdempotentRequest, type LeasedWork, type Outcome, type Transaction } from 'idem-postgres'
import { idempotency } from 'idem-postgres/express'
import { idempotency as fastifyIdempotency } from 'idem-postgres/fastify'
import { idempotency as honoIdempotency } from 'idem-postgres/hono'
import { fromKnex } from 'idem-postgres/knex'
import { IdempotencyInterceptor } from 'idem-postgres/nestjs'

const sql = postgres()
const idempotent = idempotency({
    database: sql, scope: (req) => `client ${req.get('X-Client')}`, lease: 30_000, onOutcome: (outcome: Outcome) => outcome.ms,
})
express().post('/', idempotent(async (req: IdempotentRequest<express.Request, LeasedWork>, res: express.Response) => {
    const fence: bigint = req.idem.fence
    res.json({ fence: String(fence) })
}))
express.Router().post('/', async (req, res) => {
    const { client, key } = (req as IdempotentRequest<express.Request>).idem
    res.json(await client.query('SELECT $1', [key]))
})
new Hono<{ Variables: { idem: Transaction } }>().post('/', async (c) => c.json({ key: c.get('idem').key })).use(honoIdempotency({
    database: sql, scope: (c) => c.req.header('X-Client') ?? '',
}))
new IdempotencyInterceptor<express.Request>({ database: sql, scope: (req) => req.get('X-Client') ?? '' })
export const registered = fastifyIdempotency(null, { database: sql, scope: (request) => String(request.headers['x-client']), route: (request: FastifyRequest) => request.url })
// @ts-expect-error: no scope
idempotency({ database: fromKnex(null) })
// @ts-expect-error: a request has no such member
idempotency({ database: sql, scope: (req) => req.nothing })
// @ts-expect-error: a request has no such member
fastifyIdempotency(null, { database: sql, scope: (request) => request.nothing })
// @ts-expect-error: a context has no such member
honoIdempotency({ database: sql, scope: (c) => c.nothing })
// @ts-expect-error: no option
idempotency({ database: sql, scope: () => '', leese: 30_000 })
export const use = async (work: Transaction, idem: Idem): Promise<boolean> =>
    (await work.functions.claim('k')) && (await idem.nextId()) > 1n && new StaleFence('x') instanceof Error
