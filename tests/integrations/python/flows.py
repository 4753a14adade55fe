"""What a server process does not show: connections that are lost in COMMIT, leases that are lost, hooks, and options that
are refused."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import inspect
import io
import json
import logging
import os
import time
import uuid
from contextlib import asynccontextmanager, contextmanager

import psycopg
import psycopg2
import starved
from idem_postgres import AsgiMiddleware, AsyncIdem, Idem, Problem, WsgiMiddleware, async_lock, lock, multipart_fingerprint
from idem_postgres.http.serve import serve
from idem_postgres.http.options import Settings
from idem_postgres.http.request import Keyed
from idem_postgres.http.response import Response
from idem_postgres.interval import interval_seconds, interval_text
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


def answer(pool, request, handler, **options):
    """Status, code and Retry-After of a problem."""
    response = finish(serve(pool, settings(**options), request, handler))
    return response.status, json.loads(response.body)["code"], dict(response.headers).get("Retry-After")


@contextmanager
def logged(level=logging.WARNING):
    """A logger for the options, and the records that it gets."""
    records = []
    logger = logging.Logger("flows", level)
    handler = logging.Handler()
    handler.emit = records.append
    logger.addHandler(handler)
    yield logger, records


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
    with psycopg.connect("", autocommit=True) as db:
        db.execute("SELECT idem.idem_http_scope_set('flows', ignored_methods => '{DELETE}')")
    for number in (90, 91):
        same("flows: a method with which the key is not used", outcome(Pool(connect), keyed("ignored", "DELETE"), insert(number)), (201, False))
    same("flows: their rows are committed", [rows().get(number) for number in (90, 91)], [1, 1])
    same("flows: a key that is not used tells nothing of a lost COMMIT", outcome(LossyPool(True), keyed("ignored", "DELETE"), insert(92)), (500, False))
    same("flows: the rows of the others are committed", [rows().get(number) for number in (4, 5, 6)], [None, 1, 1])

    with psycopg.connect("", autocommit=True) as db:
        db.execute("SELECT idem.idem_http_scope_set('echoing', profile => 'acp')")
    for options in {}, {"lease": datetime.timedelta(seconds=30)}:
        key = f"echo {len(options)}"

        def echoed(response, header=key, body="body", options=options):
            async def app(scope, receive, send):
                await send({"type": "http.response.start", "status": response, "headers": []})
                await send({"type": "http.response.body", "body": b""})

            middleware = AsgiMiddleware(app, pool=connect, scope=lambda request: "echoing", **options)
            fields = [(b"idempotency-key", header.encode())] if header else []
            with concurrent.futures.ThreadPoolExecutor(1) as thread:  # which has no event loop
                answer = thread.submit(asgi, middleware, fields, body.encode()).result()[0]
            return answer["status"], [value.decode() for name, value in answer["headers"] if name.lower() == b"idempotency-key"]

        same("flows: a response that is not stored has the key", echoed(503), (503, [key]))
        same("flows: one that is stored, too", echoed(201), (201, [key]))
        same("flows: and its replay", echoed(201), (201, [key]))
        same("flows: and a rejection", echoed(201, body="other"), (422, [key]))
        same("flows: a request without a key has none to echo", echoed(201, header=None), (400, []))

    with psycopg.connect("", autocommit=True) as db:
        db.execute("ALTER TABLE orders ADD CONSTRAINT deferred_unique UNIQUE (number) DEFERRABLE INITIALLY DEFERRED")
    same("flows: a constraint that fails in COMMIT is the handler's error", outcome(Pool(connect), keyed("deferred"), insert(6)), "UniqueViolation")

    for source in (connect, lambda: psycopg2.connect("")):
        same("flows: the handler's commit is refused", outcome(Pool(source), keyed("commits"), commits), "RuntimeError")

    problems(rows)
    in_thread(lambda: open_transactions(rows))
    in_thread(background)
    in_thread(headers)
    in_thread(heads)
    in_thread(forms)
    in_thread(kinds)
    leases()
    in_thread(renewals)
    in_thread(late_answers)
    in_thread(waiters)
    in_thread(starved.run)
    in_thread(handles)
    hooks()
    refused()
    durations()


async def commits(run):
    run.connection.commit()
    return OK


async def commits_by_sql(run):
    run.connection.cursor().execute("COMMIT")
    return OK


def problems(rows):
    """What the middleware answers in the place of the handler, and what it logs of the cause."""

    async def deadlock(run):
        run.connection.execute("DO $$ BEGIN RAISE 'two requests met' USING ERRCODE = '40P01', DETAIL = 'a second line'; END $$")

    async def own_503(run):
        raise Problem(503, "come back tomorrow")

    nowhere = Pool(lambda: psycopg.connect("host=/nowhere"))
    cases = (
        ("no database", nowhere, keyed("p1"), insert(30), {}, (503, "unavailable", "1"), logging.WARNING, "OperationalError"),
        ("a deadlock", Pool(connect), keyed("p2"), deadlock, {}, (503, "serialization_failure", "1"), logging.WARNING, "two requests met DETAIL: a second line"),
        ("COMMIT is lost, the key shows that it failed", LossyPool(False), keyed("p3"), insert(31), {}, (503, "not_committed", "1"), logging.WARNING, "OperationalError: server closed"),
        ("COMMIT is lost without a key", LossyPool(True), keyed(method="PUT"), insert(32), {}, (500, "commit_unknown", None), logging.ERROR, "OperationalError: server closed"),
        ("COMMIT is lost, and another request holds the key", HeldPool(), keyed("p4"), insert(33), {}, (503, "commit_unknown", "1"), logging.WARNING, "OperationalError: server closed"),
        ("idem is not installed", Pool(connect, "nowhere"), keyed("p5"), insert(34), {}, (500, "internal", None), logging.ERROR, "run: python3 -m idem_postgres install"),
        ("the handler commits", Pool(lambda: psycopg2.connect("")), keyed("p7"), commits_by_sql, {}, (500, "internal", None), logging.ERROR, "leave commit and rollback to idem"),
        ("the pool is of a wrong kind", Pool(lambda: connect_later()), keyed("p6"), insert(35), {}, (500, "internal", None), logging.ERROR, "TypeError"),
    )
    for case, pool, request, handler, options, expected, level, cause in cases:
        with logged() as (logger, records):
            same(f"flows: {case}: {expected[0]} {expected[1]}", answer(pool, request, handler, logger=logger, **options), expected)
        text = "\n".join(record.getMessage() for record in records)
        same(f"flows: {case}: one line with the cause", ([record.levelno for record in records], cause in text, "\n" in text), ([level], True, False))
        same(f"flows: {case}: a traceback where an operator must act", any(record.exc_info for record in records), expected[1] == "internal")
    same("flows: their rows", [rows().get(number) for number in range(30, 36)], [None, None, 1, None, None, None])
    with logged() as (logger, records):
        same("flows: a problem of the handler's is not logged", (outcome(Pool(connect), keyed("p8"), own_503, logger=logger), records), ((503, False), []))


def open_transactions(rows):
    """A connection that comes with a transaction: what idem commits there would be a savepoint."""
    import asyncpg
    from sqlalchemy import create_engine, text
    from sqlalchemy.ext.asyncio import create_async_engine

    address = {"host": os.environ["PGHOST"], "user": os.environ["PGUSER"], "database": os.environ["PGDATABASE"], "port": os.environ["PGPORT"]}
    url = "postgresql+{}://{user}@/{database}?host={host}&port={port}"

    def psycopg3():
        connection = connect()
        connection.execute("SET ROLE NONE")
        return connection

    async def psycopg3_async():
        connection = await psycopg.AsyncConnection.connect("", prepare_threshold=None)
        await connection.execute("SET ROLE NONE")
        return connection

    def of_psycopg2():
        connection = psycopg2.connect("")
        with connection.cursor() as cursor:
            cursor.execute("SET ROLE NONE")
        return connection

    async def of_asyncpg():
        connection = await asyncpg.connect(**address, statement_cache_size=0)
        await connection.transaction().start()
        return connection

    def sqlalchemy():
        connection = create_engine(url.format("psycopg2", **address)).connect()
        connection.begin()
        return connection

    async def sqlalchemy_async():
        connection = await create_async_engine(url.format("asyncpg", **address), connect_args={"statement_cache_size": 0}).connect()
        await connection.begin()
        return connection

    def handler(number):
        statement = f"INSERT INTO orders (number) VALUES ({number})"

        async def insert_there(run):
            kind = run.connection.__class__.__module__.split(".")[0]
            if kind == "psycopg2":
                run.connection.cursor().execute(statement)
            else:
                result = run.connection.execute(text(statement) if kind == "sqlalchemy" else statement)
                if inspect.isawaitable(result):
                    await result
            return OK

        return insert_there

    refused = (500, "internal")
    cases = ((psycopg3, refused), (psycopg3_async, refused), (of_psycopg2, (201, None)), (of_asyncpg, refused), (sqlalchemy, refused), (sqlalchemy_async, refused))
    for number, (source, expected) in enumerate(cases, 40):
        pool = Pool(source, in_loop=inspect.iscoroutinefunction(source))
        with logged() as (logger, records):
            flow = serve(pool, settings(logger=logger), keyed(f"open-{number}"), handler(number))
            response = asyncio.run(flow) if pool.in_loop else finish(flow)
        code = json.loads(response.body)["code"] if response.status != 201 else None
        same(f"flows: {source.__name__}: an open transaction: {expected[0]}", (response.status, code), expected)
        same(f"flows: {source.__name__}: 201 means committed", rows().get(number), 1 if response.status == 201 else None)
        if expected == refused:
            same(f"flows: {source.__name__}: the log has the cause", "the connection is in a transaction" in " ".join(record.getMessage() for record in records), True)


async def connect_later():
    return await psycopg.AsyncConnection.connect("")


class HeldPool(LossyPool):
    """COMMIT was not done, and its server process is still at work: its claim is not undone yet."""

    def __init__(self):
        super().__init__(False)

    @asynccontextmanager
    async def session(self):
        was_lossy = self._is_lossy
        async with super().session() as session:
            if was_lossy:
                yield session
                return
            with connect() as other:
                Idem(other).begin("p4", scope="flows")
                yield session


def headers():
    """A function of the options finds a header in any case."""
    seen = []

    def scope(request):
        seen.append([request.headers.get(name) for name in ("X-API-Key", "x-api-key", "Content-Type", "X-None")] + ["X-Api-Key" in request.headers])
        raise Problem(401)

    statuses = []
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/x", "HTTP_X_API_KEY": "alice", "CONTENT_TYPE": "text/plain"}
    WsgiMiddleware(None, pool=connect, scope=scope)(environ, lambda status, headers: statuses.append(status))
    fields = [(b"x-api-key", b"alice"), (b"content-type", b"text/plain")]
    statuses.append(asgi(AsgiMiddleware(None, pool=connect, scope=scope), fields)[0]["status"])
    same("flows: the scope function answers", statuses, ["401 Unauthorized", 401])
    same("flows: headers are found in any case", seen, [["alice", "alice", "text/plain", None, True]] * 2)
    fields.append((b"x-api-key", b"bob"))
    asgi(AsgiMiddleware(None, pool=connect, scope=scope), fields)
    same("flows: two lines of a header are one value", seen[-1][0], "alice, bob")


def heads():
    """A replay of HEAD, which has no body, does not say that a GET would have none."""
    fields = [("Content-Type", "text/plain"), ("Content-Length", "6")]

    def wsgi_app(environ, respond):
        respond("200 OK", fields)
        return []

    async def asgi_app(scope, receive, send):
        encoded = [(name.lower().encode(), value.encode()) for name, value in fields]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        await send({"type": "http.response.body", "body": b""})

    def over_wsgi():
        got = []
        middleware = WsgiMiddleware(wsgi_app, pool=connect, scope=lambda request: "wsgi head")
        environ = {"REQUEST_METHOD": "HEAD", "PATH_INFO": "/x", "HTTP_IDEMPOTENCY_KEY": "head"}
        list(middleware(environ, lambda line, headers, exc_info=None: got.append(dict(headers))))
        return {name.lower(): value for name, value in got[0].items()}

    def over_asgi():
        middleware = AsgiMiddleware(asgi_app, pool=connect, scope=lambda request: "asgi head")
        start = asgi(middleware, [(b"idempotency-key", b"head")], method="HEAD")[0]
        return {name.decode().lower(): value.decode() for name, value in start["headers"]}

    for over in (over_wsgi, over_asgi):
        first, again = over(), over()
        got = first["content-length"], again["idempotent-replayed"], again.get("content-length", "6")
        same(f"flows: {over.__name__}: a replay of HEAD", got, ("6", "true", "6"))


def asgi(middleware, fields, body=b"", method="POST"):
    """The messages of the response to a request for /x."""
    scope = {"type": "http", "method": method, "path": "/x", "query_string": b"", "headers": fields}
    sent = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message)

    asyncio.run(middleware(scope, receive, send))
    return sent


def forms():
    """A form of files has another boundary at each attempt, and may have its key in the body."""

    def form(boundary, content):
        part = f'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n{content}'
        return f"multipart/form-data; boundary={boundary}", f"--{boundary}\r\n{part}\r\n--{boundary}--\r\n".encode()

    def wsgi_app(environ, respond):
        environ["wsgi.input"].read()
        respond("201 Created", [("Content-Type", "text/plain")])
        return [b"stored"]

    async def asgi_app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"stored"})

    def over_wsgi(options, key, kind, body):
        status, sent = [], io.BytesIO(body)
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/x", "CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body)), "wsgi.input": sent}
        environ |= {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
        middleware = WsgiMiddleware(wsgi_app, pool=connect, scope=lambda request: "wsgi form", **options)
        list(middleware(environ, lambda line, headers, exc_info=None: status.append((int(line[:3]), "Idempotent-Replayed" in dict(headers)))))
        return status[0]

    def over_asgi(options, key, kind, body):
        fields = [(b"content-type", kind.encode())] + ([(b"idempotency-key", key.encode())] if key else [])
        start = asgi(AsgiMiddleware(asgi_app, pool=connect, scope=lambda request: "asgi form", **options), fields, body)[0]
        return start["status"], b"idempotent-replayed" in {name.lower() for name, _ in start["headers"]}

    for over in (over_wsgi, over_asgi):
        options = {"fingerprint": multipart_fingerprint}
        got = [over(options, '"f"', *form(boundary, content)) for boundary, content in (("one", "a"), ("two", "a"), ("three", "b"))]
        same(f"flows: {over.__name__}: a form with another boundary is the same request, one with another file is not", got,
             [(201, False), (201, True), (422, False)])  # fmt: skip
        without = [over({}, '"g"', *form(boundary, "a")) for boundary in ("one", "two")]
        same(f"flows: {over.__name__}: without the option it is another request", without, [(201, False), (422, False)])
        options = {"key_from": lambda request: json.loads(request.body)["id"]}
        got = [over(options, None, "application/json", body) for body in (b'{"id": "evt 1"}', b'{"id": "evt 1"}', b'{"id": "evt 2"}')]
        same(f"flows: {over.__name__}: the key is in the body", got, [(201, False), (201, True), (201, False)])


def kinds():
    """Blocking and asynchronous pools and connections: the error names the function for the other kind."""
    from psycopg_pool import AsyncConnectionPool

    noise = []
    logger = logging.getLogger("asyncio")
    handler = logging.Handler()
    handler.emit = lambda record: noise.append(record.getMessage())
    logger.addHandler(handler)

    # SQLAlchemy 2 has this class; Debian has 1.4.
    maker = type("async_sessionmaker", (), {"class_": type("AsyncSession", (), {}), "kw": {}, "__call__": lambda self: None})()

    async def attempt():
        async def later():
            return await psycopg.AsyncConnection.connect("")

        async with AsyncConnectionPool("", min_size=1) as pool, await later() as connection:
            with connect() as blocking:
                return [
                    _error(lambda: lock(pool, "k").__enter__()), _error(lambda: lock(later, "k").__enter__()),
                    _error(lambda: lock(maker, "k").__enter__()), _error(lambda: lock(lambda: later(), "k").__enter__()),
                    _error(lambda: WsgiMiddleware(None, pool=pool, scope=len)),
                    _error(lambda: Idem(connection)), _error(lambda: AsyncIdem(blocking)),
                ]  # fmt: skip

    errors = asyncio.run(attempt())
    logger.removeHandler(handler)
    advice = ["use async_lock", "use async_lock", "use async_lock", "a coroutine", "a blocking driver", "use AsyncIdem", "use Idem"]
    same("flows: the wrong kind is a TypeError", [error[0] for error in errors], ["TypeError"] * len(errors))
    same("flows: it says what to use", [text in error[1] for text, error in zip(advice, errors)], [True] * len(errors))
    same("flows: and nothing else is printed", noise, [])


def _error(function):
    """The type and the text of what the function raises."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


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
        middleware = AsgiMiddleware(app(number), pool=connect, scope=lambda request: "background")
        middleware._pool = pool
        try:
            return asgi(middleware, [(b"idempotency-key", key)])[0]["status"]
        except Exception as error:
            return type(error).__name__

    got = [request(LossyPool(False), b"b1", 20), request(LossyPool(True), b"b2", 21), request(Pool(connect), b"b3", 22), request(Pool(connect), b"b4", 22)]
    same("flows: COMMIT is lost, found, done, and fails", got, [503, 201, 201, "UniqueViolation"])
    same("flows: only after a COMMIT that is known to be done the application goes on", done, [22])


