// The programs and commands of docs/tutorials/agents.md print what the page shows, and so do the examples of skills/idem/SKILL.md.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, test } from 'node:test'
import pg from 'pg'

const read = (path) => readFileSync(new URL(`../../../../../${path}`, import.meta.url), 'utf8')
const blocks = (page) => [...page.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language, text]) => ({ language, text }))
const pool = new pg.Pool({ max: 1 })
after(() => pool.end())

test('the tutorial prints what it shows', async () => {
    const { rows: [{ schema }] } = await pool.query(`SELECT current_schema() AS schema`)
    assert.equal(schema, 'public')
    await pool.query('CREATE SCHEMA tutorial')
    const environment = { ...process.env, PGOPTIONS: '-c search_path=tutorial', SHOP_USER: 'alice' }
    const shown = blocks(read('docs/tutorials/agents.md'))
    let printed = null, count = 0
    for (const { language, text } of shown) {
        if (language === 'sql') await pool.query(`SET search_path = tutorial; ${text}; RESET search_path`)
        else if (language === 'js') writeFileSync(/^\/\/ (\S+)/.exec(text)[1], text)
        else if (language === 'sh' && !text.startsWith('npm')) printed = spawnSync('sh', ['-c', `exec 2>/dev/null; ${text}`], { env: environment, encoding: 'utf8', timeout: 60_000 }).stdout
        else if (language === 'text') {
            assert.equal(printed, text)
            count++
        }
    }
    assert.equal(count, 4)
})

test('the examples of the skill pass the test that it says to generate', async () => {
    const skill = read('skills/idem/SKILL.md')
    assert.ok(skill.split('\n').length <= 150)
    await pool.query('CREATE TABLE skill_orders (id int GENERATED ALWAYS AS IDENTITY, item text); CREATE TABLE skill_payments (invoice text); CREATE TABLE skill_charges (key text)')
    for (const [, name, text] of skill.matchAll(/^```js (\w+)\n(.*?)^```/gms)) if (name !== 'wrong') writeFileSync(`${name}.mjs`, text)
    const environment = { ...process.env, NODE_TEST_CONTEXT: '' }
    const { status, stdout } = spawnSync(process.execPath, ['--test-reporter=tap', 'test.mjs'], { encoding: 'utf8', env: environment, timeout: 120_000 })
    assert.deepEqual([status, /^# pass (\d+)/m.exec(stdout)?.[1]], [0, '2'], stdout)
})
