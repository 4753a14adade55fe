"""once and leased of the package's root, on a blocking and an asynchronous pool."""

import asyncio
import concurrent.futures
import threading
import time

import psycopg
from idem_postgres import Idem, async_leased, async_once, fate, leased, once
from idem_postgres.result import decoded, encoded

from tap import same


def connect():
    return psycopg.connect("", prepare_threshold=None)


async def connect_later():
    return await psycopg.AsyncConnection.connect("", prepare_threshold=None)


def error_of(function):
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def lookup(key, scope="work"):
    with connect() as connection:
        return Idem(connection).lookup(key, scope=scope)


def run(rows):
    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # which has no event loop
        for test in (results, once_calls, onces_later, leases, steps, unstored, writes, leases_later):
            thread.submit(test).result()
    same("work: the rows, each once", {number: count for number, count in rows().items() if 700 <= number < 800}, {700: 1, 701: 1, 702: 1, 703: 1, 704: 1})


def insert(number, output=None):
    def work(run):
        run.connection.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
        return output

    return work


def results():
    odd = ("a\0b", "\ud800", {"$base64": "eyJh"}, {"$base64": "x", "b": 1}, [{"k\0": "\udfff"}], "\\u0000", None, {}, {"n": 1.5})
    same("work: a value that jsonb refuses is stored as one marked member", encoded("a\0b"), {"$base64": "ImFcdTAwMDBiIg=="})
    same("work: each value is read as it was", [decoded(encoded(value)) for value in odd], list(odd))
    got = [once(connect, f"odd {number}", lambda run, value=value: value, scope="work") for number, value in enumerate(odd) for _ in range(2)]
    same("work: and replayed so", [(done.value, done.replayed) for done in got], [(value, is_replay) for value in odd for is_replay in (False, True)])


def once_calls():
    show = lambda done: (done.value, done.replayed, done.omitted, done.stored)  # noqa: E731
    got = [show(once(connect, "o1", insert(700, {"order": 1}), scope="work", fingerprint=b"1")) for _ in range(2)]
    same("work: once, and its replay", got, [({"order": 1}, False, False, True), ({"order": 1}, True, False, True)])
    same("work: another fingerprint", error_of(lambda: once(connect, "o1", insert(799), scope="work", fingerprint=b"2")), "Mismatch")

    def raising(run):
        insert(798)(run)
        raise ValueError

    same("work: work that raises is rolled back", error_of(lambda: once(connect, "o2", raising, scope="work")), "ValueError")
    signal = threading.Event()
    signal.set()
    same("work: a caller that has given up", error_of(lambda: once(connect, "o2", insert(798), scope="work", signal=signal)), "Aborted")
    attempts = []

    def deadlock(run):
        attempts.append(1)
        if len(attempts) < 3:
            run.connection.execute("DO $$ BEGIN RAISE 'two met' USING ERRCODE = '40P01'; END $$")
        return insert(701)(run)

    same("work: a deadlock repeats the transaction", (show(once(connect, "o2", deadlock, scope="work"))[1:], len(attempts)), ((False, False, True), 3))
    with connect() as other:
        Idem(other).begin("o3", scope="work")
        same("work: another caller is working on it", error_of(lambda: once(connect, "o3", insert(799), scope="work", wait="100 ms")), "InFlight")
    same("work: numbers are no durations", [error_of(lambda: once(connect, "o4", insert(799), scope="work", **{name: 30})) for name in ("wait", "ttl")], ["TypeError"] * 2)
    lost_commits()


class Lossy:
    """psycopg.connect whose first COMMIT loses its connection, after it has committed, or before; or whose server is then gone."""

    def __init__(self, is_committed, is_gone=False):
        self.is_committed, self.is_gone, self.is_first = is_committed, is_gone, True

    def __call__(self):
        if not self.is_first and self.is_gone:
            raise psycopg.OperationalError("no route to host")
        connection = connect()
        if self.is_first:
            self.is_first = False
            transaction = connection.transaction
            connection.transaction = lambda *args: LossyTransaction(transaction(*args), connection, self.is_committed)
        return connection


class LossyTransaction:
    def __init__(self, transaction, connection, is_committed):
        self.transaction, self.connection, self.is_committed = transaction, connection, is_committed

    def __enter__(self):
        return self.transaction.__enter__()

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            return self.transaction.__exit__(kind, error, traceback)
        if self.is_committed:
            self.transaction.__exit__(None, None, None)
        self.connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def lost_commits():
    got = [once(Lossy(is_committed), f"lost {is_committed}", insert(number, number), scope="work") for is_committed, number in ((True, 702), (False, 703))]
    same("work: a COMMIT that was lost and done is a replay, one that was not done is repeated", [(done.value, done.replayed) for done in got], [(702, True), (703, False)])
    same("work: a COMMIT of which nobody can tell", error_of(lambda: once(Lossy(False, True), "lost", insert(797), scope="work", attempts=2)), "CommitUnknown")


