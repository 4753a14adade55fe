// node-postgres: parameters are text of unknown type, but for Buffers and arrays.

import pg from 'pg'
import { serve } from './runner.js'

const arguments_ = {
    json: (value) => (Array.isArray(value) ? JSON.stringify(value) : value), // an array would become one of PostgreSQL's
    bytes: (hex) => Buffer.from(hex, 'hex'),
    uint8array: (hex) => new Uint8Array(Buffer.from(hex, 'hex')),
    arraybuffer: (hex) => new Uint8Array(Buffer.from(hex, 'hex')).buffer,
    time: (text) => new Date(text),
}
const argument = ([kind, value]) => (arguments_[kind] ? arguments_[kind](value) : value)

const pool = new pg.Pool({ max: 1 })

// pool.query drops the connection after an error, while the server still undoes the statement; the next one would not wait for that.
async function run(handle, text, args) {
    const client = handle === pool ? await pool.connect() : handle
    try {
        const { fields, rows } = await client.query({ text, values: args.map(argument), rowMode: 'array' })
        return { columns: fields.map((field) => field.name), rows }
    } finally {
        if (handle === pool) client.release()
    }
}

async function transaction(work) {
    const client = await pool.connect()
    try {
        await client.query('BEGIN')
        await work(client)
        await client.query('COMMIT')
    } catch (error) {
        await client.query('ROLLBACK')
        throw error
    } finally {
        client.release()
    }
}

await serve(pool, run, transaction)
await pool.end()
