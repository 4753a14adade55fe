"""What the tests on a cluster share: numbered results as TAP, and connections. libpq's environment names the coordinator."""

import os

import psycopg

count = failures = 0


def check(name, passed, seen=""):
    global count, failures
    count += 1
    failures += not passed
    print(f"{'' if passed else 'not '}ok {count} - {name}" + ("" if passed else f"\n# {seen}"), flush=True)


def same(name, got, expected):
    check(name, got == expected, f"{got!r} instead of {expected!r}")


def connect(host=None, role=None):
    db = psycopg.connect("connect_timeout=10", host=host or os.environ["PGHOST"], user=role or os.environ["PGUSER"], autocommit=True, prepare_threshold=None)
    db.execute("SET search_path = public, idem")
    return db


def error(db, statement, *arguments):
    """The error of a statement, None without one."""
    try:
        db.execute(statement, arguments or None)
        return None
    except psycopg.Error as raised:
        return raised


def state(db, statement, *arguments):
    """The SQLSTATE of a statement, "ok" without one, and the hint."""
    raised = error(db, statement, *arguments)
    return ("ok", None) if raised is None else (raised.sqlstate, raised.diag.message_hint)


def row(db, statement, *arguments):
    return db.execute(statement, arguments or None).fetchone()


def rows(db, statement, *arguments):
    return db.execute(statement, arguments or None).fetchall()


def hosts_of_workers():
    with connect() as db:
        return [host for host, in rows(db, "SELECT nodename FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid")]