def leases():
    lease = datetime.timedelta(seconds=30)

    def take_over(run):
        with connect() as connection:
            idem = Idem(connection)
            idem.release(run.key, run.fence, scope=run.scope)
            idem.begin(run.key, lease=lease, scope=run.scope)

    async def taken_over(run):
        take_over(run)
        return OK

    async def noticing(run):
        """By its next step, before the heartbeat does."""
        take_over(run)
        run.step("charge")
        return OK

    async def checking(run):
        take_over(run)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            run.check()
            time.sleep(0.05)
        return OK

    lost = (503, "lease_lost", "1")
    same("flows: leased: the response of a stale fence is not stored", answer(Pool(connect), keyed("taken"), taken_over, lease=lease), lost)
    same("flows: leased: a step of a stale fence", answer(Pool(connect), keyed("noticed"), noticing, lease=lease), lost)
    short = datetime.timedelta(seconds=2)
    same("flows: leased: check() raises, and the answer is the same", answer(Pool(connect), keyed("checked"), checking, lease=short), lost)

    async def other_fence(run):
        with connect() as connection:
            Idem(connection).complete("no such key", fence=1)

    same("flows: leased: a stale fence of something else is the handler's error", outcome(Pool(connect), keyed("other"), other_fence, lease=lease), "StaleFence")
    same("flows: leased: idem is not installed", answer(Pool(connect, "nowhere"), keyed("nowhere"), taken_over, lease=lease), (500, "internal", None))

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


