"""tests/vectors/lease.json and http_flow.json: the lease as a state machine, and an exchange over ASGI and over WSGI, against a
database that answers as the script says."""

import asyncio
import concurrent.futures
import dataclasses
import json
import logging
import os
from contextlib import asynccontextmanager

from idem_postgres import AsgiMiddleware, WsgiMiddleware
from idem_postgres.calls.http import HttpAnswer
from idem_postgres.errors import RolledBack, typed_errors
from idem_postgres.http import flow, leased, transactional
from idem_postgres.lease import Lease
from idem_postgres.pool import Pool, finish
from idem_postgres.thrown import note

from server import HERE
from tap import same

VECTORS = os.path.join(HERE, "../../vectors")
SENT = {"shown": "the framework's"}


def run():
    leases()
    flow._WATCH = 0.01
    transactional.LOOKUPS = leased.LOOKUPS = (0, 0.002, 0.01)
    logging.getLogger("idem_postgres").setLevel(logging.CRITICAL)
    cases = json.load(open(f"{VECTORS}/http_flow.json"))["cases"]
    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # which has no event loop
        for play in (over_asgi, over_wsgi):
            for case in cases:
                if reason := skipped(play, case):
                    print(f"# {play.__name__}: {case['name']}: {reason}")
                else:
                    thread.submit(replay, play, case).result()


def leases():
    for case in json.load(open(f"{VECTORS}/lease.json"))["cases"]:
        lease = Lease(case["lease"])
        got = []
        for step in case["script"]:
            asks = getattr(lease, step["event"])(step["at"])
            got.append({"at": step["at"], "event": step["event"], "asks": asks, "due": lease.due})
        same(f"lease: {case['name']}", got, case["script"])


def skipped(play, case):
    handler = case["handler"]
    if play is over_wsgi and ("silent" in handler or "background" in handler or handler.get("gone") == "work"):
        return "a blocking handler cannot be cancelled, has no background tasks, and is not told of its client"


class DatabaseError(Exception):
    def __init__(self, sqlstate):
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


class Database:
    """Answers in the order of the script, and notes what it was asked."""

    def __init__(self, script):
        self.script = list(script)
        self.calls = []
        self.is_after_commit = False

    def next(self, call):
        """`call` as the script writes it; the look-up after a lost COMMIT is a begin."""
        expected = self.script[0]["call"] if self.script else None
        if call == "begin" and self.is_after_commit:
            call = "replay"
        self.calls.append(call)
        if call.split()[0] != expected:
            return AssertionError(f"{call} is not {expected}")
        return self.script.pop(0)["answer"]


class Session:
    def __init__(self, database):
        self.database = database
        self.connection = Connection(self)
        self.was_lost = False
        self.is_silent = False  # a transaction whose COMMIT the script does not write

    async def begin(self):
        self.is_own = False

    async def run(self, call):
        name = {"idem_http_begin": "begin", "idem_http_complete": "complete", "idem_release": "release"}.get(call.function)
        if name is None:
            return {"idem_http_key": "k"}.get(call.function)
        if name == "complete" and any(argument.name == "omit" for argument in call.given()):
            name += " omit"
        answer = self.database.next(name)
        self.is_silent = name == "release" or self.database.calls[-1] == "replay"
        with typed_errors("idem"):
            self._raise(answer)
        if not isinstance(answer, dict):
            return answer
        headers = {"Retry-After": 1} if answer.get("code") == "in_flight" else {"Idempotent-Replayed": "true"} if answer["action"] == "replay" else {}
        body = answer.get("body", "").encode()
        if answer["action"] == "reject":
            body, headers = json.dumps({"code": answer["code"]}).encode(), headers | {"Content-Type": "application/problem+json"}
        return HttpAnswer(answer["action"], answer.get("status"), headers, body, answer.get("fence"), answer.get("code"))

    async def commit(self):
        if self.is_silent:
            return
        answer = self.database.next("commit")
        if answer == {"lost": True} and "complete" in self.database.calls:
            self.database.is_after_commit = True
        if answer == "rolled_back":
            raise RolledBack("COMMIT rolls back")
        self._raise(answer)

    async def rollback(self):
        if not self.is_silent:
            self.database.calls.append("rollback")

    def is_lost(self):
        return self.was_lost

    def _raise(self, answer):
        if isinstance(answer, Exception):
            raise answer
        if answer == {"lost": True}:
            self.was_lost = True
            raise DatabaseError(None)
        if isinstance(answer, dict) and "sqlstate" in answer:
            raise DatabaseError(answer["sqlstate"])


class Connection:
    """What the handler has: psycopg's, as far as a handle looks."""

    __module__, __qualname__ = "psycopg", "Connection"

    def __init__(self, session):
        self.session = session

    def execute(self, statement):
        return "executed"


class FakePool(Pool):
    def __init__(self, database, in_loop):
        super().__init__(lambda: None, in_loop=in_loop)
        self.database = database
        self.sessions = []

    @asynccontextmanager
    async def session(self):
        self.sessions.append(Session(self.database))
        yield self.sessions[-1]


class HttpError(Exception):
    def __init__(self, status):
        self.status = status


