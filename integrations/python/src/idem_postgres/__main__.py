"""Installs the portable edition of idem, which the package carries."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from .errors import NotInstalled
from .installation import Installation, install, script, status, uninstall


def _connect(url: str) -> Any:
    try:
        import psycopg

        return psycopg.connect(url)
    except ImportError:
        import psycopg2  # raises ImportError

        return psycopg2.connect(url)


def _described(found: Installation) -> str:
    has = "idem is not installed" if found.version is None else f"idem {found.version}, edition {found.edition}"
    todo = f"; run: python3 -m idem_postgres {found.needs}" if found.needs else ""
    return f'schema "{found.schema}": {has}; this package: {found.packaged}{todo}'


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m idem_postgres", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("install", "install it, or bring it up to this version; several at once queue"),
        ("upgrade", "the same, where it is installed"),
        ("uninstall", "drop it, and all of its keys"),
        ("status", "what is installed; exit status 1 if it is missing or older than this package"),
        ("sql", "print the script that install runs, for a migration tool"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        if name != "sql":
            command.add_argument("url", nargs="?", default=os.environ.get("DATABASE_URL", ""), metavar="URL",
                                 help="postgresql://user:password@host/database; default: DATABASE_URL, then PGHOST and the like")
            command.add_argument("--schema", default="idem", help="default: idem")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    if given.command == "sql":
        print(script(), end="")
        return 0
    try:
        connection = _connect(given.url)
    except Exception as error:
        return _fail(error)
    try:
        found = status(connection, schema=given.schema)
        if given.command == "status":
            print(_described(found))
            return 1 if found.needs else 0
        if given.command == "uninstall":
            uninstall(connection, schema=given.schema)
            print("idem is gone")
            return 0
        if given.command == "upgrade" and found.needs == "install":
            raise NotInstalled(f'idem is not installed in schema "{given.schema}"; run: python3 -m idem_postgres install')
        print(install(connection, schema=given.schema).version, "is installed")
        return 0
    except Exception as error:
        return _fail(error)
    finally:
        connection.close()


def _fail(error: Exception) -> int:
    print(f"idem_postgres: {error}".rstrip(), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
