import express from 'express'
import type { FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import pg from 'pg'
import postgres from 'postgres'
import { Idem, leased, once, StaleFence, type Ticket, type IdempotentRequest, type LeasedWork, type Outcome, type Transaction } from 'idem-postgres'
import { idempotency } from 'idem-postgres/express'
import { idempotency as fastifyIdempotency } from 'idem-postgres/fastify'
import { idempotency as honoIdempotency } from 'idem-postgres/hono'
import { fakeDatabase } from 'idem-postgres/fake'
import { fromKnex } from 'idem-postgres/knex'
import { IDEMPOTENCY, Idempotent, IdempotencyInterceptor } from 'idem-postgres/nestjs'
import { idempotency as webIdempotency } from 'idem-postgres/web'

const sql = postgres()
const idempotent = idempotency({
    database: sql, scope: (req) => `client ${req.get('X-Client')}`, lease: '30 s', onOutcome: (outcome: Outcome) => outcome.ms,
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
export const provider = { provide: IDEMPOTENCY, useValue: { database: sql } }
Idempotent<express.Request>({ scope: (req) => req.get('X-Client') ?? '' })(class {})
// @ts-expect-error: no option
Idempotent({ leese: '30 s' })
export const faked = once(fakeDatabase({ client: { query: async () => 7 } }), 'k', {}, async ({ client }): Promise<number> => client.query())
// @ts-expect-error: no scope
idempotency({ database: fromKnex(null) })
// @ts-expect-error: a request has no such member
idempotency({ database: sql, scope: (req) => req.nothing })
// @ts-expect-error: a request has no such member
fastifyIdempotency(null, { database: sql, scope: (request) => request.nothing })
// @ts-expect-error: a context has no such member
honoIdempotency({ database: sql, scope: (c) => c.nothing })
// @ts-expect-error: no option
idempotency({ database: sql, scope: () => '', leese: '30 s' })
// @ts-expect-error: a bare number is no duration
idempotency({ database: sql, scope: () => '', ttl: 86_400 })
const transactional = idempotency({ database: new pg.Pool(), scope: () => '' })
// The handler's request has the client of the pool, and needs no annotation.
transactional(async (req, res) => {
    const { rows: [row] } = await req.idem.client.query<{ n: number }>('SELECT 1 AS n')
    const n: number = row!.n
    res.json({ n })
}, express.Router())
// @ts-expect-error: no steps without a lease
transactional(async (req) => req.idem.step('charge'))
idempotent(async (req) => { const fence: bigint = req.idem.fence; return fence })
const routes: { POST: (request: Request) => Promise<Response> } = { POST: webIdempotency({ database: sql, scope: () => '' })(async (request) => Response.json({ key: request.idem.key })) }
export const handled = routes
export const fastifyHandler = async (request: FastifyRequest): Promise<string | null | undefined> => request.idem?.key
export function ticketOf(ticket: Ticket): bigint | number | null {
    if (ticket.outcome === 'taken_over') return ticket.fence + 1n
    if (ticket.outcome === 'in_flight') return ticket.retryAfterMs
    // @ts-expect-error: only a completed ticket can be known to have omitted its response
    const omitted: boolean = ticket.responseOmitted
    return omitted ? 1 : ticket.fence
}
export async function run(): Promise<string> {
    const result = await once(new pg.Pool(), 'k', { scope: 's', ttl: '1 day' }, async ({ client }) => (await client.query<{ a: string }>('SELECT 1')).rows[0]!.a)
    if (result.omitted && result.replayed) return String(result.value satisfies null)
    const { value, attempt } = await leased(sql, 'k', { lease: { seconds: 30 } }, async (w) => w.step('charge', async ({ key }) => ({ id: key })))
    return `${value?.id} ${attempt}`
}
export const use = async (work: Transaction, idem: Idem): Promise<boolean> =>
    (await work.functions.claim('k')) && (await idem.nextId()) > 1n && new StaleFence('x') instanceof Error
