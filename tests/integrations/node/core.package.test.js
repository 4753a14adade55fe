// The package as a new user finds it.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { post } from './server.js'

const directory = 'node_modules/idem-postgres'
const read = (file) => readFileSync(`${directory}/${file}`, 'utf8')

const readme = read('README.md')
const blocks = (language) => [...readme.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, text]) => text)
const [example, leasedExample, onceExample, fakeExample, lockExample] = blocks('js')
const pool = new pg.Pool({ max: 1 })
after(() => pool.end())
let ports = 20000 + (process.pid % 10000)

/** Runs the program in a process of its own, and calls `use` with its port when it answers. */
async function withProgram(file, code, use) {
    writeFileSync(file, code)
    const port = ++ports
    const server = spawn(process.execPath, [file], { env: { ...process.env, PORT: port, PGAPPNAME: file }, stdio: ['ignore', 'inherit', 'ignore'] })
    const ended = once(server, 'exit')
    try {
        while (!(await post(port, '/').catch(() => sleep(100)))) assert.equal(server.exitCode, null, `${file} ended`)
        await use(port)
        assert.equal(server.exitCode, null, `${file} ended`)
    } finally {
        server.kill()
        await ended
    }
}

const placeOrder = (port, key) => post(port, '/orders', { key, body: '{"item": "readme"}', headers: { Authorization: 'Bearer s3cret' } })

test('the README begins with the example, and the example works', async () => {
    assert.ok(readme.startsWith('```js\n'))
    assert.equal(example, read('example.mjs'))
    assert.ok(example.split('\n').length <= 18)
    await withProgram('example.mjs', example, async (port) => {
        const first = await placeOrder(port, 'readme'), again = await placeOrder(port, 'readme')
        assert.deepEqual([first.status, again.status, again.headers['idempotent-replayed']], [201, 201, 'true'])
        assert.deepEqual(again.body, first.body)
    })
})

test('the example answers 401 to a request without a client', () => withProgram('example.mjs', example, async (port) => {
    for (const headers of [{}, { Authorization: 'Bearer wrong' }, { Authorization: 'constructor' }]) {
        assert.equal((await post(port, '/orders', { key: 'readme-401', body: '{"item": "readme"}', headers })).status, 401)
    }
}))

test('the example outlives its connections', () => withProgram('example.mjs', example, async (port) => {
    assert.equal((await placeOrder(port, 'before')).status, 201)
    const { rows } = await pool.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'example.mjs' AND datname = current_database()`)
    assert.ok(rows.length > 0)
    let response
    do response = await placeOrder(port, 'after')
    while (response.status === 503)
    assert.equal(response.status, 201)
}))

test('the commands of the README get the answers that it shows', () => withProgram('example.mjs', example, async (port) => {
    const commands = blocks('sh').join('').split('\n').filter((line) => line.startsWith('curl '))
    assert.equal(commands.length, 2)
    const answers = commands.map((command) => execFileSync('sh', ['-c', command.replace('localhost:3000', `127.0.0.1:${port}`)],
        { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
    const shown = answers.join('\n').split(/\r?\n/).filter((line) => /^(HTTP|Idempotent-Replayed|\{)/.test(line)).map((line) => `${line}\n`).join('')
    assert.equal(shown.replace(/"id":\d+/g, '"id":1'), blocks('text')[0])
}))

test('the README says how to install the package that is built', () => {
    const { name, version } = JSON.parse(read('package.json'))
    assert.ok(readme.includes(`build/integrations/node/${name}-${version}.tgz`))
    assert.match(blocks('sh')[0], new RegExp(`^npm install ./${name}-${version}.tgz express pg\nPGDATABASE=shop npx idem-postgres install\nPGDATABASE=shop node example.mjs\n$`))
})

test('the leased example works, and the gateway gets one key for each client', async () => {
    await pool.query(blocks('sql')[1])
    await withProgram('leased.mjs', leasedExample, async (port) => {
        const pay = (client, key) => post(port, '/payments', { key, body: '{"amount": 5}', headers: { Authorization: client } })
        const [first, again, other] = [await pay('Bearer s3cret', '"1"'), await pay('Bearer s3cret', '1'), await pay('Bearer t0psecret', '1')]
        assert.deepEqual([first.status, again.headers['idempotent-replayed'], other.headers['idempotent-replayed']], [201, 'true', undefined])
        assert.deepEqual([first, again, other].map(({ body }) => JSON.parse(body)),
            ['17', '17', '18'].map((client) => ({ charge: `ch_client ${client}/1`, amount: 5 })))
        assert.deepEqual((await pool.query('SELECT charge FROM payments ORDER BY charge')).rows, [{ charge: 'ch_client 17/1' }, { charge: 'ch_client 18/1' }])
        assert.equal((await pay('', '2')).status, 401)
    })
})

test('the example without a server replays a payment', () => withProgram('pglite.mjs', blocks('mjs')[0], async (port) => {
    const pay = () => post(port, '/payments', { key: 'k1', body: '{"amount": 5}' })
    const [first, again] = [await pay(), await pay()]
    assert.deepEqual([first.status, String(first.body), again.headers['idempotent-replayed'], String(again.body)], [201, '{"id":1,"amount":5}', 'true', '{"id":1,"amount":5}'])
}))

test('the examples of once, leased, the fake and a lock run', () => {
    for (const [file, code] of [['once.mjs', onceExample], ['fake.mjs', fakeExample], ['lock.mjs', lockExample]]) {
        writeFileSync(file, code)
        execFileSync(process.execPath, [file], { timeout: 300_000 })
    }
})

test('the README lists every code of a problem, in the table and in the enum of OpenAPI', () => {
    const own = readdirSync(`${directory}/lib`).flatMap((file) => [...read(`lib/${file}`).matchAll(/(?:problem\(\d+|retryLater\((?:\w+ \? '\w+' : )?)(?:, )?'(\w+)'/g)])
        .map(([, code]) => code)
    const idems = ['key_missing', 'key_malformed', 'in_flight', 'in_doubt', 'mismatch']
    const codes = [...new Set([...own, ...idems])].sort()
    const [, list] = /enum: \[([\w, ]+)\]/.exec(readme)
    assert.deepEqual(list.split(', ').sort(), codes)
    const [, table] = /## What the client gets\n(.*?)\n## /s.exec(readme)
    assert.deepEqual(codes.filter((code) => !table.includes(`\`${code}\``)), [])
    assert.deepEqual(codes.filter((code) => !idems.includes(code)), ['body_too_large', 'commit_unknown', 'internal', 'lease_lost', 'not_committed', 'response_encoded',
        'response_too_large', 'rolled_back', 'serialization_failure', 'streamed', 'unavailable'])
})

