"""idem's functions with types, on every driver: what goes in, what comes out, and the errors."""

import asyncio
import contextlib
import datetime
import decimal
import inspect
import os
import time
import uuid

import psycopg
from idem_postgres import Allowance, AsyncIdem, DoneBefore, Idem, InFlight, LockBusy, StaleFence, StaleVersion, TransitionNotAllowed, Webhook, async_lock, lock
from idem_postgres.pool import Pool

from tap import same

LONG = datetime.timedelta(minutes=5)
URL = "{PGUSER}@/{PGDATABASE}?host={PGHOST}&port={PGPORT}"


async def psycopg3():
    connection = psycopg.connect("", autocommit=True, prepare_threshold=None)
    return Idem(connection), lambda: psycopg.connect("", prepare_threshold=None), connection.close


async def psycopg3_async():
    async def connect():
        return await psycopg.AsyncConnection.connect("", autocommit=True, prepare_threshold=None)

    connection = await connect()
    return AsyncIdem(connection), connect, connection.close


async def psycopg2():
    import psycopg2

    connection = psycopg2.connect("")
    connection.autocommit = True
    return Idem(connection), lambda: psycopg2.connect(""), connection.close


async def asyncpg():
    import asyncpg

    async def connect():
        return await asyncpg.connect(
            host=os.environ["PGHOST"], user=os.environ["PGUSER"], database=os.environ["PGDATABASE"], port=os.environ["PGPORT"],
            statement_cache_size=0,
        )  # fmt: skip

    connection = await connect()
    return AsyncIdem(connection), connect, connection.close


async def sqlalchemy():
    from sqlalchemy import create_engine

    engine = create_engine("postgresql+psycopg2://", isolation_level="AUTOCOMMIT")
    connection = engine.connect()
    return Idem(connection), create_engine("postgresql+psycopg2://"), connection.close


async def sqlalchemy_async():
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine("postgresql+asyncpg://" + URL.format(**os.environ))
    connection = await engine.connect()
    await connection.execution_options(isolation_level="AUTOCOMMIT")
    return AsyncIdem(connection), engine, connection.close


async def django():
    import django_app  # noqa: F401 sets Django up
    from django.db import connection
    from idem_postgres.django import DjangoPool

    return Idem(connection), DjangoPool(), connection.close


DRIVERS = (psycopg3, psycopg3_async, psycopg2, asyncpg, sqlalchemy, sqlalchemy_async, django)


async def value(result):
    return await result if inspect.isawaitable(result) else result


async def raises(error, call):
    try:
        await value(call())
    except error as raised:
        return raised.sqlstate
    except Exception as other:
        return repr(other)
    return "nothing"


