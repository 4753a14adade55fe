"""A transaction on a connection of one of the drivers.

A blocking session has plain methods, an asynchronous one has coroutines; the names are the same. The driver's own modules
are not imported: a connection that exists has brought them.
"""

from __future__ import annotations

import select
from typing import Any, Protocol

from ..call import Call, T


class BlockingSession(Protocol):
    connection: Any
    """What the application works with."""

    def begin(self) -> None:
        """Raises RuntimeError on a connection whose transaction `commit` would not end."""

    def run(self, call: Call[T]) -> T: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def is_lost(self) -> bool:
        """The connection cannot be used any more."""


class AsyncSession(Protocol):
    connection: Any

    async def begin(self) -> None: ...
    async def run(self, call: Call[T]) -> T: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    def is_lost(self) -> bool: ...


def refuse_open(is_open: bool) -> None:
    """For `begin`: in an open transaction the driver would make a savepoint, and what commits it is unknown."""
    if is_open:
        raise RuntimeError(
            "the connection is in a transaction that idem has not begun: let the pool, or the function that connects,"
            " commit what it runs"
        )


def is_hung_up(connection: Any) -> bool:
    """Whether the server has ended a connection that is silent, which its driver has not read yet."""
    fileno = getattr(connection, "fileno", None)
    if fileno is None or not hasattr(select, "poll"):
        return False
    try:
        poll = select.poll()
        poll.register(fileno(), getattr(select, "POLLRDHUP", 0) | select.POLLHUP)
        return any(event for _, event in poll.poll(0))
    except Exception:  # the driver has closed it
        return True


def is_a(value: object, *names: str) -> bool:
    """Whether the class that `value` says it has, or one above it, has one of these names, such as `asyncpg.connection.Connection`."""
    return any(f"{cls.__module__}.{cls.__qualname__}" in names for cls in value.__class__.__mro__)


def blocking_session(connection: Any, schema: str, may_nest: bool = False) -> BlockingSession | None:
    """None: it is no connection of a blocking driver. `may_nest`: with Django, `begin` may be a savepoint in the caller's
    atomic(), which commits it."""
    if is_a(connection, "psycopg.Connection"):
        from .psycopg import PsycopgSession

        return PsycopgSession(connection, schema)
    if is_a(connection, "psycopg2.extensions.connection"):
        from .psycopg2 import Psycopg2Session

        return Psycopg2Session(connection, schema)
    if is_a(connection, "sqlalchemy.engine.base.Connection", "sqlalchemy.orm.session.Session"):
        from .sqlalchemy import SqlAlchemySession

        return SqlAlchemySession(connection, schema)
    if is_a(connection, "django.db.backends.base.base.BaseDatabaseWrapper", "django.utils.connection.ConnectionProxy"):
        from .django import DjangoSession

        return DjangoSession(connection, schema, may_nest)
    if is_a(connection, "idem_postgres.fake.FakeConnection"):
        from .fake import FakeSession

        return FakeSession(connection)
    return None


def async_session(connection: Any, schema: str) -> AsyncSession | None:
    """None: it is no connection of an asynchronous driver."""
    if is_a(connection, "psycopg.AsyncConnection"):
        from .psycopg import AsyncPsycopgSession

        return AsyncPsycopgSession(connection, schema)
    if is_a(connection, "asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy"):
        from .asyncpg import AsyncpgSession

        return AsyncpgSession(connection, schema)
    if is_a(connection, "sqlalchemy.ext.asyncio.engine.AsyncConnection", "sqlalchemy.ext.asyncio.session.AsyncSession"):
        from .sqlalchemy import AsyncSqlAlchemySession

        return AsyncSqlAlchemySession(connection, schema)
    if is_a(connection, "idem_postgres.fake.AsyncFakeConnection"):
        from .fake import AsyncFakeSession

        return AsyncFakeSession(connection)
    return None
