import { once } from 'node:events'
import { Readable } from 'node:stream'
import { bodyParser } from '@koa/bodyparser'
import { idempotency } from 'idem-postgres/koa'
import Koa from 'koa'
import { insertBeforeRefusal, listening, options, port, routes, writeAndFail } from './shop.js'

const app = new Koa({ env: 'test' })
app.use((ctx, next) => {
    ctx.set('X-Request-Id', 'r1')
    return next()
})
app.use(idempotency(options((ctx) => ctx.get('X-Client'))))
app.use(bodyParser())
app.use(async (ctx) => {
    const { client } = ctx.state.idem
    const input = ctx.request.body
    if (routes[ctx.path]) {
        const { status, headers, body } = await routes[ctx.path](client, input)
        ctx.status = status
        ctx.set(headers)
        if (body) ctx.body = body
        return
    }
    if (ctx.path === '/nowhere') return
    await insertBeforeRefusal(client, input)
    if (ctx.path === '/breaks') writeAndFail(ctx.res)
    ctx.type = 'text/event-stream' // of /events
    ctx.body = Readable.from(['data: 1\n\n'])
})
const server = app.listen(port, '127.0.0.1')
await once(server, 'listening')
listening(server)
