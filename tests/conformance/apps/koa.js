// The reference app of `idem http-test --reference` for Koa.
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { bodyParser } from '@koa/bodyparser'
import { idempotency } from 'idem-postgres/koa'
import Koa from 'koa'
import { effects, hooks, late, listening, optionsOf, port, stream, underLease, work } from './reference.js'

const [options, leasedOptions] = optionsOf((ctx) => [ctx.get('Authorization'), ctx.method, ctx.path])
const idempotent = idempotency(options), leased = idempotency(leasedOptions)
const twice = (ctx, next) => idempotent(ctx, () => idempotent(ctx, next))

const errorOf = (status) => Object.assign(new Error('thrown'), { status })
const json = (act) => async (ctx) => {
    const { status, headers, body } = await act(ctx.state.idem, ctx.request.body, errorOf)
    ctx.status = status
    ctx.set(headers)
    ctx.body = body
}

const parts = async (ctx) => {
    ctx.status = 201
    ctx.type = 'text'
    ctx.body = Readable.from(await stream(ctx.state.idem))
}

const routes = {
    'POST /orders': [idempotent, json(work)],
    'PUT /orders': [idempotent, json(work)],
    'POST /other': [idempotent, json(work)],
    'POST /late': [idempotent, json(late)],
    'POST /stream': [idempotent, parts],
    'POST /double': [twice, json(work)],
    'POST /leased': [leased, json(underLease)],
}
const parse = bodyParser()

const app = new Koa({ env: 'test' })
app.use(async (ctx) => {
    const [middleware, handler] = routes[`${ctx.method} ${ctx.path}`] ?? []
    if (handler) return middleware(ctx, () => parse(ctx, () => handler(ctx)))
    if (ctx.path === '/effects') ctx.body = await effects(ctx.query.key)
    const press = ctx.method === 'POST' && hooks[ctx.path.replace('/hooks/', '')]
    if (!press) return
    await press()
    ctx.status = 204
})
const server = app.listen(port, '127.0.0.1')
await once(server, 'listening')
listening(server)
