"""One way to run a statement on the asynchronous drivers. `{}` in a statement is a parameter."""

import os
from contextlib import asynccontextmanager

POOLED = "IDEM_POOLED" in os.environ


def make_pool(driver):
    """The pool, and what opens and closes it."""
    if driver == "psycopg":
        from psycopg_pool import AsyncConnectionPool

        async def configure(connection):
            connection.prepare_threshold = None if POOLED else 5

        pool = AsyncConnectionPool("", min_size=2, max_size=12, open=False, configure=configure)
        return pool, pool.open, pool.close
    if driver == "asyncpg":
        import asyncpg

        # The pool of asyncpg is bound to the event loop when it is opened.
        pool = asyncpg.create_pool(
            host=os.environ["PGHOST"], user=os.environ["PGUSER"], database=os.environ["PGDATABASE"], port=os.environ["PGPORT"],
            min_size=2, max_size=12, statement_cache_size=0 if POOLED else 100,
        )

        async def opened():
            await pool

        return pool, opened, pool.close
    if driver == "sqlalchemy":
        from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
        from sqlalchemy.orm import sessionmaker

        url = "postgresql+asyncpg://{PGUSER}@/{PGDATABASE}?host={PGHOST}&port={PGPORT}".format(**os.environ)
        engine = create_async_engine(url, pool_size=12)

        async def nothing():
            pass

        return sessionmaker(engine, class_=AsyncSession), nothing, engine.dispose
    raise ValueError(driver)


async def execute(connection, statement, *values):
    kind = connection.__class__.__module__.split(".")[0]
    if kind == "psycopg":
        await connection.execute(statement.replace("{}", "%s"), values or None)
    elif kind == "asyncpg":
        await connection.execute(statement.replace("{}", "$1"), *values)
    else:
        from sqlalchemy import text

        await connection.execute(text(statement.replace("{}", ":value")), {"value": value for value in values})


@asynccontextmanager
async def connection_of(pool):
    """A connection in a transaction of its own."""
    if hasattr(pool, "getconn"):
        async with pool.connection() as connection:
            yield connection
    elif hasattr(pool, "acquire"):
        async with pool.acquire() as connection, connection.transaction():
            yield connection
    else:
        async with pool() as session, session.begin():
            yield session
