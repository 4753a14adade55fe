// The reference app of `idem http-test --reference` for handlers of the web's Request, such as those of Next.js.
import { serve } from '@hono/node-server'
import { idempotency } from 'idem-postgres/web'
import { effects, hooks, late, listening, optionsOf, port, stream, underLease, work } from './reference.js'

const pathOf = (request) => new URL(request.url).pathname
const [options, leasedOptions] = optionsOf((request) => [request.headers.get('Authorization'), request.method, pathOf(request)])
const idempotent = idempotency(options), leased = idempotency(leasedOptions)

const errorOf = (status) => Object.assign(new Error('thrown'), { status })
const json = (act) => async (request) => {
    const { status, headers, body } = await act(request.idem, await request.json(), errorOf)
    return new Response(body, { status, headers })
}

const routes = {
    'POST /orders': idempotent(json(work)),
    'PUT /orders': idempotent(json(work)),
    'POST /other': idempotent(json(work)),
    'POST /late': idempotent(json(late)),
    'POST /double': idempotent(idempotent(json(work))),
    'POST /leased': leased(json(underLease)),
    'POST /stream': idempotent(async (request) =>
        new Response(ReadableStream.from(await stream(request.idem)), { status: 201, headers: { 'content-type': 'text/plain' } })),
    'GET /effects': async (request) => Response.json(await effects(new URL(request.url).searchParams.get('key'))),
}
for (const [name, press] of Object.entries(hooks)) {
    routes[`POST /hooks/${name}`] = async () => {
        await press()
        return new Response(null, { status: 204 })
    }
}

async function fetch(request) {
    try {
        return await (routes[`${request.method} ${pathOf(request)}`]?.(request) ?? new Response(null, { status: 404 }))
    } catch (error) {
        return Response.json({ error: error.message }, { status: error.status ?? 500 })
    }
}
const server = serve({ fetch, port, hostname: '127.0.0.1' }, () => listening(server))
