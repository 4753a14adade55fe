import { once } from 'node:events'
import { Readable } from 'node:stream'
import { idempotency } from 'idem-postgres/express'
import { insertBeforeRefusal, largeParts, listening, options, parts, port, routes, writeAndFail } from './shop.js'

const { default: express } = await import(process.env.EXPRESS ?? 'express')
const api = express.Router()
api.use(express.json())
for (const [path, work] of Object.entries(routes)) {
    api.post(path, (req, res, next) => {
        work(req.idem.client, req.body).then(({ status, headers, body }) => res.status(status).set(headers).send(body), next)
    })
}
api.post('/refused', (req, res, next) => {
    insertBeforeRefusal(req.idem.client, req.body).then(() => next(Object.assign(new Error('refused'), { status: 404 })), next)
})
api.post('/breaks', (req, res, next) => {
    insertBeforeRefusal(req.idem.client, req.body).then(() => writeAndFail(res)).catch(next)
})
api.post('/stream', async (req, res) => {
    await insertBeforeRefusal(req.idem.client, req.body)
    for await (const part of parts()) res.write(part)
    res.end()
})
api.post('/events', async (req, res) => {
    await insertBeforeRefusal(req.idem.client, req.body)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write('data: 1\n\n')
})
api.post('/large', async (req, res) => {
    await insertBeforeRefusal(req.idem.client, req.body)
    Readable.from(largeParts()).pipe(res.status(201))
})
const idempotent = idempotency(options((req) => req.get('X-Client')))
api.post('/twice', idempotent(async (req, res) => {
    await insertBeforeRefusal(req.idem.client, req.body)
    res.status(201).end()
}))
const app = express()
app.use((req, res, next) => next(res.set('X-Request-Id', 'r1') && undefined))
app.use(idempotent(api))
app.use((error, req, res, next) => (res.headersSent ? next(error) : res.status(error.status ?? 500).json({ error: error.message })))
const server = app.listen(port, '127.0.0.1')
await once(server, 'listening')
listening(server)
