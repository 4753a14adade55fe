"""An operation for a migration of the application:

    operations = [idem_postgres.django.migrations.Install()]
"""

from __future__ import annotations

from typing import Any

from django.db.migrations import RunSQL

from ..installation import script


class Install(RunSQL):  # type: ignore[misc]
    """Installs the portable edition of idem, or brings an older installation up to the package's version. Unapplied, it drops
    idem with all keys. The schema has no models, so nothing of it is in Django's state."""

    def __init__(self, schema: str = "idem") -> None:
        # A statement with None for parameters is passed to the driver as it is.
        set_schema = ("SELECT pg_catalog.set_config('idem_portable.schema', %s, true)", [schema])
        super().__init__([set_schema, (script(), None)], [set_schema, (script("uninstall"), None)])
        self.schema = schema

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [], {"schema": self.schema}

    def describe(self) -> str:
        return f"Install idem in schema {self.schema}"
