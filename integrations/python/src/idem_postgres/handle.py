"""The connection of a run as the application has it: dead once its transaction is over.

A pool gives the same connection to another request, in whose transaction a late statement would be. Connections of asyncpg's
pool and of SQLAlchemy's engine refuse it themselves.
"""

from __future__ import annotations

import inspect
from typing import Any

from .errors import TransactionOver
from .sessions import is_a

_HANDLED = (
    "psycopg.BaseConnection", "psycopg.connection.BaseConnection", "psycopg._connection_base.BaseConnection",
    "psycopg.Connection", "psycopg.AsyncConnection", "psycopg2.extensions.connection",
    "sqlalchemy.orm.session.Session", "sqlalchemy.ext.asyncio.session.AsyncSession",
    "idem_postgres.fake.FakeConnection", "idem_postgres.fake.AsyncFakeConnection",
)  # fmt: skip
_ENDING = frozenset({"commit", "rollback", "close", "reset"})


class Life:
    """Of the transaction, shared by the handles of its connection and of its cursors."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_committed = False


class Handle:
    """Behaves as `target`, `isinstance` included."""

    def __init__(self, target: Any, life: Life, *, is_connection: bool = True) -> None:
        object.__setattr__(self, "_idem", (target, life, is_connection))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(object.__getattribute__(self, "_idem")[0])

    def __getattr__(self, name: str) -> Any:
        target, life, is_connection = object.__getattribute__(self, "_idem")
        if life.is_over:
            raise TransactionOver()
        if is_connection and name in _ENDING:
            return _refused(getattr(target, name), name)
        value = getattr(target, name)
        return _wrapped(value, life) if is_connection and name in ("cursor", "execute") else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_target(self), name, value)

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_idem")[0])

    def __enter__(self) -> Any:
        return self._same(_target(self).__enter__())

    def __exit__(self, *error: Any) -> Any:
        return object.__getattribute__(self, "_idem")[0].__exit__(*error)

    async def __aenter__(self) -> Any:
        return self._same(await _target(self).__aenter__())

    async def __aexit__(self, *error: Any) -> Any:
        return await object.__getattribute__(self, "_idem")[0].__aexit__(*error)

    def __iter__(self) -> Any:
        return iter(_target(self))

    def __next__(self) -> Any:
        return next(_target(self))

    def __aiter__(self) -> Any:
        return _target(self).__aiter__()

    def __contains__(self, value: Any) -> bool:
        return value in _target(self)

    def _same(self, entered: Any) -> Any:
        return self if entered is object.__getattribute__(self, "_idem")[0] else entered


def handle(connection: Any, life: Life) -> Any:
    return Handle(connection, life) if is_a(connection, *_HANDLED) else connection


def _target(self: Handle) -> Any:
    target, life, _ = object.__getattribute__(self, "_idem")
    if life.is_over:
        raise TransactionOver()
    return target


def _refused(method: Any, name: str) -> Any:
    """A handler that ends the transaction would commit its rows without the response."""
    message = f"leave {name} to idem: the rows commit with the response, and an exception rolls back"
    if inspect.iscoroutinefunction(method):

        async def refuse_later(*_: Any, **__: Any) -> Any:
            raise RuntimeError(message)

        return refuse_later

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(message)

    return refuse


def _wrapped(method: Any, life: Life) -> Any:
    """A cursor that is kept is dead, too."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        if inspect.iscoroutine(result):
            return _later(result, life)
        return Handle(result, life, is_connection=False) if _is_cursor(result) else result

    return call


async def _later(result: Any, life: Life) -> Any:
    value = await result
    return Handle(value, life, is_connection=False) if _is_cursor(value) else value


def _is_cursor(value: Any) -> bool:
    return is_a(
        value, "psycopg.cursor.BaseCursor", "psycopg.BaseCursor", "psycopg._cursor_base.BaseCursor", "psycopg.Cursor",
        "psycopg.AsyncCursor", "psycopg2.extensions.cursor",
    )  # fmt: skip
