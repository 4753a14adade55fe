"""The middleware of FastAPI on the routes of one router."""

import asyncio
import json
import logging

import psycopg
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, HTTPException
from fastapi.responses import JSONResponse
from idem_postgres.fastapi import idempotent, idempotent_route
from pydantic import BaseModel

from tap import same


class Order(BaseModel):
    number: int


async def connect():
    return await psycopg.AsyncConnection.connect("", prepare_threshold=None)


def count(number):
    with psycopg.connect("") as db:
        return db.execute("SELECT count(*)::int FROM orders WHERE number = %s", (number,)).fetchone()[0]


def application(told):
    app = FastAPI()
    router = APIRouter(route_class=idempotent_route(pool=connect, scope=lambda request: "routes", logger=logging.Logger("routes")))

    @router.post("/orders/{number}", response_model=Order, status_code=201)
    async def order(number: int, tasks: BackgroundTasks, run=Depends(idempotent)):
        await run.connection.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
        tasks.add_task(lambda: told.append((number, count(number))))
        if number == 801:
            raise HTTPException(402)
        return {"number": number, "secret": 1}

    @app.post("/plain")
    async def plain():
        told.append("plain")

    app.include_router(router, prefix="/shop")
    return app


async def post(app, path, key):
    sent, parts = [], [{"type": "http.request", "body": b""}]

    async def receive():
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    headers = [(b"idempotency-key", key)] if key else []
    await app({"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers, "root_path": ""}, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]).get(b"idempotent-replayed"), json.loads(body)


async def run():
    told = []
    app = application(told)
    got = [await post(app, "/shop/orders/800", b"r1") for _ in range(2)]
    same("routes: a replay has the response model's bytes", got, [(201, None, {"number": 800}), (201, b"true", {"number": 800})])
    same("routes: the row is there once, and the background task ran once, after COMMIT", (count(800), told), (1, [(800, 1)]))
    got = [(await post(app, "/shop/orders/801", b"r2"))[:2] for _ in range(2)]
    same("routes: an HTTPException rolls back, and runs no background task", (got, count(801), told), ([(402, None)] * 2, 0, [(800, 1)]))
    same("routes: a route of the router needs a key", (await post(app, "/shop/orders/802", None))[0], 400)
    same("routes: others do not", ((await post(app, "/plain", None))[0], (await post(app, "/plain", b"r1"))[1], told[1:]), (200, None, ["plain", "plain"]))
    same("routes: where the route calls the handlers of errors, an HTTPException rolls back, too", await newer(), (2, [(402, None)] * 2))


async def newer():
    """As a route of newer versions of Starlette."""
    ran = []

    async def handled(request, error):
        return JSONResponse({}, error.status_code)

    class Route(idempotent_route(pool=connect, scope=lambda request: "routes", logger=logging.Logger("routes"))):
        def get_route_handler(self):
            async def handler(request):
                ran.append(1)
                return await request.scope["starlette.exception_handlers"][0][HTTPException](request, HTTPException(402))

            return handler

    route = Route("/newer", lambda: None, methods=["POST"])

    async def app(scope, receive, send):
        await route.app({**scope, "starlette.exception_handlers": ({HTTPException: handled}, {})}, receive, send)

    got = [(await post(app, "/newer", b"r3"))[:2] for _ in range(2)]
    return len(ran), got