class CutOff:
    """A function that connects, but between `cut` and `restore`: there it raises, or with `hangs` is silent like a dead socket."""

    def __init__(self, hangs):
        self._hangs = hangs
        self._is_cut = False

    def __call__(self):
        if self._is_cut:
            time.sleep(15 if self._hangs else 0)
            raise psycopg.OperationalError("no route to host")
        return connect()

    async def later(self):
        if self._is_cut:
            await asyncio.sleep(15 if self._hangs else 0)
            raise psycopg.OperationalError("no route to host")
        return await psycopg.AsyncConnection.connect("", prepare_threshold=None)

    def cut(self):
        self._is_cut = True

    def restore(self):
        """For what follows the work: the completion, or the release."""
        self._is_cut = False


def renewals():
    """A process that is cut off from the database for longer than its lease."""
    lease = datetime.timedelta(seconds=1)

    async def until_lost(run, source, hold):
        source.cut()
        was_lost, end = run.is_lost, time.monotonic() + 8
        while not run.is_lost and time.monotonic() < end:
            await hold(0.05)
        seen.append((was_lost, run.is_lost, _error(run.check)[0]))
        source.restore()
        run.check()
        return OK

    async def block(seconds):
        time.sleep(seconds)

    since = time.monotonic()
    for hangs in (False, True):
        case = "a renewal hangs" if hangs else "renewals fail"
        seen, source = [], CutOff(hangs)
        status = outcome(Pool(source), keyed(f"cut-{hangs}"), lambda run: until_lost(run, source, block), lease=lease)[0]
        same(f"flows: leased: {case}: the lease is lost", (status, seen), (503, [(False, True, "LeaseLost")]))
        seen, source = [], CutOff(hangs)
        flow = serve(Pool(source.later, in_loop=True), settings(lease=lease), keyed(f"cut-async-{hangs}"), lambda run: until_lost(run, source, asyncio.sleep))
        same(f"flows: leased: {case}: the lease is lost in an event loop", (asyncio.run(flow).status, seen), (503, [(False, True, "LeaseLost")]))

        source = CutOff(hangs)
        with lock(source, "cut", ttl=lease) as held:
            held.check()
            source.cut()
            got = held.lost.wait(8), _error(held.check)[0]
            source.restore()
        same(f"flows: {case}: a lock is lost", got, (True, "StaleFence"))
        same(f"flows: {case}: a lock is lost in an event loop", asyncio.run(cut_async_lock(CutOff(hangs), lease)), (True, "StaleFence"))

    same("flows: a renewal that hangs is not waited for", time.monotonic() - since < 15, True)

    source = CutOff(True)
    with lock(source, "silent", ttl=lease) as held:
        source.cut()
        time.sleep(1.5)
        same("flows: check() tells of a lost lock", _error(held.check)[0], "StaleFence")
        source.restore()

    with connect() as connection:
        Idem(connection).lock("late", ttl="3 s")
    with lock(connect, "late", ttl=datetime.timedelta(seconds=2), wait="20 s") as held:
        same("flows: the wait for a lock is no part of its lease", (held.lost.is_set(), _error(held.check)[0]), (False, "nothing"))