test('the README has no link that is dead in the package', () => {
    const links = [...readme.matchAll(/\]\(([^)#\s]*)(?:#([\w-]+))?\)/g)]
    assert.ok(links.length > 10)
    const headings = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, title]) => title.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-'))
    for (const [link, file, heading] of links) assert.ok(file === '' && headings.includes(heading), link)
})

test('the package has a license, a changelog, and what a registry shows', () => {
    const { license, keywords, private: isPrivate, files } = JSON.parse(read('package.json'))
    assert.match(read('LICENSE'), /PostgreSQL License/)
    assert.ok(read('CHANGELOG.md') && license === 'PostgreSQL' && keywords.length > 3 && isPrivate === undefined)
    assert.ok(files.includes('LICENSE') && files.includes('*.mjs'))
})

test('no module of Node is required by name, which a bundle that is an ES module cannot do', () => {
    for (const file of [...readdirSync(directory), ...readdirSync(`${directory}/lib`).map((name) => `lib/${name}`)].filter((name) => name.endsWith('.js'))) {
        assert.doesNotMatch(read(file), /require\('node:/, file)
    }
})

test('a program that esbuild has bundled runs, as an ES module and as CommonJS', async () => {
    const { build } = await import('esbuild')
    const entries = ['', '/core', '/express', '/fastify', '/koa', '/hono', '/web', '/fake'].map((entry, index) => `import * as e${index} from 'idem-postgres${entry}'`)
    writeFileSync('bundled.js', `${entries.join('\n')}
        const POST = e6.idempotency({ database: e7.fakeDatabase(), scope: () => 'bundle' })(async (request) => Response.json(await request.json(), { status: 201 }))
        const send = () => POST(new Request('http://localhost/', { method: 'POST', body: '{"a":1}', headers: { 'Idempotency-Key': 'k' } }))
        send().then(send).then(async (response) => console.log(response.headers.get('idempotent-replayed'), await response.text(), [e0, e1, e2, e3, e4, e5].every((e) => Object.keys(e).length > 0)))`)
    for (const [format, outfile] of [['esm', 'bundled.mjs'], ['cjs', 'bundled.cjs']]) {
        await build({ entryPoints: ['bundled.js'], bundle: true, platform: 'node', format, outfile, logLevel: 'error' })
        assert.equal(execFileSync(process.execPath, [outfile], { encoding: 'utf8', timeout: 60_000 }), 'true {"a":1} true\n', format)
    }
})

test('every entry can be imported and required, and has types', async () => {
    const require = createRequire(import.meta.url)
    for (const [entry, { types }] of Object.entries(JSON.parse(read('package.json')).exports)) {
        if (!types) continue
        const name = `idem-postgres${entry.slice(1)}`
        const imported = await import(name)
        const names = Object.keys(require(name))
        for (const exported of names) assert.equal(imported[exported], require(name)[exported], `${name} ${exported}`)
        const declared = [...read(types).matchAll(/^export (?:class|function|const|\{) ?(\w+)/gm)].map(([, exported]) => exported)
        assert.deepEqual([...new Set(declared)].sort(), names.sort(), entry)
        assert.deepEqual(Object.keys(imported).sort(), names, entry)
    }
})

test('the types fit a program, and those of the README', () => {
    const preamble = `import express from 'express'
        import pg from 'pg'
        import { idempotency } from 'idem-postgres/express'
        const app = express(), api = express.Router(), database: pg.Pool = null as any
        const idempotent = idempotency({ database, scope: (req) => req.path }), paid = idempotency({ database, scope: (req) => req.path, lease: '30 s' })\n`
    blocks('ts').forEach((block, index) => writeFileSync(`readme${index}.ts`, preamble + block))
    execFileSync(process.execPath, ['../../node_modules/typescript/bin/tsc', '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node',
        '--experimentalDecorators', '--skipLibCheck', 'types.ts', ...blocks('ts').map((_, index) => `readme${index}.ts`)], { stdio: 'inherit' })
})
