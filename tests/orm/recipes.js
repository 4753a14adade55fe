// What the tests of the npm packages share: a second session, and the connection's parameters.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after } from 'node:test'
import pg from 'pg'

export const host = process.env.PGHOST
export const port = Number(process.env.PGPORT)
export const user = process.env.PGUSER
export const database = process.env.PGDATABASE

const session = new pg.Client()
await session.connect()
after(() => session.end())

/** The rows of a statement of another session, under autocommit. */
export const sql = async (statement) => (await session.query(statement)).rows

export const enableGuards = () =>
    sql("SELECT idem.optimistic_enable('orders'), idem.idem_machine_attach('orders', 'state', 'order')")

/** How many guards the table "orders" has. */
export const guards = async () => Number((await sql(readFileSync(process.env.IDEM_GUARDS, 'utf8')))[0].count)

/** How many tables idem has. */
export const tablesOfIdem = async () =>
    Number((await sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'idem'"))[0].count)

/** The error that the promise, or the function, is rejected with. */
export const rejection = async (work) => {
    let caught
    await assert.rejects(work, (error) => ((caught = error), true))
    return caught
}