async def one(driver):
    idem, pool, close = await driver()
    name = driver.__name__
    unique = uuid.uuid4().hex

    async def is_same(case, result, expected):
        same(f"{name}: {case}", await value(result), expected)

    async def is_error(case, error, call):
        same(f"{name}: {case}", await raises(error, call), error.sqlstate)

    key = "claim " + unique
    await is_same("claim", idem.claim(key, ttl=LONG, scope="s%:\"'"), True)
    await is_same("claim again", idem.claim(key, scope="s%:\"'"), False)
    await is_same("must_claim", idem.must_claim("must " + unique), True)
    await is_error("must_claim again", DoneBefore, lambda: idem.must_claim("must " + unique))
    await is_same("try_claim", idem.try_claim("try " + unique, ttl="5 min"), "acquired")
    await is_same("try_claim again", idem.try_claim("try " + unique), "completed")
    await is_same("claim_many", idem.claim_many([unique + "b", "try " + unique, unique + "a"]), [unique + "b", unique + "a"])
    await is_same("claim_many of none", idem.claim_many([]), [])

    key = "begin " + unique
    ticket = await value(idem.begin(key, fingerprint=b"\x01\xff\x00", lease=LONG, owner="o1"))
    same(f"{name}: begin", (ticket.outcome, type(ticket.fence), ticket.attempt, ticket.is_mine), ("acquired", int, 1, True))
    await is_error("claim of a leased key", InFlight, lambda: idem.claim(key))
    other = await value(idem.begin(key, lease=LONG))
    same(f"{name}: in flight", (other.outcome, other.is_mine, other.retry_after_ms > 200_000), ("in_flight", False, True))
    await is_same("step intended", idem.step(key, ticket.fence, "charge"), True)
    await is_same("step done", idem.step(key, ticket.fence, "charge", {"charge": 'ch_"1"'}), True)
    info = await value(idem.lookup(key))
    same(f"{name}: lookup", (info.state, info.steps), ("in_progress", {"charge": {"charge": 'ch_"1"'}}))
    renewed = await value(idem.renew(key, ticket.fence, lease=LONG))
    same(f"{name}: renew", renewed > datetime.datetime.now(datetime.timezone.utc), True)
    await is_error("a stale fence", StaleFence, lambda: idem.complete(key, fence=1))
    response = {"text": "é%s:p1", "big": 9007199254740993, "list": [None, True, 1.5]}
    await is_same("complete", idem.complete(key, response, status_code=201, fence=ticket.fence), True)
    done = await value(idem.begin(key))
    same(f"{name}: completed", (done.outcome, done.status_code, done.response), ("completed", 201, response))
    ticket = await value(idem.begin("release " + unique, lease="1 min"))
    await is_same("release", idem.release("release " + unique, ticket.fence), True)
    await is_same("lookup of no key", idem.lookup("none " + unique), None)
    ticket = await value(idem.execute("execute " + unique, "SELECT $1::int + 1 AS n", [41]))
    same(f"{name}: execute", (ticket.outcome, ticket.response), ("acquired", [{"n": 42}]))

    fence = await value(idem.lock("lock " + unique, ttl=LONG))
    same(f"{name}: lock", type(fence), int)
    await is_same("lock busy", idem.lock("lock " + unique, wait=datetime.timedelta(0)), None)
    await is_same("lock_renew", idem.lock_renew("lock " + unique, fence, ttl=LONG), True)
    await is_same("unlock", idem.unlock("lock " + unique, fence), True)
    await is_same("unlock again", idem.unlock("lock " + unique, fence), False)

    token = await value(idem.issue_token("alice", ttl=LONG))
    await is_same("redeem of another's token", idem.redeem_token(token, "mallory"), "invalid")
    await is_same("redeem", idem.redeem_token(token, "alice"), "accepted")
    await is_same("redeem again", idem.redeem_token(token, "alice"), "duplicate")

    published = await value(idem.publish("topic " + unique, {"order": 1}, key="k", headers={"h": 1}))
    await value(idem.publish("topic " + unique, None, delay="1 us"))
    messages = await value(idem.take("topic " + unique, lease=LONG))
    same(f"{name}: take", [(m.payload, m.key, m.headers, m.attempt) for m in messages], [({"order": 1}, "k", {"h": 1}, 1), (None, None, None, 1)])
    same(f"{name}: an id is exact", (messages[0].id, type(published)), (published, int))
    await is_same("ack", idem.ack([messages[0].id], messages[0].fence), 1)
    await is_same("nack", idem.nack([messages[1].id], messages[1].fence, retry_after=LONG), 1)
    await is_same("consume", idem.consume("mailer", unique), True)
    await is_same("consume again", idem.consume("mailer", unique), False)

    number = int(unique[:6], 16)
    row = {"id": number, "name": "it's", "price": decimal.Decimal("12345678901234567.89"), "day": datetime.date(2026, 11, 25)}
    inserted = await value(idem.unique_insert("shop.item", row))
    same(f"{name}: unique_insert", (inserted.outcome, inserted.row["price"], inserted.row["day"]), ("inserted", row["price"], "2026-11-25"))
    await is_same("optimistic_update", _outcome(idem.optimistic_update("shop.item", {"id": number}, 1, {"name": "b"})), "updated")
    await is_same("optimistic_update, conflict", _outcome(idem.optimistic_update("shop.item", {"id": number}, 1, {"name": "c"})), "conflict")
    await is_same("conditional_update", _outcome(idem.conditional_update("shop.item", {"id": number}, {"name": "b"}, {"name": None})), "updated")
    adjusted = await value(idem.conditional_adjust("shop.item", {"id": number}, "price", decimal.Decimal("-0.89"), minimum="-infinity"))
    same(f"{name}: conditional_adjust", (adjusted.outcome, adjusted.value), ("adjusted", decimal.Decimal("12345678901234567.00")))
    await is_same("guarded_insert", _outcome(idem.guarded_insert("shop.item", row, ["id"])), "duplicate")
    await is_same("transition", _outcome(idem.transition("shop.item", {"id": number}, None, "paid")), "moved")
    await is_same("transition, again", _outcome(idem.transition("shop.item", {"id": number}, "created", "paid")), "already")
    await is_error("stale version", StaleVersion, lambda: idem.execute("v " + unique, f"UPDATE shop.item SET version = 1 WHERE id = {number}"))
    await is_error("no such transition", TransitionNotAllowed, lambda: idem.execute("t " + unique, f"UPDATE shop.item SET state = 'x' WHERE id = {number}"))
    same(f"{name}: next_id", type(await value(idem.next_id())), int)
    await is_same("hit", idem.hit("hits " + unique, ttl=LONG), 1)
    await is_same("hit again", idem.hit("hits " + unique), 2)
    await is_same("allow", idem.allow("rate " + unique, 0.001, 1), Allowance(True, 0, None))
    refused = await value(idem.allow("rate " + unique, 0.001, 1))
    same(f"{name}: allow, no room", (refused.allowed, refused.retry_after_ms > 0), (False, True))
    await is_same("is_owner", idem.is_owner("try " + unique, "nobody"), False)
    many = await value(idem.publish_many("many " + unique, [{"payload": {"n": 1}, "key": "k"}, {"payload": None, "delay": LONG}]))
    same(f"{name}: publish_many", [type(id) for id in many], [int, int])
    (message,) = await value(idem.take("many " + unique, lease=LONG))
    await is_same("outbox_renew", idem.outbox_renew([message.id], message.fence, lease=LONG), 1)
    now = datetime.datetime.now(datetime.timezone.utc)
    await is_same("verify_request", idem.verify_request({"a": 1}, "00" * 32, "nobody", now, unique), "invalid")
    await is_same("webhook_receive", idem.webhook_receive("nowhere", {"Webhook-Id": "1"}, b"{}"), Webhook("invalid", None))

    await locks(name, pool, unique)
    await in_transaction(name, pool, unique, number)
    await value(close())


