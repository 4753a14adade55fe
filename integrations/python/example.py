from typing import Any

from fastapi import Depends, FastAPI, Request
from idem_postgres import AsyncRun
from idem_postgres.fastapi import RESPONSES, IdemMiddleware, Problem, idempotent, lifespan
from psycopg_pool import AsyncConnectionPool

clients = {"key-of-alice": "alice"}  # your authentication


def scope(request: Request) -> str:
    if not (client := clients.get(request.headers.get("X-API-Key", ""))):
        raise Problem(401)
    return "shop:" + client


app = FastAPI()
pool = AsyncConnectionPool("", open=False)  # libpq's environment: PGHOST, PGDATABASE …
app.router.lifespan_context = lifespan(pool)  # opens the pool, and closes it
app.add_middleware(IdemMiddleware, pool=pool, scope=scope)


@app.post("/orders", status_code=201, responses=RESPONSES)
async def create_order(item: str, run: AsyncRun = Depends(idempotent)) -> dict[str, Any]:
    cursor = await run.connection.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", (item,))
    return {"order": (await cursor.fetchone())[0], "item": item}
