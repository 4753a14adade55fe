"""Connections for renewals, outside of the application's pool: requests that use up the pool do not stop a heartbeat.

All leases on one pool share a connection, which is opened at the first renewal and closed when the last lease has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from .pool import Pool, settled
from .sessions import AsyncSession, is_a, is_hung_up

log = logging.getLogger("idem_postgres")
PATIENCE = 0.1
"""Seconds that a renewal waits for another one on the shared connection; then it opens a second one, as the other may hang."""

_lines: dict[tuple[int, int], Line] = {}
"""Those with leases, by the ids of the pool and, with an asynchronous driver, of the event loop. A line keeps both alive."""
_lines_lock = threading.Lock()


class Line:
    """The connections of the leases on one pool. With an asynchronous driver: of one event loop."""

    def __init__(self, *place: Any) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._busy = 0
        self._leases = 0

    @classmethod
    def enter(cls, pool: Any, loop: asyncio.AbstractEventLoop | None) -> Line:
        """For a lease, until `leave`."""
        with _lines_lock:
            line = _lines.setdefault((id(pool), id(loop)), cls(pool, loop))
            line._leases += 1
            return line

    async def leave(self) -> None:
        with _lines_lock:
            self._leases -= 1
            if self._leases > 0:
                return
            pool, loop = self._place
            del _lines[id(pool), id(loop)]
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            await _close(connection)

    async def take(self, pool: RenewalPool, connect: Callable[[], Any]) -> Any:
        """A connection, to be given back. Raises what `connect` raises."""
        until = time.monotonic() + PATIENCE
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
                is_next = connection is not None or self._busy == 0 or time.monotonic() >= until
                self._busy += is_next
            if is_next:
                break
            await pool.sleep(PATIENCE / 20)
        try:
            if connection is not None:
                if not pool.is_gone(connection):
                    return connection
                await _close(connection)
            return await settled(connect())
        except BaseException:
            with self._lock:
                self._busy -= 1
            raise

    async def give(self, connection: Any, is_whole: bool) -> None:
        with self._lock:
            self._busy -= 1
            if is_whole and self._leases > 0 and not self._idle:
                self._idle.append(connection)
                return
        await _close(connection)


class RenewalPool(Pool):
    """A pool for renewals. Its connections are the line's, or the pool's where none can be opened outside of it."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool.pool, pool.schema, in_loop=not pool.is_blocking)
        self._connect = connector(self.pool)
        self._line = Line.enter(self.pool, asyncio.get_running_loop() if self.in_loop else None) if self._connect else None

    async def close(self) -> None:
        """The lease has ended."""
        line, self._line = self._line, None
        if line:
            await line.leave()

    def is_gone(self, connection: Any) -> bool:
        """A connection that is silent."""
        return is_hung_up(connection) or self._session(connection).is_lost()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        line, connection = self._line, None
        if line and self._connect:
            try:
                connection = await line.take(self, self._connect)
            except Exception:  # such as the server's limit of connections
                log.warning("could not open a connection for renewals; the pool's is used", exc_info=True)
        if line is None or connection is None:
            async with super().session() as session:
                yield session
            return
        is_whole = False
        try:
            yield self._session(connection)
            is_whole = True
        finally:
            await line.give(connection, is_whole)


def connector(pool: Any) -> Callable[[], Any] | None:
    """What connects as the pool does, and outside of it; it may return an awaitable. None: no way is known, or the pool is a
    function that connects."""
    if is_a(pool, "psycopg_pool.pool.ConnectionPool"):
        return lambda: _psycopg(pool)
    if is_a(pool, "psycopg_pool.pool_async.AsyncConnectionPool"):
        return lambda: _async_psycopg(pool)
    if is_a(pool, "psycopg2.pool.AbstractConnectionPool"):
        return lambda: _psycopg2(pool)
    if is_a(pool, "asyncpg.pool.Pool"):
        return getattr(pool, "_get_new_connection", None)
    if is_a(pool, "sqlalchemy.orm.session.sessionmaker", "sqlalchemy.ext.asyncio.session.async_sessionmaker"):
        pool = pool.kw.get("bind")
    if is_a(pool, "sqlalchemy.engine.base.Engine"):
        return lambda: _sqlalchemy(pool)
    if is_a(pool, "sqlalchemy.ext.asyncio.engine.AsyncEngine"):
        return lambda: _async_sqlalchemy(pool)
    return None


def _psycopg(pool: Any) -> Any:
    conninfo, kwargs = (value() if callable(value) else value for value in (pool.conninfo, pool.kwargs))
    connection = pool.connection_class.connect(conninfo, **(kwargs or {}))
    try:
        if configure := getattr(pool, "_configure", None):
            configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


async def _async_psycopg(pool: Any) -> Any:
    conninfo, kwargs = [await settled(value() if callable(value) else value) for value in (pool.conninfo, pool.kwargs)]
    connection = await pool.connection_class.connect(conninfo, **(kwargs or {}))
    try:
        if configure := getattr(pool, "_configure", None):
            await configure(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


def _psycopg2(pool: Any) -> Any:
    import psycopg2

    return psycopg2.connect(*pool._args, **pool._kwargs)


def _engine(engine: Any) -> Any:
    """An engine with a pool of its own, whose connections are made, and told of to listeners, as those of `engine` are."""
    own = type(engine)(engine.pool.recreate(), engine.dialect, engine.url)
    own.update_execution_options(**engine.get_execution_options())
    return own


def _sqlalchemy(engine: Any) -> Any:
    connection = _engine(engine).connect()
    connection.detach()  # close() ends it
    return connection


async def _async_sqlalchemy(engine: Any) -> Any:
    connection = await type(engine)(_engine(engine.sync_engine)).connect()
    connection.sync_connection.detach()
    return connection


async def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):  # it is gone already
        await settled(connection.close())
