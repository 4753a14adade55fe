// Many requests at a time, with double clicks, connections that the client cuts, and a server that is killed.

import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { post } from './server.js'

const kinds = ['json', 'pdf', 'empty']

/** Sends `requests` requests, each until it is answered, `parallel` at a time. Every key is sent one to three times, at once. */
export async function storm(server, pool, { requests, parallel, kills }) {
    const answers = new Map()
    const report = { requests, keys: 0, attempts: 0, replays: 0, 409: 0, 503: 0, cut: 0, kills: 0 }
    const queue = []
    while (queue.length < requests) {
        const number = report.keys++
        const item = `storm ${number}`
        const pause = number % 10 === 0 ? 100 : 0
        const body = JSON.stringify({ item, kind: kinds[number % kinds.length], pause })
        for (let click = 0; click <= number % 3 && queue.length < requests; click++) queue.push({ key: `storm-${number}`, item, body, isCut: number % 7 === click })
    }
    const killAt = Array.from({ length: kills }, (_, index) => Math.floor((requests * (index + 1)) / (kills + 1)))

    async function deliver({ key, item, body, isCut }) {
        for (let attempt = 0; ; attempt++) {
            assert.ok(attempt < 1000, `${key} is not answered`)
            report.attempts++
            let response
            try {
                response = await post(server.port, '/orders', { key, body, cut: isCut && attempt === 0 ? sleep(20) : undefined })
            } catch {
                report.cut++
                await restart
                await sleep(50)
                continue
            }
            if (response.status === 409 || response.status === 503) {
                report[response.status]++
                await sleep(50)
                continue
            }
            const { status, headers } = response
            if (headers['idempotent-replayed']) report.replays++
            const answer = [status, headers['content-type'], headers['content-encoding'], headers.location, response.body.toString('base64')]
            answers.set(item, [...(answers.get(item) ?? []), answer])
            return
        }
    }

    let restart = null
    async function worker() {
        for (let request; (request = queue.shift());) {
            if (requests - queue.length >= killAt[0]) {
                killAt.shift()
                report.kills++
                restart = Promise.resolve(restart).then(() => server.killAndRestart())
            }
            await deliver(request)
        }
    }
    await Promise.all(Array.from({ length: parallel }, worker))
    await restart

    for (const [item, given] of answers) {
        assert.ok(given[0][0] < 300, `${item}: ${given[0]}`)
        for (const answer of given) assert.deepEqual(answer, given[0], item)
    }
    const { rows } = await pool.query(`SELECT item, count(*)::int AS orders FROM orders WHERE item LIKE 'storm %' GROUP BY item`)
    assert.equal(rows.length, report.keys)
    assert.deepEqual(rows.filter(({ orders }) => orders !== 1), [])
    assert.ok(report.replays > 0 && report.cut > 0)
    return report
}
