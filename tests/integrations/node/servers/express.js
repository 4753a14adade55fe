import { once } from 'node:events'
import { idempotency } from 'idem-postgres/express'
import { insertBeforeRefusal, listening, options, port, routes, writeAndFail } from './shop.js'

const { default: express } = await import(process.env.EXPRESS ?? 'express')
const api = express.Router()
api.use(express.json())
for (const [path, work] of Object.entries(routes)) {
    api.post(path, (req, res, next) => {
        work(req.idem.client, req.body).then(({ status, headers, body }) => res.status(status).set(headers).send(body), next)
    })
}
api.post('/breaks', (req, res, next) => {
    insertBeforeRefusal(req.idem.client, req.body).then(() => writeAndFail(res)).catch(next)
})
api.post('/events', async (req, res) => {
    await insertBeforeRefusal(req.idem.client, req.body)
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write('data: 1\n\n')
})
const idempotent = idempotency(options((req) => req.get('X-Client')))
const app = express()
app.use((req, res, next) => next(res.set('X-Request-Id', 'r1') && undefined))
app.use(idempotent(api))
app.use((error, req, res, next) => (res.headersSent ? next(error) : res.status(error.status ?? 500).json({ error: error.message })))
const server = app.listen(port, '127.0.0.1')
await once(server, 'listening')
listening(server)