async def cut_async_lock(source, ttl):
    async with async_lock(source.later, "cut", ttl=ttl) as held:
        held.check()
        source.cut()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(held.lost.wait(), 8)
        got = held.lost.is_set(), _error(held.check)[0]
        source.restore()
    return got


def late_answers():
    """The answer to a claim comes late, and another caller takes over: the work never begins."""
    began = []

    async def handler(run):
        began.append(run.key)
        return OK

    import idem_postgres.held as held

    begin = held.Holder.begin

    async def late_begin(self):
        time.sleep(0.5)
        with connect() as connection:
            Idem(connection).release(self._run.key, self._run.fence, scope=self._run.scope)
            Idem(connection).begin(self._run.key, lease="1 min", scope=self._run.scope)
        await begin(self)

    held.Holder.begin = late_begin
    try:
        got = answer(Pool(connect), keyed("late-claim"), handler, lease="1200 ms")
        flow = serve(Pool(connect, in_loop=True), settings(lease="1200 ms"), keyed("late-claim-async"), handler)
        got_async = json.loads(asyncio.run(flow).body)["code"]
    finally:
        held.Holder.begin = begin
    same("flows: leased: the first renewal says that the lease is lost: 503", (got, got_async), ((503, "lease_lost", "1"), "lease_lost"))
    same("flows: leased: and the handler does not run", began, [])


