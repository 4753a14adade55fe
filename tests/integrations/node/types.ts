import express from 'express'
import postgres from 'postgres'
import { Idem, StaleFence, type Outcome, type Transaction } from 'idem-postgres'
import { idempotency } from 'idem-postgres/express'
import { fromKnex } from 'idem-postgres/knex'

const sql = postgres()
const idempotent = idempotency({
    database: sql, scope: (req: express.Request) => `client ${req.get('X-Client')}`, lease: 30_000, onOutcome: (outcome: Outcome) => outcome.ms,
})
express().post('/', idempotent(async (req: express.Request, res: express.Response) => {
    const fence: bigint | undefined = req.idem!.fence
    res.json({ fence: String(fence) })
}))
// @ts-expect-error: no scope
idempotency({ database: fromKnex(null) })
export const use = async (work: Transaction, idem: Idem): Promise<boolean> =>
    (await work.functions.claim('k')) && (await idem.nextId()) > 1n && new StaleFence('x') instanceof Error