@dataclasses.dataclass
class Played:
    handler: dict
    pool: FakePool
    ran: int = 0
    background: int = 0
    late: str | None = None
    run: object = None

    def begins(self, run):
        """What both frameworks' handlers do first."""
        self.ran += 1
        self.run = run
        if "throws" in self.handler:
            raise ValueError(self.handler["throws"])
        if "throws_sqlstate" in self.handler:
            raise DatabaseError(self.handler["throws_sqlstate"])
        if "throws_status" in self.handler:
            raise HttpError(self.handler["throws_status"])
        if "loses_connection" in self.handler:
            self.pool.sessions[0].was_lost = True
            raise ValueError("the connection is gone")
        self.kept = run.connection
        if "writes_late" in self.handler:
            self.kept.execute("in time")

    def writes_late(self):
        if "writes_late" in self.handler:
            refused = []
            for late in (lambda: self.kept.execute("late"), lambda: self.run.connection):
                try:
                    late()
                except RuntimeError as error:
                    refused.append("the transaction is over" in str(error))
            self.late = "refused" if refused == [True, True] else "executed"

    def response(self):
        """Status, headers, chunks."""
        if "streams" in self.handler:
            streams = self.handler["streams"]
            return streams["status"], {}, [b"x" * size for size in streams["chunks"]]
        responds = self.handler["responds"]
        return responds["status"], responds.get("headers", {}), [responds["body"].encode()]


def replay(play, case):
    options = {"scope": lambda request: "x"}
    names = {"storeErrors": "store_errors", "maxResponse": "max_response", "oversize": "oversize"}
    for name, value in case["options"].items():
        if name == "lease":
            options["lease"] = f"{value} ms"
        else:
            options[names[name]] = value
    database = Database(case["database"])
    played = Played(case["handler"], FakePool(database, play is over_asgi))
    sent = play(played, case["key"], options, case["handler"].get("mounted", 1))
    played.writes_late()
    if sent is not None and sent != "framework":
        sent["late_write"], sent["background"] = played.late, played.background
    calls, expected = database.calls, case["expect"]
    if isinstance(expected["sent"], dict) and isinstance(sent, dict):
        sent = {name: sent.get(name) for name in expected["sent"]}
    same(f"{play.__name__}: {case['name']}", {"calls": calls, "ran": played.ran, "sent": sent}, expected)


def shown(status, headers, body):
    headers = {name.lower(): value for name, value in headers}
    show = {"status": status, "body": body.decode(), "length": len(body)}
    show["replayed"] = headers.get("idempotent-replayed") == "true"
    if headers.get("content-type") == "application/problem+json":
        show |= {"code": json.loads(body)["code"], "retry_after": "retry-after" in headers}
    return "framework" if body == json.dumps(SENT).encode() else show


def over_asgi(played, key, options, mounted):
    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        try:
            played.begins(scope["state"]["idem"])
        except HttpError as error:
            note(scope, error)  # as Starlette's ExceptionMiddleware
            await send({"type": "http.response.start", "status": error.status, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps(SENT).encode()})
            return
        if "silent" in played.handler:
            played.pool.sessions[0].was_lost = True
            await asyncio.sleep(60)
        status, headers, chunks = played.response()
        await send({"type": "http.response.start", "status": status, "headers": [(n.encode(), v.encode()) for n, v in headers.items()]})
        for number, chunk in enumerate(chunks, 1):
            await send({"type": "http.response.body", "body": chunk, "more_body": number < len(chunks)})
        played.background += "background" in played.handler

    for _ in range(mounted):
        app = AsgiMiddleware(app, pool=lambda: None, **options)
        app._pool = played.pool
    sent = []
    gone = played.handler.get("gone")

    async def receive():
        return {"type": "http.disconnect"} if gone == "body" else {"type": "http.request", "body": b"{}"}

    async def send(message):
        sent.append(message)

    fields = [] if key is None else [(b"idempotency-key", key.encode())]
    scope = {"type": "http", "method": "PUT", "path": "/x", "query_string": b"", "headers": fields}
    try:
        asyncio.run(asyncio.wait_for(app(scope, receive, send), 10))
    except (ValueError, HttpError):
        return "framework"
    if gone:
        return None  # what is sent reaches nobody
    return shown(sent[0]["status"], [(n.decode(), v.decode()) for n, v in sent[0]["headers"]], b"".join(m["body"] for m in sent[1:]))


def over_wsgi(played, key, options, mounted):
    import io

    def app(environ, start_response):
        try:
            played.begins(environ["idem"])
        except HttpError as error:
            note(environ, error)  # as Flask's handle_user_exception
            start_response(f"{error.status} ", [])
            return [json.dumps(SENT).encode()]
        status, headers, chunks = played.response()
        start_response(f"{status} ", list(headers.items()))
        return iter(chunks)

    for _ in range(mounted):
        app = WsgiMiddleware(app, pool=lambda: None, **options)
        app._pool = played.pool
    is_gone = played.handler.get("gone") == "body"
    environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/x", "CONTENT_LENGTH": "2", "wsgi.input": io.BytesIO(b"{" if is_gone else b"{}")}
    if key is not None:
        environ["HTTP_IDEMPOTENCY_KEY"] = key
    started = []
    try:
        body = b"".join(app(environ, lambda status, headers: started.append((status, headers))))
    except (ValueError, HttpError):
        return "framework"
    return None if is_gone else shown(int(started[0][0].split()[0]), started[0][1], body)


if __name__ == "__main__":
    import tap

    run()
    tap.end()
