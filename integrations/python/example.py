from fastapi import Depends, FastAPI
from idem_postgres.fastapi import IdemMiddleware, idempotent
from psycopg_pool import AsyncConnectionPool

app = FastAPI()
pool = AsyncConnectionPool("", open=False)  # libpq's environment: PGHOST, PGDATABASE …
app.add_event_handler("startup", pool.open)
clients = {"key-of-alice": "alice"}  # your authentication
app.add_middleware(IdemMiddleware, pool=pool, scope=lambda request: "shop:" + clients[request.headers["x-api-key"]])


@app.post("/orders", status_code=201)
async def create_order(item: str, idem=Depends(idempotent)):
    cursor = await idem.connection.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", (item,))
    return {"order": (await cursor.fetchone())[0], "item": item}