def waiters():
    """Callers that wait hold no connection, which the holder's renewals need."""
    from psycopg_pool import ConnectionPool

    ran, together, most = [], [0], [0]

    async def slow(run):
        ran.append(run.attempt)
        time.sleep(5)
        return OK

    with ConnectionPool("", min_size=3, max_size=3) as pool, concurrent.futures.ThreadPoolExecutor(10) as threads:
        def request(_):
            return outcome(Pool(pool), keyed("starved"), slow, lease="2 s", wait="30 s")

        got = list(threads.map(request, range(10)))

        def held(_):
            with lock(pool, "starved", ttl="2 s", wait="90 s") as lease:
                together[0] += 1
                most[0] = max(most[0], together[0])
                time.sleep(2.2)
                together[0] -= 1
                return lease.lost.is_set()

        lost = list(threads.map(held, range(8)))
    same("flows: leased: ten duplicates on three connections: the handler runs once", (ran, sorted(got)), ([1], [(201, False)] + [(201, True)] * 9))
    same("flows: eight callers of a lock on three connections: one at a time", (most[0], lost), (1, [False] * 8))
    asyncio.run(async_waiters())


async def async_waiters():
    from psycopg_pool import AsyncConnectionPool

    ran = []

    async def slow(run):
        ran.append(run.attempt)
        await asyncio.sleep(5)
        return OK

    async with AsyncConnectionPool("", min_size=3, max_size=3) as pool:
        source = Pool(pool, in_loop=True)
        flows = [serve(source, settings(lease="2 s", wait="30 s"), keyed("starved-async"), slow) for _ in range(10)]
        got = [response.status for response in await asyncio.gather(*flows)]
    same("flows: leased: ten duplicates in an event loop: the handler runs once", (ran, got), ([1], [201] * 10))


