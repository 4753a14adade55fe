// The Node half of the protocol of check.py: a line in, a line out.

import { createInterface } from 'node:readline'

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const answer = (message) => process.stdout.write(JSON.stringify(message) + '\n')

class Rollback extends Error {}

const typeName = (value) => {
    if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value
    return value.constructor.name
}

const plain = (value) => {
    if (typeof value === 'bigint') return String(value)
    if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
    return value
}

const failure = (error) => ({ error: { sqlstate: /^[0-9A-Z]{5}$/.test(error.code ?? '') ? error.code : null, type: error.constructor.name, message: error.message } })

/**
 * run(handle, sql, args) resolves to the rows, as arrays, with their columns; transaction(work) calls work(handle) in a transaction,
 * and rolls back when that is rejected; batch(statements), where there is one, sends them at once, in one transaction.
 */
export async function serve(handle, run, transaction, batch) {
    const loop = async (handle) => {
        for (;;) {
            const { value: line, done } = await lines.next()
            if (done) return
            const request = JSON.parse(line)
            if (request.do === 'commit') return
            if (request.do === 'rollback') throw new Rollback()
            try {
                if (request.do === 'begin') {
                    await transaction(async (inner) => {
                        answer({})
                        await loop(inner)
                    })
                    answer({})
                } else if (request.do === 'batch') {
                    await batch(request.statements)
                    answer({})
                } else {
                    const { columns, rows } = await run(handle, request.sql, request.args)
                    answer({ columns, rows: rows.map((row) => row.map((value) => [typeName(value), plain(value)])) })
                }
            } catch (error) {
                answer(error instanceof Rollback ? {} : failure(error))
            }
        }
    }
    await loop(handle)
}
