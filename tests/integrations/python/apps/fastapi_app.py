"""A shop on FastAPI, on the driver that DRIVER names."""

import asyncio
import datetime
import os
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from idem_postgres import Problem
from idem_postgres.fastapi import IdemMiddleware, idempotent
from starlette.background import BackgroundTask

from answers import FAILING, answer, order
from database import execute, make_pool

app = FastAPI()
pool, opened, closed = make_pool(os.environ["DRIVER"])


@asynccontextmanager
async def lifespan(app):
    await opened()
    yield
    await closed()


def scope(request):
    if not (token := request.headers.get("authorization", "client:1")):
        raise Problem(401, "Who are you?")
    return token if token != "nobody" else ""


def is_leased(request):
    return request.url.path.startswith("/payments")


options = dict(pool=pool, scope=scope, max_body=100_000, store_errors={410})
app.add_middleware(IdemMiddleware, **options, skip=lambda request: is_leased(request) or request.url.path == "/free")
app.add_middleware(IdemMiddleware, **options, skip=lambda request: not is_leased(request), lease=datetime.timedelta(seconds=3))
app.router.lifespan_context = lifespan


@app.post("/orders")
async def orders(request: Request, idem=Depends(idempotent)):
    number, kind, slow = order(await request.body())
    await execute(idem.connection, "INSERT INTO orders (number) VALUES ({})", number)
    await asyncio.sleep(slow)
    status, headers, body = answer(kind, number)
    return Response(body, status, headers, background=BackgroundTask(sent, number))


async def sent(number):
    """Runs after the response: the order has been committed, so that another connection sees it."""
    async with pool_connection() as connection:
        await execute(connection, "INSERT INTO sent SELECT number FROM orders WHERE number = {}", number)


@app.post("/payments")
async def payments(request: Request, idem=Depends(idempotent)):
    number, kind, slow = order(await request.body())
    await idem.step("charge")
    await asyncio.sleep(slow)
    async with pool_connection() as connection:
        await execute(connection, "INSERT INTO orders (number) VALUES ({})", number)
    await idem.step("charge", {"charge": f"ch_{number}"})
    status, headers, body = answer(kind, number)
    return Response(body, status, headers)


@app.post("/fail/{how}")
async def fail(how: str, request: Request, idem=Depends(idempotent)):
    number, *_ = order(await request.body())
    await execute(idem.connection, "INSERT INTO orders (number) VALUES ({})", number)
    if how in FAILING:
        await execute(idem.connection, FAILING[how])
    if how.startswith("swallow"):
        try:
            await execute(idem.connection, FAILING["broken"])
        except Exception:
            return Response("swallowed", int(how.removeprefix("swallow-")))
    if how in ("not-found", "410"):
        raise HTTPException(404 if how == "not-found" else 410)
    if how == "exception":
        raise ValueError("a bug")
    return Response(how, int(how))


@app.post("/stream")
async def stream(idem=Depends(idempotent)):
    return StreamingResponse(iter([b"one", b"two", b"three"]))


@app.post("/file")
@app.post("/huge")
async def large(request: Request, idem=Depends(idempotent)):
    return StreamingResponse(iter([b"x" * 30_000] * (10 if request.url.path == "/file" else 100)))


@app.post("/events")
async def events(idem=Depends(idempotent)):
    return StreamingResponse(iter([b"data: 1\n\n"]), media_type="text/event-stream")


@app.post("/free")
async def free():
    return StreamingResponse(iter([b"one", b"two", b"three"]))


@app.get("/orders")
async def listing():
    return {"orders": "all"}


def pool_connection():
    from database import connection_of

    return connection_of(pool)
