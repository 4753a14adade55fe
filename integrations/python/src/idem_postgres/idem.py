"""idem's functions on a connection, in the transaction that the application has begun there."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec

from .call import Call, T
from .calls import http, ids, keys, locks, outbox, requests, rows, tokens
from .sessions import async_session, blocking_session

P = ParamSpec("P")


def _blocking(make: Callable[P, Call[T]]) -> Callable[Concatenate[Idem, P], T]:
    @functools.wraps(make)
    def method(self: Idem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(make(*args, **kwargs))

    return method


def _awaitable(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncIdem, P], Awaitable[T]]:
    @functools.wraps(make)
    async def method(self: AsyncIdem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(make(*args, **kwargs))

    return method


class Idem:
    """On a connection of psycopg or psycopg2, a Connection or Session of SQLAlchemy, or Django's `connection`.

    Nothing is begun or committed. Errors of idem are `IdemError`; all others are the driver's own.
    """

    def __init__(self, connection: Any, *, schema: str = "idem") -> None:
        session = blocking_session(connection, schema)
        if session is None:
            advice = ", which is asynchronous: use AsyncIdem" if async_session(connection, schema) else ""
            raise TypeError(f"Idem does not know connections of type {type(connection).__qualname__}{advice}")
        self._session = session

    def run(self, call: Call[T]) -> T:
        """A call of `idem_postgres.calls`."""
        return self._session.run(call)

    claim = _blocking(keys.claim)
    must_claim = _blocking(keys.must_claim)
    try_claim = _blocking(keys.try_claim)
    claim_many = _blocking(keys.claim_many)
    begin = _blocking(keys.begin)
    complete = _blocking(keys.complete)
    step = _blocking(keys.step)
    renew = _blocking(keys.renew)
    release = _blocking(keys.release)
    lookup = _blocking(keys.lookup)
    execute = _blocking(keys.execute)
    lock = _blocking(locks.lock)
    lock_renew = _blocking(locks.lock_renew)
    unlock = _blocking(locks.unlock)
    assert_fence = _blocking(locks.assert_fence)
    issue_token = _blocking(tokens.issue_token)
    redeem_token = _blocking(tokens.redeem_token)
    publish = _blocking(outbox.publish)
    take = _blocking(outbox.take)
    ack = _blocking(outbox.ack)
    nack = _blocking(outbox.nack)
    consume = _blocking(outbox.consume)
    optimistic_update = _blocking(rows.optimistic_update)
    conditional_update = _blocking(rows.conditional_update)
    conditional_adjust = _blocking(rows.conditional_adjust)
    pessimistic_lock = _blocking(rows.pessimistic_lock)
    pessimistic_lock_many = _blocking(rows.pessimistic_lock_many)
    unique_insert = _blocking(rows.unique_insert)
    guarded_insert = _blocking(rows.guarded_insert)
    transition = _blocking(rows.transition)
    next_id = _blocking(ids.next_id)
    is_owner = _blocking(keys.is_owner)
    serialize = _blocking(keys.serialize)
    hit = _blocking(keys.hit)
    allow = _blocking(requests.allow)
    verify_request = _blocking(requests.verify_request)
    webhook_receive = _blocking(requests.webhook_receive)
    publish_many = _blocking(outbox.publish_many)
    outbox_renew = _blocking(outbox.outbox_renew)
    http_begin = _blocking(http.http_begin)
    http_complete = _blocking(http.http_complete)
    http_key = _blocking(http.http_key)


class AsyncIdem:
    """As `Idem`, on an AsyncConnection of psycopg, a connection of asyncpg, or an AsyncConnection or AsyncSession of
    SQLAlchemy."""

    def __init__(self, connection: Any, *, schema: str = "idem") -> None:
        session = async_session(connection, schema)
        if session is None:
            advice = ", which is blocking: use Idem" if blocking_session(connection, schema) else ""
            raise TypeError(f"AsyncIdem does not know connections of type {type(connection).__qualname__}{advice}")
        self._session = session

    async def run(self, call: Call[T]) -> T:
        """A call of `idem_postgres.calls`."""
        return await self._session.run(call)

    claim = _awaitable(keys.claim)
    must_claim = _awaitable(keys.must_claim)
    try_claim = _awaitable(keys.try_claim)
    claim_many = _awaitable(keys.claim_many)
    begin = _awaitable(keys.begin)
    complete = _awaitable(keys.complete)
    step = _awaitable(keys.step)
    renew = _awaitable(keys.renew)
    release = _awaitable(keys.release)
    lookup = _awaitable(keys.lookup)
    execute = _awaitable(keys.execute)
    lock = _awaitable(locks.lock)
    lock_renew = _awaitable(locks.lock_renew)
    unlock = _awaitable(locks.unlock)
    assert_fence = _awaitable(locks.assert_fence)
    issue_token = _awaitable(tokens.issue_token)
    redeem_token = _awaitable(tokens.redeem_token)
    publish = _awaitable(outbox.publish)
    take = _awaitable(outbox.take)
    ack = _awaitable(outbox.ack)
    nack = _awaitable(outbox.nack)
    consume = _awaitable(outbox.consume)
    optimistic_update = _awaitable(rows.optimistic_update)
    conditional_update = _awaitable(rows.conditional_update)
    conditional_adjust = _awaitable(rows.conditional_adjust)
    pessimistic_lock = _awaitable(rows.pessimistic_lock)
    pessimistic_lock_many = _awaitable(rows.pessimistic_lock_many)
    unique_insert = _awaitable(rows.unique_insert)
    guarded_insert = _awaitable(rows.guarded_insert)
    transition = _awaitable(rows.transition)
    next_id = _awaitable(ids.next_id)
    is_owner = _awaitable(keys.is_owner)
    serialize = _awaitable(keys.serialize)
    hit = _awaitable(keys.hit)
    allow = _awaitable(requests.allow)
    verify_request = _awaitable(requests.verify_request)
    webhook_receive = _awaitable(requests.webhook_receive)
    publish_many = _awaitable(outbox.publish_many)
    outbox_renew = _awaitable(outbox.outbox_renew)
    http_begin = _awaitable(http.http_begin)
    http_complete = _awaitable(http.http_complete)
    http_key = _awaitable(http.http_key)
