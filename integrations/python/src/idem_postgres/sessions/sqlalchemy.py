"""SQLAlchemy 1.4 and 2.0: a Connection or a Session, blocking or asynchronous, on any driver that SQLAlchemy has."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from ..call import Call, T
from ..errors import typed_errors
from . import refuse_open


class SqlAlchemySession:
    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    def begin(self) -> None:
        refuse_open(self.connection.in_transaction())
        self._transaction = self.connection.begin()

    def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema):
            return call.read(self.connection.execute(*_statement(call, self._schema)).fetchall())

    def commit(self) -> None:
        self._transaction.commit()

    def rollback(self) -> None:
        self._transaction.rollback()

    def is_lost(self) -> bool:
        return bool(getattr(self.connection, "invalidated", False))


class AsyncSqlAlchemySession:
    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    async def begin(self) -> None:
        refuse_open(self.connection.in_transaction())
        self._transaction = await self.connection.begin()

    async def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema):
            return call.read((await self.connection.execute(*_statement(call, self._schema))).fetchall())

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    def is_lost(self) -> bool:
        return bool(getattr(self.connection, "invalidated", False))


def _statement(call: Call[T], schema: str) -> tuple[Any, dict[str, Any]]:
    # A colon in the schema's name would be a parameter.
    sql = call.sql(schema.replace(":", "\\:"), lambda number: f":p{number}")
    return text(sql), {f"p{number}": value for number, value in enumerate(call.values(), 1)}
