// express-idempotency, as its README has it, with its own store in memory: for the table of docs/conformance.md.
const express = require('express')
const { idempotency, getSharedIdempotencyService } = require('express-idempotency')

const counts = new Map()
let last = 0
const work = async (req, res) => {
    const service = getSharedIdempotencyService()
    if (service.isHit(req)) return
    const key = req.get('Idempotency-Key')?.replaceAll('"', '')
    if (req.body.pause) await new Promise((resolve) => setTimeout(resolve, req.body.pause))
    counts.set(key, (counts.get(key) ?? 0) + 1)
    const id = ++last
    res.status(req.body.status ?? 201).location(`/orders/${id}`).json({ id, item: req.body.item })
}
const app = express()
app.use(express.json())
app.use(idempotency())
app.route('/orders').post(work).put(work)
app.post('/other', work)
app.get('/effects', (req, res) => res.json({ count: counts.get(req.query.key) ?? 0 }))
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => console.log(server.address().port))
