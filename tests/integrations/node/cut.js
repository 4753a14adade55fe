import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import pg from 'pg'

/** A pool whose connections are cut at a statement, by default COMMIT: before the server has it, or before its answer is passed on. */
export async function withCutPool(when, use, isStatement = (data) => data.includes('COMMIT')) {
    const directory = mkdtempSync(`${tmpdir()}/idem-cut-`)
    let isArmed = true
    const proxy = net.createServer((client) => {
        const server = net.connect(`${process.env.PGHOST}/.s.PGSQL.${process.env.PGPORT}`)
        const cut = () => {
            client.destroy()
            server.destroy()
        }
        let isCut = false
        client.on('data', (data) => {
            isCut = isArmed && isStatement(data)
            if (isCut) isArmed = false
            if (isCut && when === 'before') cut()
            else server.write(data)
        }).on('error', cut).on('close', cut)
        server.on('data', (data) => (isCut ? cut() : client.write(data))).on('error', cut).on('close', cut)
    }).listen(`${directory}/.s.PGSQL.5432`)
    await once(proxy, 'listening')
    const cutPool = new pg.Pool({ host: directory, port: 5432 })
    try {
        await use(cutPool)
    } finally {
        await cutPool.end()
        proxy.close()
        rmSync(directory, { recursive: true })
    }
}