def onces_later():
    async def work(run):
        await run.connection.execute("SELECT 1")
        return run.key

    async def twice():
        return [(done.value, done.replayed) for done in [await async_once(connect_later, "later", work, scope="work") for _ in range(2)]]

    same("work: once in an event loop", asyncio.run(twice()), [("later", False), ("later", True)])


def leases():
    seen = []

    def charge(w):
        charged = w.step("charge", lambda gate: seen.append((gate.key, gate.fence == w.fence)) or {"id": "ch_17"})
        return {"charged": charged["id"], "attempt": w.attempt}

    got = [(done.value, done.replayed) for done in [leased(connect, "l1", charge, scope="work") for _ in range(2)]]
    same("work: leased, and its replay", (got, seen), ([({"charged": "ch_17", "attempt": 1}, False), ({"charged": "ch_17", "attempt": 1}, True)], [("work/l1/charge", True)]))

    def fails(w):
        charge(w)
        raise ValueError

    seen.clear()
    same("work: work that raises releases the key", (error_of(lambda: leased(connect, "l2", fails, scope="work")), lookup("l2").state), ("ValueError", "released"))
    done = leased(connect, "l2", charge, scope="work")
    same("work: the next attempt does not repeat the step", (done.value, len(seen)), ({"charged": "ch_17", "attempt": 2}, 1))
    same("work: on_error keep", (error_of(lambda: leased(connect, "l3", fails, scope="work", on_error="keep")), lookup("l3").state), ("ValueError", "in_progress"))
    same("work: the key is kept until its lease ends", error_of(lambda: leased(connect, "l3", charge, scope="work", wait="100 ms")), "InFlight")

    def slow(w):
        time.sleep(4)
        return w.signal.is_set()

    same("work: a lease is renewed", leased(connect, "l4", slow, scope="work", lease="3 s").value, False)

    def taken_over(w):
        with connect() as connection:
            Idem(connection).release("l5", w.fence, scope="work")
            Idem(connection).begin("l5", lease="1 min", scope="work")
        w.signal.wait(5)
        return 1

    same("work: a lease that was taken over", error_of(lambda: leased(connect, "l5", taken_over, scope="work", lease="3 s")), "LeaseLost")


def steps():
    """An earlier attempt has begun a step, and died."""
    acts = []

    def attempt(key, reconcile):
        with connect() as connection:
            fence = Idem(connection).begin(key, lease="1 min", scope="work").fence
            Idem(connection).step(key, fence, "charge", scope="work")
            Idem(connection).release(key, fence, scope="work")
        act = lambda gate: acts.append(key) or {"id": 1}  # noqa: E731
        return leased(connect, key, lambda w: w.step("charge", act, reconcile), scope="work").value

    same("work: reconcile finds it done", attempt("s1", lambda gate: fate.done({"id": 2})), {"id": 2})
    same("work: or not done", attempt("s2", lambda gate: fate.not_done()), {"id": 1})
    same("work: unknown: the key is kept", (error_of(lambda: attempt("s3", lambda gate: fate.unknown())), lookup("s3", "work").state), ("InDoubt", "in_progress"))
    same("work: without reconcile the act is repeated", attempt("s4", None), {"id": 1})
    same("work: each act", acts, ["s2", "s4"])


def unstored():
    """The act has happened, and its output cannot be stored: a release would repeat it."""
    for key, output in (("u1", {"big": "x" * 3_000_000}), ("u2", object()), ("u3", float("nan"))):
        got = error_of(lambda: leased(connect, key, lambda w: w.step("charge", lambda gate: output), scope="work"))
        same(f"work: an output that cannot be stored keeps the key: {key}", (got, lookup(key).state), ("ResultNotStored", "in_progress"))
    odd = leased(connect, "u4", lambda w: w.step("charge", lambda gate: "a\0b"), scope="work")
    same("work: one that jsonb refuses is stored", (odd.value, leased(connect, "u4", None, scope="work").value), ("a\0b", "a\0b"))
    same("work: a result that is not JSON", error_of(lambda: leased(connect, "u5", lambda w: object(), scope="work")), "ResultNotStored")


def writes():
    def work(w):
        w.write("book", insert(704, {"order": 704}))
        if w.attempt == 1:
            raise ValueError
        return w.steps["book"]

    same("work: rows and output in one COMMIT", error_of(lambda: leased(connect, "w1", work, scope="work")), "ValueError")
    same("work: the next attempt finds them", leased(connect, "w1", work, scope="work").value, {"order": 704})


def leases_later():
    async def act(gate):
        return {"key": gate.key}

    async def work(w):
        await w.write("book", lambda run: {"n": 1})
        return await w.step("charge", act)

    async def twice():
        return [(done.value, done.replayed) for done in [await async_leased(connect_later, "later", work, scope="leased") for _ in range(2)]]

    same("work: leased in an event loop", asyncio.run(twice()), [({"key": "leased/later/charge"}, False), ({"key": "leased/later/charge"}, True)])
