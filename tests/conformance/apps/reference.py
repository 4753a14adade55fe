"""What the reference apps in Python share: ../README.md has their routes."""

import collections
import json
import os
import signal
import sys

import psycopg
from psycopg_pool import ConnectionPool

PROFILE = os.environ.get("PROFILE", "ietf")
PORT = int(os.environ.get("PORT", "0"))
INSERT = "INSERT INTO effects (key) VALUES (%s) RETURNING id"
SESSION = {"application_name": "conformance", "prepare_threshold": None}  # of the middleware, also behind a pooler

own = ConnectionPool("", min_size=1, max_size=4, kwargs={"autocommit": True, "prepare_threshold": None})  # of the hooks and counts
with own.connection() as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text)")
    connection.execute("SELECT idem.idem_http_scope_set('conformance', profile => %s)", [PROFILE])

runs = collections.Counter()  # how often a handler ran, whatever became of its transaction


def scope(authorization, method, path):
    """acp and ucp have a space of keys for each operation of a client."""
    apart = f" {method} {path}" if PROFILE in ("acp", "ucp") else ""
    return f"conformance/{authorization or ''}{apart}"


def begin(run):
    """The key without quotation marks. Counts the run."""
    key = run.key or (run.header or "").strip('"')
    runs[key] += 1
    return key


def answer(body, id):
    """Status, headers and body of the response."""
    text = json.dumps({"id": id, **({"item": body["item"]} if "item" in body else {})}, separators=(",", ":"))
    return body.get("status", 201), {"Content-Type": "application/json", "Location": f"/orders/{id}"}, text.ljust(body.get("bytes", 0))


def parts(id):
    """Of the response that comes in parts."""
    return [b"a", b"b", f"c {id}".encode()]


def effects(key):
    with own.connection() as connection:
        return {"count": connection.execute("SELECT count(*) FROM effects WHERE key = %s", [key]).fetchone()[0], "runs": runs[key]}


async def connect():
    return await psycopg.AsyncConnection.connect("", prepare_threshold=None)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def disconnect():
    with own.connection() as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conformance'")


def lose_commit():
    os.kill(int(os.environ["CUTTER"]), signal.SIGUSR1)


def serve_wsgi(app):
    import logging

    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", PORT, app, threaded=True)
    print(server.port)
    sys.stdout.flush()
    server.serve_forever()