def handles():
    """What is kept of a run reaches no later transaction on the same connection."""
    from psycopg_pool import ConnectionPool
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import sessionmaker

    kept = {}

    async def keeps(run):
        kept["run"], kept["connection"] = run, run.connection
        if hasattr(run.connection, "cursor"):
            kept["cursor"] = run.connection.cursor()
            kept["cursor"].execute("SELECT 1")
        return OK

    def late(name):
        def use():
            statement = "INSERT INTO orders (number) VALUES (666)"
            target = kept["run"].connection if name == "run" else kept[name]
            target.execute(text(statement) if hasattr(target, "scalars") else statement)

        return use

    with ConnectionPool("", min_size=1, max_size=1) as pool:
        sources = (pool, lambda: psycopg2.connect(""), sessionmaker(create_engine("postgresql+psycopg2://")))
        for number, source in enumerate(sources):
            kept.clear()
            got = outcome(Pool(source), keyed(f"kept-{number}"), keeps)
            names = sorted(kept)
            dead = [_error(late(name)) for name in names]
            same(f"flows: {names}: dead after the response", (got, {error for error, _ in dead}), ((201, False), {"TransactionOver"}))
            same("flows: the error says what to do", {message for _, message in dead}, {"the transaction is over: use your own connection for work after the response"})

    async def own_type(run):
        got = isinstance(run.connection, psycopg.Connection), Idem(run.connection).next_id() > 0
        with run.connection.transaction(), run.connection.cursor() as cursor:
            got += (cursor.execute("SELECT 2").fetchone()[0], [row[0] for row in run.connection.execute("SELECT 3")])
        kept["own"] = got
        return OK

    outcome(Pool(connect), keyed("own-type"), own_type)
    same("flows: a handle behaves as the connection", kept["own"], (True, True, 2, [3]))


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
    path = Keyed("flows", "POST", "/x\nPOST /y", "k,", b"")
    outcome(Pool(connect), path, insert(8), logger=logger)
    same("flows: a path with a line break is one line of the log", "\n" in lines.pop(), False)
    same("flows: the hook is told of the outcome", seen, [("hook", "run", 201, True), ("hook", "replay", 201, True), ("a,b", "reject", 400, True)])
    attempts = []

    async def fails_first(run):
        if run.attempt == 1:
            raise ValueError
        return OK

    for _ in range(2):
        outcome(Pool(connect), keyed("attempts"), fails_first, lease="30 s", logger=logging.Logger("quiet"), on_outcome=lambda o: attempts.append((o.status, o.attempt)))
    same("flows: the hook is told of the attempt, in leased mode", attempts, [(None, None), (201, 2)])
    same("flows: the log has the key and the outcome", [line.split(" in ")[0] for line in lines if "key=" in line],
         ["POST /x key=hook scope=flows run 201", "POST /x key=hook scope=flows replay 201", "POST /x key=a,b scope=flows reject 400"])  # fmt: skip


