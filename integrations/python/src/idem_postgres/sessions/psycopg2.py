"""psycopg2. `with connection` begins a transaction under autocommit too, and refuses to be entered again by the application.
A transaction that is open already is committed with ours."""

from __future__ import annotations

from typing import Any

from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from psycopg2.extensions import cursor as plain_cursor

from ..call import Call, T
from ..errors import RolledBack, typed_errors


class Psycopg2Session:
    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    def begin(self) -> None:
        self.connection.__enter__()

    def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema), self.connection.cursor(cursor_factory=plain_cursor) as cursor:
            cursor.execute(call.sql(self._schema.replace("%", "%%"), lambda _: "%s"), call.values())
            return call.read(cursor.fetchall())

    def commit(self) -> None:
        if self.connection.get_transaction_status() == TRANSACTION_STATUS_INERROR:
            self.rollback()
            raise RolledBack("COMMIT rolls back: a statement has failed")
        self.connection.__exit__(None, None, None)

    def rollback(self) -> None:
        self.connection.__exit__(Exception, Exception(), None)

    def is_lost(self) -> bool:
        return bool(self.connection.closed)
