"""Takes the place of a pool in unit tests: of `once`, `leased`, `Idem` and the middleware, without a database.

Replays, mismatches, rollbacks, steps, leases and takeovers are those of idem. It does not show waits (a key in use is in flight
at once), `ttl`, the policies of scopes, limits of size, nor what PostgreSQL does with your rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from .call import Call, T
from .errors import typed_errors
from .fake_keys import FakeKeys, Undo

__all__ = ["AsyncFakeConnection", "AsyncFakeDatabase", "FakeConnection", "FakeDatabase", "async_fake_database", "fake_database"]


class _Connection:
    """What the work gets as its connection: all attributes are the client's. Also for `Idem` and `AsyncIdem`."""

    fileno = None  # the client may be a mock, which has any attribute

    def __init__(self, keys: FakeKeys, client: Any) -> None:
        self._idem_keys = keys
        self._idem_undo: Undo | None = None
        self._idem_client = client

    def __getattr__(self, name: str) -> Any:
        client = self.__dict__.get("_idem_client")
        if client is None:
            raise AttributeError(f"{name}: the fake runs no SQL of yours: give it a client, fake_database(client=…)", name=name)
        return getattr(client, name)

    def _idem_run(self, call: Call[T]) -> T:
        with typed_errors("idem"):
            return self._idem_keys.call(call, self._idem_undo)

    def _idem_begin(self) -> None:
        if self._idem_undo is not None:
            raise RuntimeError("the connection is in a transaction that idem has not begun")
        self._idem_undo = {}

    def _idem_end(self, is_committed: bool) -> None:
        undo, self._idem_undo = self._idem_undo or {}, None
        (self._idem_keys.commit if is_committed else self._idem_keys.restore)(undo)


class FakeConnection(_Connection):
    pass


class AsyncFakeConnection(_Connection):
    pass


class _Database:
    def __init__(self, client: Any) -> None:
        self._keys = FakeKeys()
        self._client = client

    def clear(self) -> None:
        """Forgets all keys."""
        self._keys.clear()


class FakeDatabase(_Database):
    """Keys in memory. In the place of a pool of a blocking driver."""

    def getconn(self) -> FakeConnection:
        return FakeConnection(self._keys, self._client)

    def putconn(self, connection: FakeConnection) -> None:
        pass

    @contextmanager
    def connection(self) -> Iterator[FakeConnection]:
        """A connection in a transaction, as that of psycopg_pool."""
        connection = self.getconn()
        with _transaction(connection):
            yield connection


class AsyncFakeDatabase(_Database):
    """Keys in memory. In the place of a pool of an asynchronous driver."""

    async def getconn(self) -> AsyncFakeConnection:
        return AsyncFakeConnection(self._keys, self._client)

    async def putconn(self, connection: AsyncFakeConnection) -> None:
        pass

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncFakeConnection]:
        """As `FakeDatabase.connection`."""
        connection = await self.getconn()
        with _transaction(connection):
            yield connection


@contextmanager
def _transaction(connection: _Connection) -> Iterator[None]:
    connection._idem_begin()
    try:
        yield
    except BaseException:
        connection._idem_end(False)
        raise
    connection._idem_end(True)


def fake_database(*, client: Any = None) -> FakeDatabase:
    """`client` is what the work gets as its connection. What it writes is not rolled back."""
    return FakeDatabase(client)


def async_fake_database(*, client: Any = None) -> AsyncFakeDatabase:
    """As `fake_database`, in the place of an asynchronous pool."""
    return AsyncFakeDatabase(client)
