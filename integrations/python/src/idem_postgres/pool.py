"""Transactions on connections of the application's pool, for flows that begin and commit by themselves.

A flow is written once, as a coroutine. Where the framework is blocking, `finish` runs it to its end: it never suspends, as
everything that it awaits blocks. Where the framework is asynchronous and the driver is blocking, the driver's calls run in
threads.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from .call import Call, T
from .errors import ConnectionLost, is_connection_loss
from .sessions import AsyncSession, BlockingSession, async_session, blocking_session, is_a

R = TypeVar("R")
LOOKUPS = (0.0, 0.2, 1.0)
"""Seconds at which the outcome of a lost COMMIT is looked up."""


def finish(coroutine: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise TypeError("a blocking framework needs a pool of a blocking driver, and functions that are not coroutines")


class Pool:
    """`pool` is one of

    - a pool of psycopg_pool, psycopg2 or asyncpg, or anything else that has `getconn` and `putconn`;
    - an engine of SQLAlchemy, blocking or asynchronous;
    - a function that returns a connection, which is closed afterwards: `lambda: psycopg.connect(dsn)`, a sessionmaker. For an
      asynchronous driver it is an `async def`.

    `in_loop`: the caller runs in an event loop, which no call may block. `may_nest`: a transaction may be a part of one that
    Django has begun around the caller; not for leases and locks, which other sessions must see at once.
    """

    def __init__(self, pool: Any, schema: str = "idem", *, in_loop: bool = False, may_nest: bool = False) -> None:
        self.pool = pool
        self.schema = schema
        self.in_loop = in_loop
        self._may_nest = may_nest
        self.is_blocking = not _is_async(pool)
        self._acquire, self._release = _access(pool)
        # A caller that waits for a connection must not occupy a thread that its holder needs to give it back.
        self._waiters = ThreadPoolExecutor(4, "idem-acquire") if in_loop and self.is_blocking else None

    async def sleep(self, seconds: float) -> None:
        if self.in_loop:
            await asyncio.sleep(max(seconds, 0))
        elif seconds > 0:
            time.sleep(seconds)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A connection from the pool, without a transaction. It goes back at the end; the pool discards a broken one."""
        if self._waiters:
            connection = await asyncio.get_running_loop().run_in_executor(self._waiters, self._acquire)
            if inspect.iscoroutine(connection):  # a plain function on an asynchronous driver
                connection = await connection
        else:
            connection = self._acquire()
            if inspect.isawaitable(connection):
                if self.is_blocking:  # a plain function on an asynchronous driver
                    _discard(connection)
                    raise TypeError("the pool is a function that returns a coroutine: the driver must be a blocking one here")
                connection = await connection
        try:
            yield self._session(connection)
        finally:
            if self._waiters:
                released = await asyncio.to_thread(self._release, connection)
                if inspect.iscoroutine(released):
                    await released
            else:
                await settled(self._release(connection))

    async def run(self, call: Call[T]) -> T:
        """The call in a transaction of its own. Raises ConnectionLost where the driver says no more than that."""
        async with self.session() as session:
            try:
                await session.begin()
                try:
                    result = await session.run(call)
                except BaseException:
                    await rollback(session)
                    raise
                await session.commit()
            except Exception as error:
                raise self.lost(session, error)
        return result

    def lost(self, session: AsyncSession, error: Exception) -> Exception:
        """The error, as ConnectionLost where the driver says no more than that."""
        if not session.is_lost() or is_connection_loss(error):
            return error
        lost = ConnectionLost(str(error))
        lost.__cause__ = error
        return lost

    def end_thread(self) -> None:
        """A thread that has used the pool ends. Django keeps a connection for each thread."""
        if end := getattr(self.pool, "end_thread", None):
            end()

    def _session(self, connection: Any) -> AsyncSession:
        if blocking := blocking_session(connection, self.schema, self._may_nest):
            wrapper: type[ThreadSession | DirectSession] = ThreadSession if self.in_loop else DirectSession
            return wrapper(blocking)
        if session := async_session(connection, self.schema):
            return session
        raise TypeError(f"the pool gives connections of the unknown type {type(connection).__qualname__}")


def _discard(awaitable: Any) -> None:
    """No warning that it was never awaited."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()


async def settled(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def rollback(session: AsyncSession) -> None:
    """Rolls back, and does not complain of a connection that is gone: its transaction has ended."""
    try:
        await session.rollback()
    except Exception:
        if not session.is_lost():
            raise


def blocking_pool(pool: Any, schema: str, advice: str, *, may_nest: bool = False) -> Pool:
    """The pool of a caller that blocks. TypeError with `advice` for an asynchronous pool."""
    source = Pool(pool, schema, may_nest=may_nest)
    if not source.is_blocking:
        raise TypeError(f"a pool of type {type(pool).__qualname__} is asynchronous: {advice}")
    return source


class DirectSession:
    """A blocking session for a caller that may be blocked."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session
        self.connection = session.connection

    async def begin(self) -> None:
        self._session.begin()

    async def run(self, call: Call[T]) -> T:
        return self._session.run(call)

    async def commit(self) -> None:
        self._session.commit()

    async def rollback(self) -> None:
        self._session.rollback()

    def is_lost(self) -> bool:
        return self._session.is_lost()


class ThreadSession:
    """A blocking session for an event loop: one call at a time, each in a thread."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session
        self.connection = session.connection

    async def begin(self) -> None:
        await asyncio.to_thread(self._session.begin)

    async def run(self, call: Call[T]) -> T:
        return await asyncio.to_thread(lambda: self._session.run(call))

    async def commit(self) -> None:
        await asyncio.to_thread(self._session.commit)

    async def rollback(self) -> None:
        await asyncio.to_thread(self._session.rollback)

    def is_lost(self) -> bool:
        return self._session.is_lost()


def _access(pool: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """How to take a connection and how to give it back; either may return an awaitable."""
    if hasattr(pool, "getconn"):
        return pool.getconn, pool.putconn
    if is_a(pool, "asyncpg.pool.Pool"):
        return pool.acquire, pool.release
    if is_a(pool, "sqlalchemy.engine.base.Engine", "sqlalchemy.ext.asyncio.engine.AsyncEngine"):
        return pool.connect, lambda connection: connection.close()
    if callable(pool):
        return pool, lambda connection: connection.close()
    raise TypeError(f"{type(pool).__qualname__} is no pool that idem knows, and no function that returns a connection")


def _is_async(pool: Any) -> bool:
    """Whether taking a connection does not block. In doubt it does."""
    if hasattr(pool, "getconn"):
        return inspect.iscoroutinefunction(pool.getconn)
    if is_a(pool, "asyncpg.pool.Pool", "sqlalchemy.ext.asyncio.engine.AsyncEngine"):
        return True
    if isinstance(made := getattr(pool, "class_", None), type):  # sessionmaker and async_sessionmaker of SQLAlchemy
        return any(cls.__name__ == "AsyncSession" for cls in made.__mro__)
    return inspect.iscoroutinefunction(pool)
