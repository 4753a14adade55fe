"""The fake for unit tests: each scenario gives the same on PostgreSQL and on the fake."""

import asyncio
import io
import json
import os
import re
import time
from unittest import mock

from idem_postgres import Idem, WsgiMiddleware, async_leased, async_once, fate, leased, once
from idem_postgres.fake import async_fake_database, fake_database
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tap import same

QUICK = {"scope": "fake", "wait": "0 s"}
PLAIN = {"prepare_threshold": None}


def told(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, getattr(error, "sqlstate", None) or getattr(error, "step", None)


def boom(*_):
    raise ZeroDivisionError


def runs_once(db):
    def call(key, work, **options):
        return told(lambda: once(db, key, work, **{**QUICK, **options}))

    return [
        call("o1", lambda run: {"id": 1}),
        call("o1", boom),
        call("o2", boom),
        call("o2", lambda run: None),
        call("o2", boom),
        call("o3", lambda run: "a\0", fingerprint=b"a"),
        call("o3", boom, fingerprint=b"b"),
        call("o3", boom, fingerprint=b"a"),
        call("o3", lambda run: 3, scope="other"),
        call("o4", lambda run: [run.key, run.scope, run.idem.claim("inner", scope="fake"), run.idem.claim("inner", scope="fake")]),
    ]


def leases(db):
    acts = []

    def charge(work, fails=False):
        def act(gate):
            acts.append(gate.key)
            return boom() if fails else {"id": len(acts)}

        return work.step("charge", act, lambda gate: fate.not_done())

    def call(key, work, **options):
        return told(lambda: leased(db, key, work, **{**QUICK, **options}))

    def odd(work):
        work.steps["odd"] = None
        return work.step("odd", boom, lambda gate: fate.unknown())

    def doubt(work):
        if work.attempt == 1:
            work.step("sent", boom)
        return work.step("sent", boom, lambda gate: fate.unknown())

    return [
        call("l1", lambda work: charge(work, True)),
        call("l1", lambda work: (charge(work), boom())),
        call("l1", lambda work: [work.attempt, dict(work.steps), charge(work), work.write("row", lambda run: {"row": 1})]),
        call("l1", boom),
        call("l2", boom, lease="400 ms", on_error="keep"),
        call("l2", boom),
        time.sleep(0.5),
        call("l2", lambda work: work.attempt),
        call("l3", lambda work: odd(work)),
        call("l4", doubt),
        call("l4", doubt),
        acts,
    ]


def functions(db):
    def run(function):
        def called():
            with db.connection() as connection:
                return function(Idem(connection))

        return told(called)

    def begin(**options):
        ticket = run(lambda idem: idem.begin("f1", scope="fake", lease="30 s", **options))
        fences.append(ticket.fence)
        return ticket.outcome, ticket.attempt, ticket.steps, ticket.response, ticket.is_mine

    fences = []
    start = [begin(owner="a"), begin(owner="a"), begin(owner="b")]
    fence = fences[0]

    def undone(idem):
        idem.claim("f4", scope="fake")
        raise ZeroDivisionError

    def step(*args):
        return run(lambda idem: idem.step("f1", fence, "s", *args, scope="fake"))

    def short(owner):
        return run(lambda idem: idem.begin("f6", scope="fake", lease="400 ms", owner=owner))

    taken = [short("a"), time.sleep(0.5), short("a"), short("b"), time.sleep(0.5), short("b")]
    return start + [
        [(ticket.outcome, ticket.attempt) for ticket in taken if ticket], taken[2].fence == taken[0].fence, taken[5].fence > taken[0].fence,
        run(lambda idem: idem.step("f6", taken[0].fence, "s", scope="fake")),
        fences[1] == fence,
        run(lambda idem: idem.step("f1", fence, "before", 1, scope="fake")), step(), step({"a": 1}), step({"a": 1}), step({"a": 2}), step(),
        run(lambda idem: idem.complete("f1", scope="fake", fence=fence + 1)),
        run(lambda idem: idem.release("f1", fence, scope="fake")),
        run(lambda idem: idem.renew("f1", fence, scope="fake")),
        begin(owner="b"),
        run(lambda idem: idem.lookup("f1", scope="fake").state),
        run(lambda idem: idem.lookup("f2", scope="fake")),
        run(lambda idem: idem.claim("f3", scope="fake")), run(lambda idem: idem.claim("f3", scope="fake")),
        run(lambda idem: idem.must_claim("f3", scope="fake")), run(lambda idem: idem.try_claim("f3", scope="fake")),
        run(undone), run(lambda idem: idem.claim_many(["f4", "f4", "f3", "f5"], scope="fake")),
    ]  # fmt: skip


def middleware(db):
    ran, answers = [], []

    def app(environ, start_response):
        ran.append(1)
        if environ["QUERY_STRING"]:
            boom()
        start_response("201 Created", [("Content-Type", "application/json"), ("Set-Cookie", "s=1"), ("Location", "/1")])
        return [b'{"ran":%d}' % len(ran)]

    quiet = mock.Mock()
    apps = {lease: WsgiMiddleware(app, pool=db, scope=lambda request: "fake http", logger=quiet, **({"lease": lease} if lease else {})) for lease in (None, "30 s")}

    def post(lease, key, query="", method="POST", body=b""):
        head = []
        environ = {"REQUEST_METHOD": method, "PATH_INFO": f"/{lease}", "QUERY_STRING": query, "SERVER_NAME": "x", "SERVER_PORT": "80",
                   "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(), "CONTENT_LENGTH": str(len(body))}  # fmt: skip
        if key is not None:
            environ["HTTP_IDEMPOTENCY_KEY"] = key
        body = b"".join(apps[lease](environ, lambda status, headers, *_: head.extend((status, {name.lower(): value for name, value in headers}))))
        is_own = head[1]["content-type"] == "application/problem+json"
        shown = [head[1].get(name) for name in ("set-cookie", "location", "idempotent-replayed", "retry-after")]
        return head[0][:3], shown, json.loads(body)["code"] if is_own else body

    for case in (
        (None, "a"), (None, '"a"'), (None, "a", "", "POST", b"{}"), (None, None), (None, "a, b"), (None, '"'), (None, None, "", "PUT"),
        (None, "b", "fails"), (None, "b", "fails"), ("30 s", "c"), ("30 s", "c"), ("30 s", "d", "fails"), ("30 s", "d", "fails"),
    ):  # fmt: skip
        answers.append(told(lambda: post(*case)))
    return answers


async def later(db):
    async def work(held):
        return await held.step("s", lambda gate: {"key": gate.key})

    async def claims(run):
        return [await run.idem.claim("later inner", scope="fake"), await run.idem.claim("later inner", scope="fake")]

    return [await async_once(db, "a1", claims, **QUICK) for _ in range(2)] + [await async_leased(db, "a2", work, **QUICK) for _ in range(2)]


async def later_on_both():
    async with AsyncConnectionPool("", kwargs=PLAIN, open=False) as pool:
        return await later(async_fake_database()), await later(pool)


def run():
    with ConnectionPool("", kwargs=PLAIN) as pool:
        for scenario in (runs_once, leases, functions, middleware):
            same(f"fake: {scenario.__name__}: the fake does what PostgreSQL does", scenario(fake_database()), scenario(pool))
    same("fake: in an event loop, too", *asyncio.run(later_on_both()))
    own()
    readme()


def readme():
    """The test that the README shows passes."""
    path = os.path.join(os.path.dirname(__file__), "../../../integrations/python/README.md")
    blocks = re.findall(r"^```python\n(.*?)^```$", open(path).read(), re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "fake_database" in block]
    names = {}
    exec(block, names)
    same("fake: the test of the README", [told(test) for name, test in names.items() if name.startswith("test_")], [None])


def own():
    """What the fake says of itself."""
    client, kept = mock.Mock(), []
    client.execute.return_value = [7]
    db = fake_database(client=client)

    def work(call):
        kept.append(call.connection)
        with db.connection() as other:
            same("fake: a key in use is in flight at once", told(lambda: Idem(other).claim("k", scope="fake")), ("InFlight", "ID005"))
        return call.connection.execute("INSERT")[0]

    done = once(db, "k", work, **QUICK)
    same("fake: the work gets the client", (done.value, done.replayed, client.execute.call_args.args), (7, False, ("INSERT",)))
    same("fake: a handle is dead after its transaction", told(lambda: kept[0].execute("INSERT")), ("TransactionOver", None))
    db.clear()
    same("fake: clear() forgets", once(db, "k", lambda run: 8, **QUICK).value, 8)
    same("fake: a function that it does not have", told(lambda: Idem(db.getconn()).allow("rate", 1, "1 s")), ("NotImplementedError", None))
    same("fake: without a client", told(lambda: once(fake_database(), "k", lambda run: run.connection.execute("INSERT"), **QUICK)), ("AttributeError", None))
