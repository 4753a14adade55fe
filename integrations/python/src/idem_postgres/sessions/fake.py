"""A connection of `idem_postgres.fake`."""

from __future__ import annotations

from typing import Any

from ..call import Call, T


class FakeSession:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def begin(self) -> None:
        self.connection._idem_begin()

    def run(self, call: Call[T]) -> T:
        return self.connection._idem_run(call)  # type: ignore[no-any-return]

    def commit(self) -> None:
        self.connection._idem_end(True)

    def rollback(self) -> None:
        self.connection._idem_end(False)

    def is_lost(self) -> bool:
        return False


class AsyncFakeSession:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self) -> None:
        self.connection._idem_begin()

    async def run(self, call: Call[T]) -> T:
        return self.connection._idem_run(call)  # type: ignore[no-any-return]

    async def commit(self) -> None:
        self.connection._idem_end(True)

    async def rollback(self) -> None:
        self.connection._idem_end(False)

    def is_lost(self) -> bool:
        return False
