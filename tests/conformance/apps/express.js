// The reference app of `idem http-test --reference` for Express, 5 or what EXPRESS names.
import { idempotency, keepRawBody } from 'idem-postgres/express'
import { effects, hooks, late, listening, optionsOf, port, stream, underLease, work } from './reference.js'

const { default: express } = await import(process.env.EXPRESS ?? 'express')
const [options, leasedOptions] = optionsOf((req) => [req.get('Authorization'), req.method, req.path])
const idempotent = idempotency(options), leased = idempotency(leasedOptions)

const errorOf = (status) => Object.assign(new Error('thrown'), { status })
const json = (act) => async (req, res) => {
    const { status, headers, body } = await act(req.idem, req.body, errorOf)
    res.status(status).set(headers).send(body)
}

const app = express()
app.use(express.json({ verify: keepRawBody }))
app.route('/orders').post(idempotent(json(work))).put(idempotent(json(work)))
app.post('/other', idempotent(json(work)))
app.post('/late', idempotent(json(late)))
app.post('/double', idempotent(idempotent(json(work))))
app.post('/leased', leased(json(underLease)))
app.post('/stream', idempotent(async (req, res) => {
    res.status(201).type('text')
    for await (const part of await stream(req.idem)) res.write(part)
    res.end()
}))
app.get('/effects', async (req, res) => res.json(await effects(req.query.key)))
for (const [name, press] of Object.entries(hooks)) {
    app.post(`/hooks/${name}`, async (req, res) => {
        await press()
        res.sendStatus(204)
    })
}
app.use((error, req, res, next) => (res.headersSent ? next(error) : res.status(error.status ?? 500).json({ error: error.message })))
const server = app.listen(port, '127.0.0.1', () => listening(server))
