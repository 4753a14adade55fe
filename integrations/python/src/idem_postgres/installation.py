"""The portable edition of idem, which this package carries: docs/portable.md. `python3 -m idem_postgres` is the command.

`connection` is a blocking one of psycopg or psycopg2, or anything else with the DB-API's `cursor`, `commit` and `rollback`: of
SQLAlchemy, `engine.raw_connection()`. A function here commits what it did, or rolls back, unless `commit` is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata, resources
from typing import Any, Literal

from .errors import NotInstalled

Needs = Literal["install", "upgrade"]

# From the catalog alone: a role that made the schema first may have put a function idem_version there, and a call would run its
# code. `trusted`: the extension's, or its schema and the function are the current role's.
_LOOKUP = """\
SELECT CASE WHEN own.version IS NULL THEN 'c' ELSE 'portable' END AS edition, coalesce(own.version, e.extversion) AS version,
    e.oid IS NOT NULL OR p.proowner OPERATOR(pg_catalog.=) n.nspowner
        AND pg_catalog.pg_get_userbyid(n.nspowner) OPERATOR(pg_catalog.=) CURRENT_USER AS trusted
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
CROSS JOIN LATERAL pg_catalog.substring(p.prosrc, '^ SELECT ''portable'', ''([0-9]+([.][0-9]+)*)'',') AS own (version)
LEFT JOIN (pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON d.refobjid OPERATOR(pg_catalog.=) e.oid
               AND d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.deptype OPERATOR(pg_catalog.=) 'e'
               AND e.extname OPERATOR(pg_catalog.=) 'idem'::pg_catalog.name)
    ON d.classid OPERATOR(pg_catalog.=) p.tableoid AND d.objid OPERATOR(pg_catalog.=) p.oid
WHERE n.nspname OPERATOR(pg_catalog.=) CAST(%s AS pg_catalog.name) AND p.proname OPERATOR(pg_catalog.=) 'idem_version'::pg_catalog.name
    AND p.pronargs OPERATOR(pg_catalog.=) 0::pg_catalog.int2 AND (own.version IS NOT NULL OR e.oid IS NOT NULL)"""


@dataclass(frozen=True)
class Installation:
    schema: str
    edition: str | None
    """c: the extension; portable; None: idem is not installed."""
    version: str | None
    packaged: str
    """The version of this package."""
    needs: Needs | None
    """What the schema lacks for this package."""


def script(kind: Literal["install", "uninstall"] = "install") -> str:
    """One SQL statement. `install` makes the schema "idem", or the one in the setting idem_portable.schema, and brings an older
    installation up to this version."""
    name = "idem--portable.sql" if kind == "install" else "idem--portable-uninstall.sql"
    return (resources.files(__package__) / "sql" / name).read_text("utf-8")


def install(connection: Any, *, schema: str = "idem", commit: bool = True) -> Installation:
    """Installs the portable edition, or brings an older installation up to this version, in one transaction. Several that start
    at once queue. Where the schema has the extension, nothing is done.

    The connection's role owns what is made; it needs CREATE on the database. Raises NotInstalled if the installation is newer
    than this package, and the server's error, 42501, if another role owns the schema: none of its code runs.
    """
    before, is_trusted = _found(connection, schema)
    if is_trusted:  # in another role's schema, the script raises the error
        if before.edition == "c":
            return before
        if before.version is not None and _order(before.version) > _order(before.packaged):
            newer = f'schema "{schema}" has idem {before.version}, which is newer than this package ({before.packaged})'
            raise NotInstalled(newer)
    _run(connection, script(), schema, commit)
    return status(connection, schema=schema)


def uninstall(connection: Any, *, schema: str = "idem", commit: bool = True) -> None:
    """Drops the portable edition with all keys. The server refuses while guards are attached to tables."""
    _run(connection, script("uninstall"), schema, commit)


def status(connection: Any, *, schema: str = "idem") -> Installation:
    """What is installed, as the catalog has it. Calls no function of the schema, and ends no transaction."""
    return _found(connection, schema)[0]


def verify(connection: Any, *, schema: str = "idem") -> None:
    """For the start of an application. Raises NotInstalled if idem is missing or older than this package."""
    found = status(connection, schema=schema)
    if found.needs == "install":
        raise NotInstalled(f'idem is not installed in schema "{schema}"; run: python3 -m idem_postgres install')
    if found.needs == "upgrade":
        how = "run: python3 -m idem_postgres upgrade"
        if found.edition == "c":
            how = "install the newer extension, and run: ALTER EXTENSION idem UPDATE"
        older = f'schema "{schema}" has idem {found.version}, which is older than this package ({found.packaged})'
        raise NotInstalled(f"{older}; {how}")


def _found(connection: Any, schema: str) -> tuple[Installation, bool]:
    packaged = metadata.version("idem-postgres")
    with connection.cursor() as cursor:
        cursor.execute(_LOOKUP, (schema,))
        row = cursor.fetchone()
    if row is None:
        return Installation(schema, None, None, packaged, "install"), False
    edition, version, is_trusted = row
    needs: Needs | None = "upgrade" if _order(version) < _order(packaged) else None
    return Installation(schema, edition, version, packaged, needs), is_trusted


def _run(connection: Any, text: str, schema: str, commit: bool) -> None:
    try:
        _set_schema(connection, schema)
        with connection.cursor() as cursor:
            cursor.execute(text)  # without parameters: no % means one
        _set_schema(connection, "")
    except BaseException:
        if commit:
            connection.rollback()
            if getattr(connection, "autocommit", False):
                _set_schema(connection, "")
        raise
    if commit:
        connection.commit()


def _set_schema(connection: Any, schema: str) -> None:
    """For the session: in autocommit, no transaction is around the script. A rollback undoes it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_catalog.set_config('idem_portable.schema', %s, false)", (schema,))


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
