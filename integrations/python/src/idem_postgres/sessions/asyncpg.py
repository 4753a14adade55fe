"""asyncpg. The application's own `connection.transaction()` is a savepoint in ours."""

from __future__ import annotations

from typing import Any

import asyncpg

from ..call import Call, T
from ..errors import typed_errors
from . import refuse_open


class AsyncpgSession:
    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    async def begin(self) -> None:
        refuse_open(self.connection.is_in_transaction())
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema):
            return call.read(await self.connection.fetch(call.sql(self._schema, lambda number: f"${number}"), *call.values()))

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    def is_lost(self) -> bool:
        try:
            return bool(self.connection.is_closed())
        except asyncpg.InterfaceError:  # a pool's connection that has ended
            return True
