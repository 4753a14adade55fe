"""What a server process does not show: connections that are lost in COMMIT, leases that are lost, hooks, and options that
are refused."""

import asyncio
import concurrent.futures
import logging
import uuid
from contextlib import asynccontextmanager

import psycopg
import psycopg2
from idem_postgres import AsgiMiddleware, Idem, WsgiMiddleware, lock
from idem_postgres.http.flow import serve
from idem_postgres.http.options import Settings
from idem_postgres.http.request import Keyed
from idem_postgres.http.response import Response
from idem_postgres.pool import Pool, finish

from tap import same

OK = Response(201, [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Link", "</a>"), ("Link", "</b>")], b"done")


def connect():
    return psycopg.connect("", prepare_threshold=None)


class LossyPool(Pool):
    """The first COMMIT of a session loses its connection: after it has committed, or before."""

    def __init__(self, is_committed):
        super().__init__(connect)
        self._is_committed = is_committed
        self._is_lossy = True

    @asynccontextmanager
    async def session(self):
        async with super().session() as session:
            if self._is_lossy:
                self._is_lossy = False
                commit = session.commit

                async def lose():
                    if self._is_committed:
                        await commit()
                    session.connection.close()
                    raise psycopg.OperationalError("server closed the connection unexpectedly")

                session.commit = lose
            yield session


def settings(**options):
    return Settings(scope=lambda request: "x", **options)


def keyed(key=None, method="POST"):
    return Keyed("flows", method, "/x", key, b"body")


def insert(number, response=OK):
    async def handler(run):
        cursor = run.connection.cursor()
        cursor.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
        return response

    return handler


def outcome(pool, request, handler, **options):
    """Status and replayed, or the exception."""
    try:
        response = finish(serve(pool, settings(**options), request, handler))
    except Exception as error:
        return type(error).__name__
    return response.status, ("Idempotent-Replayed", "true") in response.headers


def all_flows(rows):
    key = uuid.uuid4().hex
    same("flows: COMMIT was done, and its answer lost: a replay", outcome(LossyPool(True), keyed(key), insert(1)), (201, True))
    same("flows: its rows are there once", rows().get(1), 1)
    key = uuid.uuid4().hex
    same("flows: COMMIT was not done: 503", outcome(LossyPool(False), keyed(key), insert(2)), (503, False))
    same("flows: no rows", rows().get(2), None)
    same("flows: and the key is free", outcome(Pool(connect), keyed(key), insert(2)), (201, False))
    response = finish(serve(Pool(connect), settings(), keyed(key), insert(2)))
    same("flows: a replay has both Link headers, and no cookie", [h for h in response.headers if h[0] in ("Link", "Set-Cookie")], [("Link", "</a>"), ("Link", "</b>")])
    same("flows: no database: 503", outcome(Pool(lambda: psycopg.connect("host=/nowhere")), keyed("k"), insert(3)), (503, False))

    same("flows: without a key: 400", outcome(Pool(connect), keyed(), insert(4)), (400, False))
    same("flows: without a key that is not required", outcome(Pool(connect), keyed(), insert(5), key_required=False), (201, False))
    same("flows: without a key, a method that needs none", outcome(Pool(connect), keyed(method="PUT"), insert(6)), (201, False))
    same("flows: their rows are committed", [rows().get(number) for number in (4, 5, 6)], [None, 1, 1])

    with psycopg.connect("", autocommit=True) as db:
        db.execute("ALTER TABLE orders ADD CONSTRAINT deferred_unique UNIQUE (number) DEFERRABLE INITIALLY DEFERRED")
    same("flows: a constraint that fails in COMMIT is the handler's error", outcome(Pool(connect), keyed("deferred"), insert(6)), "UniqueViolation")

    async def commits(run):
        run.connection.commit()
        return OK

    same("flows: psycopg 3 refuses the handler's commit", outcome(Pool(connect), keyed("commits"), commits), "ProgrammingError")
    same("flows: psycopg2 does not, the middleware does", outcome(Pool(lambda: psycopg2.connect("")), keyed("commits"), commits), "RuntimeError")

    in_thread(background)
    leases()
    hooks()
    refused()


def background():
    """What an ASGI application does after its response happens only if the work was committed."""
    done = []

    def app(number):
        async def app(scope, receive, send):
            scope["state"]["idem"].connection.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})
            done.append(number)

        return app

    def request(pool, key, number):
        scope = {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": [(b"idempotency-key", key)]}
        sent = []

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(message):
            sent.append(message)

        middleware = AsgiMiddleware(app(number), pool=connect, scope=lambda request: "background")
        middleware._pool = pool
        try:
            asyncio.run(middleware(scope, receive, send))
        except Exception as error:
            return type(error).__name__
        return sent[0]["status"]

    got = [request(LossyPool(False), b"b1", 20), request(LossyPool(True), b"b2", 21), request(Pool(connect), b"b3", 22), request(Pool(connect), b"b4", 22)]
    same("flows: COMMIT is lost, found, done, and fails", got, [503, 201, 201, "UniqueViolation"])
    same("flows: only after a COMMIT that is known to be done the application goes on", done, [22])


def leases():
    import datetime

    lease = datetime.timedelta(seconds=30)

    async def taken_over(run):
        with connect() as connection:
            idem = Idem(connection)
            idem.release(run.key, run.fence, scope=run.scope)
            idem.begin(run.key, lease=lease, scope=run.scope)
        return OK

    same("flows: leased: the response of a stale fence is not stored: 503", outcome(Pool(connect), keyed("taken"), taken_over, lease=lease), (503, False))

    async def raising(run):
        run.step("charge", {"charge": 1})
        raise ValueError

    same("flows: leased: the handler raises", outcome(Pool(connect), keyed("raising"), raising, lease=lease), "ValueError")
    seen = []

    async def looking(run):
        seen.append(run.steps)
        return OK

    same("flows: leased: the key was released", outcome(Pool(connect), keyed("raising"), looking, lease=lease), (201, False))
    same("flows: leased: with the steps of the first attempt", seen, [{"charge": {"charge": 1}}])
    same("flows: leased: COMMIT of the claim is lost: 503", outcome(LossyPool(False), keyed("lost-claim"), looking, lease=lease), (503, False))


def in_thread(function):
    """Away from the event loop of this program."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        threads.submit(function).result()


def hooks():
    seen, lines = [], []
    logger = logging.getLogger("flows")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.addHandler(handler)

    def on_outcome(outcome):
        seen.append((outcome.key, outcome.outcome, outcome.status, outcome.ms > 0))
        raise ValueError("an error of the hook changes nothing")

    for _ in range(2):
        same("flows: the answer is that without a hook", outcome(Pool(connect), keyed("hook"), insert(7), on_outcome=on_outcome, logger=logger)[0], 201)
    outcome(Pool(connect), keyed("a,b"), insert(8), on_outcome=on_outcome, logger=logger)
    same("flows: the hook is told of the outcome", seen, [("hook", "run", 201, True), ("hook", "replay", 201, True), ("a,b", "reject", 400, True)])
    same("flows: the log has the key and the outcome", [line.split(" in ")[0] for line in lines if "key=" in line],
         ["POST /x key=hook scope=flows run 201", "POST /x key=hook scope=flows replay 201", "POST /x key=a,b scope=flows reject 400"])  # fmt: skip


def refused():
    for middleware in (AsgiMiddleware, WsgiMiddleware):
        for options in ({}, {"scope": "a text"}, {"scope": len, "unknown": 1}, {"scope": len, "lease": 30}):
            try:
                middleware(None, pool=connect, **options)
                got = "constructed"
            except TypeError:
                got = "TypeError"
            same(f"flows: {middleware.__module__}: options {sorted(options)} are refused", got, "TypeError")
    try:
        with lock(connect, "k", ttl=30):
            got = "held"
    except TypeError:
        got = "TypeError"
    same("flows: a bare number is no interval", got, "TypeError")
