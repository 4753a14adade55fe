"""What the middleware promises, one request at a time, beyond what the conformance suite tests."""

import asyncio
import itertools
import json
import os

import psycopg
from http_client import Cut, send
from tap import same

_numbers = itertools.count(1_000_000)


class Cases:
    def __init__(self, name, server, rows):
        self.name, self.server, self.rows = name, server, rows

    async def post(self, path="/orders", key=None, body=None, headers=(), cut_after=None, method="POST", missing=0):
        keys = [] if key is None else [("Idempotency-Key", value) for value in ([key] if isinstance(key, str) else key)]
        return await send(self.server.port, method, path, [*keys, *headers], body, cut_after, missing)

    def order(self, **more):
        number = next(_numbers)
        return number, json.dumps({"number": number, **more}).encode()

    def problem(self, case, answer, status, code):
        """Status, media type and code."""
        try:
            got = (answer.status, answer.headers.get("content-type"), json.loads(answer.body).get("code"))
        except ValueError:
            got = answer
        same(f"{self.name}: {case}: {status}", got, (status, "application/problem+json", code))

    def count(self, case, number, expected):
        same(f"{self.name}: {case}", self.rows().get(number, 0), expected)

    async def all(self):
        await self.queries()
        await self.replays()
        await self.failures()
        await self.streams()
        await self.requests()
        await self.truncated()

    async def queries(self):
        body = self.order()[1]
        await self.post(key='"query"', body=body)
        self.problem("the key with another query", await self.post("/orders?x=1", key='"query"', body=body), 422, "mismatch")

    async def replays(self):
        for kind, status in (("json", 201), ("pdf", 200), ("empty", 204)):
            number, body = self.order(kind=kind)
            first = await self.post(key=f"replay-{kind}", body=body)
            again = await self.post(key=f'"replay-{kind}"', body=body)
            names = ("content-type", "content-encoding", "location", "content-length")
            show = lambda answer: (answer.status, answer.body, [answer.headers.get(name) for name in names])  # noqa: E731
            same(f"{self.name}: {kind}: a replay is the response, byte for byte", show(again), show(first))
            same(f"{self.name}: {kind}: status", first.status, status)
            same(f"{self.name}: {kind}: only the replay says so", [a.headers.get("idempotent-replayed") for a in (first, again)], [None, "true"])
            self.count(f"{kind}: one row", number, 1)

    async def failures(self):
        async def twice(how):
            number, body = self.order()
            key = f"fail-{how}"
            answers = [await self.post(f"/fail/{how}", key, body) for _ in range(2)]
            return number, answers

        number, answers = await twice("402")
        same(f"{self.name}: a declined card is stored and replayed", [(a.status, a.headers.get("idempotent-replayed")) for a in answers], [(402, None), (402, "true")])
        self.count("its rows are committed", number, 1)
        number, answers = await twice("503")
        same(f"{self.name}: a returned 503 is a response as others", [(a.status, a.headers.get("idempotent-replayed")) for a in answers], [(503, None), (503, "true")])
        self.count("its rows are committed, too", number, 1)
        number, answers = await twice("410")
        same(f"{self.name}: an exception of one of store_errors is stored", [(a.status, a.headers.get("idempotent-replayed")) for a in answers], [(410, None), (410, "true")])
        self.count("with its rows", number, 1)
        for how, status in (("not-found", 404), ("exception", 500), ("broken", 500), ("swallow-200", 500), ("swallow-409", 409)):
            number, answers = await twice(how)
            same(f"{self.name}: {how}: rolled back, the repetition runs", [(a.status, a.headers.get("idempotent-replayed")) for a in answers], [(status, None)] * 2)
            self.count(f"{how}: no rows", number, 0)
        for how, code in (("deadlock", "serialization_failure"), ("lost", "unavailable")):
            number, answers = await twice(how)
            self.problem(how, answers[1], 503, code)
            same(f"{self.name}: {how}: Retry-After", answers[1].headers.get("retry-after"), "1")
            self.count(f"{how}: no rows", number, 0)
        number, body = self.order()
        same(f"{self.name}: and the server goes on", (await self.post(key="fail-not", body=body)).status, 201)

    async def streams(self):
        number, body = self.order()
        self.problem("/events is refused", await self.post("/events", "stream/events", body), 500, "streamed")
        same(f"{self.name}: a route that is left out may stream", (await self.post("/free", body=b"")).body, b"onetwothree")
        for path, whole in (("/stream", b"onetwothree"), ("/file", b"x" * 300_000)):
            answers = [await self.post(path, f"stream{path}", body) for _ in range(2)]
            same(f"{self.name}: {path}: several chunks are stored and replayed whole", [(a.status, a.body == whole, a.headers.get("idempotent-replayed")) for a in answers], [(200, True, None), (200, True, "true")])
        self.problem("a compressed response", await self.post(key="encoded", body=self.order(kind="gzip")[1]), 500, "response_encoded")
        if self.can_omit():
            answers = [await self.post("/huge", "stream/huge", body) for _ in range(2)]
            same(f"{self.name}: over max_response: sent whole, and not stored", [(a.status, len(a.body), a.headers.get("idempotent-replayed")) for a in answers], [(200, 3_000_000, None), (200, 0, "true")])

    @staticmethod
    def can_omit():
        """Whether this edition's idem_http_complete has `omit`."""
        with psycopg.connect(os.environ["IDEM_DIRECT"]) as db:
            return db.execute("SELECT 'omit' = ANY (proargnames) FROM pg_proc WHERE proname = 'idem_http_complete'").fetchone()[0]

    async def requests(self):
        number, body = self.order(note="x" * 200_000)
        self.problem("a large body", await self.post(key="large", body=body), 413, "body_too_large")
        self.problem("no authentication", await self.post(key="auth", body=body[:50], headers=[("Authorization", "")]), 401, None)
        self.problem("an empty scope", await self.post(key="nobody", body=b"{}", headers=[("Authorization", "nobody")]), 500, "internal")
        unknown = [await self.post("/unknown", key="unknown", body=body[:50]) for _ in range(2)]
        same(f"{self.name}: an unknown route stores nothing", [(a.status, a.headers.get("idempotent-replayed")) for a in unknown], [(404, None)] * 2)
        same(f"{self.name}: GET is not looked at", (await self.post("/orders", body=b"", method="GET")).status, 200)

    async def truncated(self):
        """A server may answer a client that is gone, or end the connection."""
        number, body = self.order()
        whole = body + b" " * 18
        try:
            status = (await self.post(key="truncated", body=body, missing=18)).status
        except Cut:
            status = 400
        same(f"{self.name}: a truncated body: 400", status, 400)
        self.count("a truncated body has no effect", number, 0)
        answer = await self.post(key="truncated", body=whole)
        same(f"{self.name}: the whole body then runs", (answer.status, answer.headers.get("idempotent-replayed")), (201, None))
        self.count("its row", number, 1)

    async def leased(self):
        number, body = self.order(slow=0.5)
        first = asyncio.create_task(self.post("/payments", "leased-1", body))
        while self.server_is_idle(first):
            await asyncio.sleep(0.1)
            second = await self.post("/payments", "leased-1", body)
            if second.status == 409:
                break
        self.problem("leased: the key is being processed", second, 409, "in_flight")
        first = await first
        again = await self.post("/payments", "leased-1", body)
        same(f"{self.name}: leased: a replay", (again.status, again.body), (first.status, first.body))
        self.count("leased: one row", number, 1)
        number, body = self.order(slow=7)
        first = asyncio.create_task(self.post("/payments", "leased-2", body))
        while not first.done():
            await asyncio.sleep(0.5)
            second = await self.post("/payments", "leased-2", body)
        same(f"{self.name}: leased: a heartbeat renews the lease", (await first).status, 201)
        self.count("leased: nobody took over", number, 1)

    @staticmethod
    def server_is_idle(task):
        return not task.done()