async def _outcome(result):
    return (await value(result)).outcome


async def locks(name, pool, unique):
    """The lock with its heartbeat."""
    if Pool(pool).is_blocking:
        await asyncio.to_thread(blocking_lock, name, pool, unique)
    else:
        await async_locks(name, pool, unique)


def blocking_lock(name, pool, unique):
    with lock(pool, "held " + unique, ttl=LONG) as held:
        with contextlib.suppress(LockBusy), lock(pool, "held " + unique):
            same(f"{name}: a held lock is busy", "held", "busy")
        held.check()
    with lock(pool, "held " + unique, ttl=datetime.timedelta(seconds=3)) as again:
        same(f"{name}: an unlocked lock is free, and its fence greater", again.fence > held.fence, True)
        await_beat(name, again)


async def async_locks(name, pool, unique):
    async with async_lock(pool, "held " + unique, ttl=LONG) as held:
        with contextlib.suppress(LockBusy):
            async with async_lock(pool, "held " + unique):
                same(f"{name}: a held lock is busy", "held", "busy")
        held.check()
    async with async_lock(pool, "held " + unique, ttl=datetime.timedelta(seconds=3)) as again:
        same(f"{name}: an unlocked lock is free, and its fence greater", again.fence > held.fence, True)
        await asyncio.to_thread(await_beat, name, again)


def await_beat(name, held):
    """For half a minute at most: the machine may be busy."""
    first = lease_end(held)
    deadline = time.monotonic() + 30
    while lease_end(held) == first and time.monotonic() < deadline:
        time.sleep(0.1)
    same(f"{name}: a heartbeat renews it", lease_end(held) > first, True)


def lease_end(held):
    with psycopg.connect(os.environ["IDEM_DIRECT"]) as db:
        return db.execute("SELECT lease_until FROM idem.idem_locks WHERE key = %s", (held.name,)).fetchone()[0]


async def in_transaction(name, pool, unique, number):
    """Calls on a session's connection are in its transaction."""
    source = Pool(pool, in_loop=not Pool(pool).is_blocking)
    of = Idem if source.is_blocking else AsyncIdem
    async with source.session() as session:
        await session.begin()
        idem = of(session.connection)
        same(f"{name}: pessimistic_lock", (await value(idem.pessimistic_lock("shop.item", {"id": number}))).row["state"], "paid")
        many = await value(idem.pessimistic_lock_many("shop.item", [{"id": number}, {"id": -1}], wait="0 s"))
        same(f"{name}: pessimistic_lock_many", [result.outcome for result in many], ["locked", "not_found"])
        same(f"{name}: serialize", await value(idem.serialize("serial " + unique)), True)
        same(f"{name}: claim in a transaction", await value(idem.claim("rolled back " + unique)), True)
        await session.rollback()
    async with source.session() as session:
        await session.begin()
        same(f"{name}: after a rollback it is free", await value(of(session.connection).claim("rolled back " + unique)), True)
        await session.commit()


async def all_drivers():
    for driver in DRIVERS:
        if driver is django:
            # Django refuses its connection in the thread of an event loop.
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        await one(driver)
