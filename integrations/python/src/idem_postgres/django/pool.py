"""The connection that Django keeps for each thread."""

from __future__ import annotations

from typing import Any

from django.db import connections


class DjangoPool:
    """Where a pool is expected: `lock(DjangoPool(), "nightly")`. `alias` is a database of the settings."""

    def __init__(self, alias: str = "default") -> None:
        self.alias = alias

    def getconn(self) -> Any:
        return connections[self.alias]

    def putconn(self, connection: Any) -> None:
        """Django closes it at the end of the request, as the settings say."""

    def end_thread(self) -> None:
        connections[self.alias].close()
