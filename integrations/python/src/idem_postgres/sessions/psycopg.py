"""psycopg 3. `connection.transaction()` works with and without autocommit, refuses the application's own commit(), and makes
the application's own transaction() a savepoint. Nothing is prepared, so that a pooler in transaction mode works."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from ..call import Call, T
from ..errors import RolledBack, typed_errors
from . import refuse_open


class PsycopgSession:
    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self.connection = connection
        self._schema = schema

    def begin(self) -> None:
        refuse_open(_is_open(self.connection))
        self._transaction = self.connection.transaction()
        self._transaction.__enter__()

    def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema), self.connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(_sql(call, self._schema), call.values(), prepare=False)
            return call.read(cursor.fetchall())

    def commit(self) -> None:
        _check(self.connection)
        if _has_failed(self.connection):
            self.rollback()
            raise RolledBack("COMMIT rolls back: a statement has failed")
        self._transaction.__exit__(None, None, None)

    def rollback(self) -> None:
        self._transaction.__exit__(psycopg.Rollback, psycopg.Rollback(), None)

    def is_lost(self) -> bool:
        return self.connection.closed


class AsyncPsycopgSession:
    def __init__(self, connection: psycopg.AsyncConnection[Any], schema: str) -> None:
        self.connection = connection
        self._schema = schema

    async def begin(self) -> None:
        refuse_open(_is_open(self.connection))
        self._transaction = self.connection.transaction()
        await self._transaction.__aenter__()

    async def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema):
            async with self.connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(_sql(call, self._schema), call.values(), prepare=False)
                return call.read(await cursor.fetchall())

    async def commit(self) -> None:
        _check(self.connection)
        if _has_failed(self.connection):
            await self.rollback()
            raise RolledBack("COMMIT rolls back: a statement has failed")
        await self._transaction.__aexit__(None, None, None)

    async def rollback(self) -> None:
        await self._transaction.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)

    def is_lost(self) -> bool:
        return self.connection.closed


def _is_open(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    # UNKNOWN: the connection is closed, which transaction() raises.
    return connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)


def _check(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    # The end of transaction() is silent on a connection that is closed already.
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")


def _has_failed(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status == TransactionStatus.INERROR


def _sql(call: Call[T], schema: str) -> Any:
    return call.sql(schema.replace("%", "%%"), lambda _: "%s")
