// A server of servers/ as a process of its own, and a client that sees the bytes.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { createInterface } from 'node:readline'

export class Server {
    #file
    #environment
    #child
    port = 0

    constructor(file, environment) {
        this.#file = file
        this.#environment = environment
    }

    async start() {
        this.#child = spawn(process.execPath, [new URL(`servers/${this.#file}.js`, import.meta.url).pathname],
            { env: { ...process.env, ...this.#environment, PORT: this.port }, stdio: ['ignore', 'pipe', 'inherit'] })
        const [line] = await Promise.race([once(createInterface(this.#child.stdout), 'line'), once(this.#child, 'exit').then(() => { throw new Error('the server ended') })])
        this.port = Number(line)
    }

    /** When the process has ended. */
    get ended() {
        return this.#child.exitCode === null && this.#child.signalCode === null ? once(this.#child, 'exit') : Promise.resolve()
    }

    async kill() {
        this.#child.kill('SIGKILL')
        await this.ended
    }

    async killAndRestart() {
        await this.kill()
        await this.start()
    }
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })

/** → { status, headers, body }. Rejects when the connection is cut, by the server or, when the promise `cut` resolves, by the client. */
export function post(port, path, { key, keys, body = '', headers = {}, cut, method = 'POST' } = {}) {
    return new Promise((resolve, reject) => {
        const request = http.request({ port, host: '127.0.0.1', method, path, agent, headers: {
            'Content-Type': 'application/json', 'X-Client': 'test', ...headers, 'Content-Length': Buffer.byteLength(body),
        } })
        const given = keys ?? key
        if (given !== undefined) request.setHeader('Idempotency-Key', given)
        request.on('error', reject).on('response', (response) => {
            const chunks = []
            response.on('data', (chunk) => chunks.push(chunk)).on('error', reject)
                .on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }))
        })
        request.end(body)
        cut?.then(() => request.destroy(new Error('cut')))
    })
}

/** Whether the server's idem_http_complete has the argument `omit`, with which a large response is completed. */
export const hasOmit = async (pool) =>
    (await pool.query(`SELECT FROM pg_proc WHERE proname = 'idem_http_complete' AND 'omit' = ANY (proargnames)`)).rows.length > 0
