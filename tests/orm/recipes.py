"""What the Python tests share: tests that print TAP, and a second session."""

import pathlib
import sys
import traceback

import psycopg2

tests = []


def test(name):
    """Registers a test under what it proves."""

    def register(function):
        tests.append((name, function))
        return function

    return register


def run(orm):
    print(f"1..{len(tests)}", flush=True)
    failed = False
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} - {orm}: {name}", flush=True)
        except Exception:
            failed = True
            print(f"not ok {number} - {orm}: {name}")
            for line in traceback.format_exc().splitlines():
                print(f"  # {line}", flush=True)
    sys.exit(failed)


def raises(kind, function):
    """The exception that the function must raise."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


_session = None


def sql(statement):
    """Runs it in another session, under autocommit; the rows, if there are any."""
    global _session
    if _session is None:
        _session = psycopg2.connect("")
        _session.autocommit = True
    with _session.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None


def guards():
    """How many guards the table "orders" has."""
    return sql((pathlib.Path(__file__).parent / "guards.sql").read_text())[0][0]
