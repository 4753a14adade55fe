// postgres.js: parameters are serialized by the type that the server expects.

import postgres from 'postgres'
import { serve } from './runner.js'

const sql = postgres({ max: 1, prepare: !process.env.IDEM_POOLED, onnotice: () => {} })

const arguments_ = {
    json: (value) => sql.json(value),
    bytes: (hex) => Buffer.from(hex, 'hex'),
    time: (text) => new Date(text),
}
const argument = ([kind, value]) => (arguments_[kind] ? arguments_[kind](value) : value)

async function run(handle, text, args) {
    const strings = text.split(/\$\d+/) // what the compiler makes of sql`SELECT idem.idem_claim(${key})`
    const rows = await handle(Object.assign(strings, { raw: strings }), ...args.map(argument)).values()
    return { columns: rows.columns.map((column) => column.name), rows }
}

await serve(sql, run, (work) => sql.begin(work))
await sql.end()
