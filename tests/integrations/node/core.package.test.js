// The package as a new user finds it.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { post } from './server.js'

const directory = 'node_modules/idem-postgres'
const read = (file) => readFileSync(`${directory}/${file}`, 'utf8')

test('the README begins with the example, and the example works', async () => {
    const [, code] = /```js\n(.*?)```/s.exec(read('README.md'))
    assert.equal(code, read('example.mjs'))
    assert.ok(code.split('\n').length <= 18)
    writeFileSync('example.mjs', code)
    const port = 20000 + (process.pid % 10000)
    const server = spawn(process.execPath, ['example.mjs'], { env: { ...process.env, PORT: port }, stdio: 'inherit' })
    try {
        const order = () => post(port, '/orders', { key: 'readme', body: '{"item": "readme"}', headers: { Authorization: 'Bearer s3cret' } })
        let first
        while (!first) first = await order().catch(() => sleep(100))
        const again = await order()
        assert.deepEqual([first.status, again.status, again.headers['idempotent-replayed']], [201, 201, 'true'])
        assert.deepEqual(again.body, first.body)
    } finally {
        server.kill()
    }
})

test('every entry can be imported and required, and has types', async () => {
    const require = createRequire(import.meta.url)
    for (const [entry, { types, default: file }] of Object.entries(JSON.parse(read('package.json')).exports)) {
        const name = `idem-postgres${entry.slice(1)}`
        const imported = await import(name)
        const names = Object.keys(require(name))
        for (const exported of names) assert.equal(imported[exported], require(name)[exported], `${name} ${exported}`)
        const declared = [...read(types).matchAll(/^export (?:class|function) (\w+)/gm)].map(([, exported]) => exported)
        assert.deepEqual(declared.sort(), names.sort(), file)
    }
})

test('the types fit a program', () => {
    execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node',
        '--skipLibCheck', 'types.ts'], { stdio: 'inherit' })
})
