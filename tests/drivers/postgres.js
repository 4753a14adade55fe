// postgres.js: parameters are serialized by the type that the server expects.

import postgres from 'postgres'
import { serve } from './runner.js'

const sql = postgres({ max: 1, prepare: !process.env.IDEM_POOLED, onnotice: () => {} })

const arguments_ = {
    json: (value) => sql.json(value),
    bytes: (hex) => Buffer.from(hex, 'hex'),
    uint8array: (hex) => new Uint8Array(Buffer.from(hex, 'hex')),
    arraybuffer: (hex) => new Uint8Array(Buffer.from(hex, 'hex')).buffer,
    time: (text) => new Date(text),
}
const argument = ([kind, value]) => (arguments_[kind] ? arguments_[kind](value) : value)

function query(handle, text, args) {
    const strings = text.split(/\$\d+/) // what the compiler makes of sql`SELECT idem.idem_claim(${key})`
    return handle(Object.assign(strings, { raw: strings }), ...args.map(argument))
}

async function run(handle, text, args) {
    const rows = await query(handle, text, args).values()
    return { columns: rows.columns.map((column) => column.name), rows }
}

const batch = (statements) => sql.begin((tx) => statements.map(({ sql, args }) => query(tx, sql, args)))

await serve(sql, run, (work) => sql.begin(work), batch)
await sql.end()
