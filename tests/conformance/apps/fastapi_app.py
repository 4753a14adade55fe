"""The reference app of `idem http-test --reference` for FastAPI: ../README.md has its routes."""

import asyncio
import socket
from contextlib import suppress

import reference
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from idem_postgres.fastapi import IdemMiddleware, idempotent, lifespan
from psycopg_pool import AsyncConnectionPool

pool = AsyncConnectionPool("", min_size=3, max_size=3, open=False, kwargs=reference.SESSION)
app = FastAPI()
app.router.lifespan_context = lifespan(pool)


def scope(request):
    return reference.scope(request.headers.get("authorization"), request.method, request.url.path)


def mount(does, **options):
    app.add_middleware(IdemMiddleware, pool=pool, scope=scope, skip=lambda request: not does(request.url.path), **options)


mount(lambda path: path == "/double")
mount(lambda path: path != "/leased" and not path.startswith("/hooks"))
mount(lambda path: path == "/leased", lease="1 s", wait="10 s")


async def insert(connection, key):
    return (await (await connection.execute(reference.INSERT, [key])).fetchone())[0]


@app.post("/orders")
@app.put("/orders")
@app.post("/other")
@app.post("/double")
async def work(request: Request, idem=Depends(idempotent)):
    body, key = await request.json(), reference.begin(idem)
    id = await insert(idem.connection, key)
    await asyncio.sleep(body.get("pause", 0) / 1000)
    if "throw" in body:
        raise HTTPException(body["throw"])
    status, headers, text = reference.answer(body, id)
    return Response(text, status, headers)


@app.post("/stream")
async def stream(idem=Depends(idempotent)):
    id = await insert(idem.connection, reference.begin(idem))

    async def slowly():
        for part in reference.parts(id):
            yield part
            await asyncio.sleep(0.005)

    return StreamingResponse(slowly(), 201, media_type="text/plain")


@app.post("/late")
async def late(request: Request, idem=Depends(idempotent)):
    connection, key = idem.connection, idem.header.strip('"')

    async def insert_late():
        await asyncio.sleep(0.2)
        with suppress(Exception):
            await insert(connection, key)

    response = await work(request, idem)
    request.app.state.late = asyncio.create_task(insert_late())
    return response


@app.post("/leased")
async def leased(request: Request, idem=Depends(idempotent)):
    body, key = await request.json(), reference.begin(idem)
    await asyncio.sleep(body.get("pause", 0) / 1000)
    if idem.steps.get("effect") is None:
        async with await reference.connect() as connection:  # commits the effect and the step under the fence together
            await insert(connection, key)
            await idem.step("effect", {"done": True}, connection=connection)
    status, headers, text = reference.answer(body, idem.fence)
    return Response(text, status, headers)


@app.get("/effects")
def effects(key: str):
    return reference.effects(key)


@app.post("/hooks/kill")
def kill():
    reference.kill()


@app.post("/hooks/disconnect", status_code=204)
def disconnect():
    reference.disconnect()


@app.post("/hooks/lose-commit", status_code=204)
def lose_commit():
    reference.lose_commit()


listener = socket.create_server(("127.0.0.1", reference.PORT))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
