// A host of MCP, in front of servers/mcp.js: each SDK and transport has the same calls.

import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Server } from './server.js'

const information = [{ name: 'host', version: '1' }]
const path = new URL('servers/mcp.js', import.meta.url).pathname

/** A server process and the host's connection to it. With stdio the two are one. */
export class Host {
    #sdk
    #environment
    #server
    #client

    constructor(sdk, environment = {}) {
        this.#sdk = sdk
        this.#environment = { SDK: sdk, MCP_USER: 'alice', ...environment }
    }

    async start() {
        if (this.#sdk !== 'v1-stdio') {
            this.#server = new Server('mcp', this.#environment)
            await this.#server.start()
        }
        await this.#connect()
        return this
    }

    async #connect() {
        const { MCP_USER: user } = this.#environment
        if (this.#sdk === 'v1-stdio') {
            this.#client = new Client1(...information)
            return this.#client.connect(new StdioClientTransport({ command: process.execPath, args: [path], env: { ...process.env, ...this.#environment }, stderr: 'inherit' }))
        }
        const url = new URL(`http://127.0.0.1:${this.#server.port}/`), options = { requestInit: { headers: { 'x-user': user } } }
        this.#client = this.#sdk === 'v1-http' ? new Client1(...information) : new Client2(...information, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
        return this.#client.connect(this.#sdk === 'v1-http' ? new Http1(url, options) : new Http2(url, options))
    }

    /** → { text, isError, structured, meta } or { thrown } */
    async call(name, args, { meta, ...options } = {}) {
        const request = { name, arguments: args, ...(meta ? { _meta: meta } : {}) }
        try {
            const result = await (this.#client instanceof Client2 ? this.#client.callTool(request, options) : this.#client.callTool(request, undefined, options))
            return { text: result.content.map(({ text }) => text).join('\n'), isError: result.isError === true, structured: result.structuredContent, meta: result._meta ?? {} }
        } catch (error) {
            return { thrown: error.message ?? String(error) }
        }
    }

    /** A call during which the server dies. A client of version 1 would wait for its answer. */
    async lastCall(name, args) {
        const controller = new AbortController()
        this.#server?.ended.then(() => controller.abort('the server is dead'))
        const answer = await this.call(name, args, { signal: controller.signal })
        await this.#server?.ended
        return answer
    }

    tools() {
        return this.#client.listTools().then(({ tools }) => tools)
    }

    /** The host's connection ends, in the middle of its calls. */
    async disconnect() {
        await this.#client.close()
        await this.#connect()
    }

    /** After the server has killed itself. */
    async restart() {
        await this.#client.close().catch(() => {})
        if (this.#server) await this.#server.start()
        await this.#connect()
    }

    async stop() {
        await this.#client.close().catch(() => {})
        await this.#server?.kill().catch(() => {})
    }
}
