"""Renewals while requests hold each connection of the pool: a lease is renewed on a connection of its own."""

import asyncio
import os
import time

import psycopg
from idem_postgres import async_lock, lock
from idem_postgres.pool import Pool, finish
from idem_postgres.renewals import Line, RenewalPool

from tap import same

NAME = "idem starved"
TTL = "2 min"  # nothing is lost or due by itself


def url(driver):
    return "postgresql+{}://{PGUSER}@/{PGDATABASE}?host={PGHOST}&port={PGPORT}".format(driver, **os.environ)


def blocking_pools():
    from psycopg2.pool import ThreadedConnectionPool
    from psycopg_pool import ConnectionPool
    from sqlalchemy import create_engine
    from sqlalchemy.orm import sessionmaker

    pool = ConnectionPool("", min_size=1, max_size=1, kwargs={"application_name": NAME}, configure=lambda connection: setattr(connection, "prepare_threshold", None))
    yield "psycopg", pool, pool.close
    pool = ThreadedConnectionPool(1, 1, f"application_name='{NAME}'")
    yield "psycopg2", pool, pool.closeall
    engine = create_engine(url("psycopg2"), pool_size=1, max_overflow=0, connect_args={"application_name": NAME})
    yield "SQLAlchemy", engine, engine.dispose
    yield "sessionmaker", sessionmaker(engine), engine.dispose


async def async_pools():
    import asyncpg
    from psycopg_pool import AsyncConnectionPool
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
    from sqlalchemy.orm import sessionmaker

    pool = AsyncConnectionPool("", min_size=1, max_size=1, open=False, kwargs={"application_name": NAME, "prepare_threshold": None})
    await pool.open()
    yield "psycopg, asynchronous", pool, pool.close
    settings = {"application_name": NAME}
    pool = await asyncpg.create_pool(
        host=os.environ["PGHOST"], user=os.environ["PGUSER"], database=os.environ["PGDATABASE"], port=os.environ["PGPORT"],
        min_size=1, max_size=1, statement_cache_size=0, server_settings=settings,
    )  # fmt: skip
    yield "asyncpg", pool, pool.close
    engine = create_async_engine(url("asyncpg"), pool_size=1, max_overflow=0, connect_args={"server_settings": settings})
    yield "SQLAlchemy, asynchronous", engine, engine.dispose
    yield "sessionmaker, asynchronous", sessionmaker(engine, class_=AsyncSession), engine.dispose


def query(statement, *values):
    with psycopg.connect(os.environ["IDEM_DIRECT"], autocommit=True) as db:
        return db.execute(statement, values).fetchone()[0]


def lease_end(name):
    return query("SELECT lease_until FROM idem.idem_locks WHERE key = %s", name)


def renews(held):
    """Whether a renewal that is due now reaches the database."""
    first, until = lease_end(held.name), time.monotonic() + 10
    while time.monotonic() < until:
        held._beat._lease._next = 0  # also after a renewal that failed
        assert not held._beat.is_lost
        if lease_end(held.name) > first:
            # The next one must find that this one is done.
            return _await(lambda: held._beat._lease._renewal_sent is None)
        time.sleep(0.05)
    return False


def _await(is_so):
    until = time.monotonic() + 10
    while not is_so() and time.monotonic() < until:
        time.sleep(0.05)
    return is_so()


def ours():
    return query("SELECT count(*)::int FROM pg_stat_activity WHERE application_name = %s", NAME)


def drop_renewals():
    """Ends the connection that renewals use. The one that was taken from the pool has run another statement last."""
    ended = "SELECT count(pg_terminate_backend(pid, 5000))::int FROM pg_stat_activity WHERE application_name = %s AND pid = %s"
    last = query("SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY query_start DESC NULLS LAST LIMIT 1", NAME)
    return query(ended, NAME, last)


def run():
    for name, pool, close in blocking_pools():
        blocking(name, pool)
        close()
    asyncio.run(all_async())
    patience()


def blocking(name, pool):
    source = Pool(pool)
    with lock(pool, "starved " + name, ttl=TTL) as held, lock(pool, "starved too " + name, ttl=TTL) as other:
        with _connection(source):
            got = renews(held), renews(other)
            shared = ours()
            dropped = drop_renewals()
            again = renews(held)
    same(f"starved: {name}: two leases are renewed while the pool has no connection", got, (True, True))
    same(f"starved: {name}: on one connection", (shared, dropped), (2, 1))
    same(f"starved: {name}: and on another when it is lost", again, True)
    same(f"starved: {name}: which is closed after the last lease", _await(lambda: ours() <= 1), True)


class _connection:
    """A connection of a blocking pool."""

    def __init__(self, source):
        self._manager = source.session()

    def __enter__(self):
        session = finish(self._manager.__aenter__())
        finish(session.begin())
        from sqlalchemy import text

        if hasattr(session.connection, "cursor"):
            session.connection.cursor().execute("SELECT 1")
        else:
            session.connection.execute(text("SELECT 1"))
        self._session = session

    def __exit__(self, *error):
        finish(self._session.rollback())
        finish(self._manager.__aexit__(*error))


async def all_async():
    async for name, pool, close in async_pools():
        await in_loop(name, pool)
        await close()


async def in_loop(name, pool):
    source = Pool(pool, in_loop=True)
    async with async_lock(pool, "starved " + name, ttl=TTL) as held, async_lock(pool, "starved too " + name, ttl=TTL) as other:
        async with source.session() as session:
            await session.begin()
            if hasattr(session.connection, "in_transaction"):  # a session of SQLAlchemy connects at its first statement
                from sqlalchemy import text

                await session.connection.execute(text("SELECT 1"))
            got = await asyncio.to_thread(renews, held), await asyncio.to_thread(renews, other)
            shared = ours()
            dropped = drop_renewals()
            await asyncio.sleep(0.2)
            again = await asyncio.to_thread(renews, held)
            await session.rollback()
    same(f"starved: {name}: two leases are renewed while the pool has no connection", got, (True, True))
    same(f"starved: {name}: on one connection", (shared, dropped), (2, 1))
    same(f"starved: {name}: and on another when it is lost", again, True)
    same(f"starved: {name}: which is closed after the last lease", await asyncio.to_thread(_await, lambda: ours() <= 1), True)


def patience():
    """A renewal that hangs on the shared connection."""

    def connect():
        return psycopg.connect("")

    pool, line = RenewalPool(Pool(connect)), Line.enter(None, None)
    hung = finish(line.take(pool, connect))
    second = finish(line.take(pool, connect))
    finish(line.give(second, True))
    third = finish(line.take(pool, connect))
    same("starved: a renewal that hangs does not hold up the others", (hung is second, second is third), (False, True))
    finish(line.leave())
    for connection in (hung, second):
        finish(line.give(connection, True))
    same("starved: what is given back after the last lease is closed", (hung.closed, second.closed), (True, True))