def refused():
    for middleware in (AsgiMiddleware, WsgiMiddleware):
        for options in ({}, {"scope": "a text"}, {"scope": len, "unknown": 1}):
            got = _error(lambda: middleware(None, pool=connect, **options))
            same(f"flows: {middleware.__module__}: options {sorted(options)} are refused", got[0], "TypeError")
        got = _error(lambda: middleware(None, pool=connect, scope=len, lease="30 s", oversize="rollback"))
        same(f"flows: {middleware.__module__}: leased work cannot be rolled back", got[0], "ValueError")


def durations():
    """A duration is a `timedelta`, or text with a unit where text is allowed."""
    for text in ("30 s", "5min", "1.5 hours", "1 day 2 h", "1 day 02:00", "00:05:00", "PT30S", "P1DT12H", " 2 days "):
        with psycopg.connect("") as db:
            db.execute("SELECT CAST(%s AS interval)", (interval_text("ttl", text),))
    for text in ("5", "5.", "1 day 5", "", "s", "P", "P5", "1e3", "1,5 h", "5 -3 s"):
        same(f"flows: {text!r} is no duration", _error(lambda: interval_text("ttl", text))[0], "ValueError")

    def middleware(cls, **options):
        return lambda: cls(None, pool=connect, scope=len, **options)

    both = (AsgiMiddleware, WsgiMiddleware)
    cases = [
        *((middleware(cls, **{name: 30}), "TypeError") for cls in both for name in ("lease", "wait", "ttl")),
        *((middleware(cls, **{name: "30"}), "ValueError") for cls in both for name in ("lease", "wait", "ttl")),
        *((middleware(cls, lease=lease), error) for cls in both for lease, error in (("30 s", "nothing"), ("0 s", "ValueError"), ("1 month", "ValueError"))),
        *((lambda ttl=ttl: lock(connect, "k", ttl=ttl).__enter__(), "TypeError") for ttl in (30, None)),
        (lambda: lock(connect, "k", wait="5").__enter__(), "ValueError"),
        (lambda: asyncio.run(async_lock(connect, "k", ttl=30).__aenter__()), "TypeError"),
        (lambda: Idem(connect()).claim("k", ttl="5"), "ValueError"),
        (lambda: Idem(connect()).claim("k", ttl=5), "TypeError"),
    ]
    in_thread(lambda: same("flows: numbers and text in the wrong place", [_error(call)[0] for call, _ in cases], [error for _, error in cases]))
    text = "ttl is a timedelta or text with a unit, such as '30 s', not 86400: write '86400 s' or '1 day'"
    same("flows: the error names the argument, and says what to write", _error(lambda: lock(connect, "k", ttl=86400).__enter__())[1], text)
    seconds = [interval_seconds("ttl", text) for text in ("30 s", "1.5 hours", "1 day 02:00", "PT1M", "P1DT12H", "100 ms")]
    same("flows: a duration that the package measures", seconds, [30, 5400, 93600, 60, 129600, 0.1])
