"""Django's connection, in a block of `transaction.atomic()`: the ORM is in the transaction, and the application's own
atomic() is a savepoint."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from ..call import Call, T
from ..errors import RolledBack, typed_errors


class DjangoSession:
    def __init__(self, connection: Any, schema: str, may_nest: bool = False) -> None:
        self.connection = connection
        self._schema = schema
        self._may_nest = may_nest
        self._raw: Any = None

    def begin(self) -> None:
        if not self.connection.in_atomic_block and not self.connection.get_autocommit():
            raise RuntimeError("idem needs Django's AUTOCOMMIT: without it, atomic() does not commit")
        self._atomic = transaction.atomic(using=self.connection.alias, durable=not self._may_nest)
        self._atomic.__enter__()
        self._raw = self.connection.connection

    def run(self, call: Call[T]) -> T:
        with typed_errors(self._schema), self.connection.cursor() as cursor:
            cursor.execute(call.sql(self._schema.replace("%", "%%"), lambda _: "%s"), call.values())
            return call.read(cursor.fetchall())

    def commit(self) -> None:
        if self.connection.needs_rollback:
            self.rollback()
            raise RolledBack("COMMIT rolls back: a statement has failed")
        self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        self.connection.needs_rollback = True
        self._atomic.__exit__(None, None, None)

    def is_lost(self) -> bool:
        """Where COMMIT fails, atomic() has connected again."""
        raw = self.connection.connection
        return raw is None or bool(raw.closed) or (self._raw is not None and raw is not self._raw)
