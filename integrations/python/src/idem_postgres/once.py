"""Work that is done once for a key, in the transaction that claims it: docs/keys.md."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .call import Json
from .calls import keys
from .errors import CommitUnknown, InDoubt, InFlight, Mismatch, is_connection_loss, is_retryable, is_unavailable
from .interval import Interval, interval_seconds
from .pool import LOOKUPS, Pool, blocking_pool, finish, rollback, settled
from .result import decoded, encoded
from .run import AsyncRun, Run, as_current, make_run


class Signal(Protocol):
    """A `threading.Event` or `asyncio.Event` by which the caller gives up."""

    def is_set(self) -> bool: ...


class Aborted(Exception):
    """The caller's signal was set. Nothing was done."""


@dataclass(frozen=True)
class Done:
    """What the work has returned, now or at its first call."""

    value: Json
    replayed: bool
    """An earlier call has done the work."""
    omitted: bool
    """The value was too large to be stored: of a replay it is None."""
    stored: bool


def once(
    pool: Any,
    key: str,
    work: Callable[[Run], Json],
    *,
    scope: str,
    fingerprint: bytes | None = None,
    ttl: Interval | None = None,
    wait: Interval = "10 s",
    signal: Signal | None = None,
    attempts: int = 4,
    schema: str = "idem",
) -> Done:
    """Calls `work` in a transaction with the claim of the key, and commits what it returns, JSON, with its rows. `work` is
    given a `Run` with `connection`, `idem`, `key` and `scope`. A later call returns the stored result.

    Raises InFlight after `wait`, Mismatch, InDoubt, CommitUnknown, and what `work` raises, after the rollback. A deadlock or a
    serialization failure repeats the transaction, and so does a lost COMMIT: the key tells what became of it.
    """
    source = blocking_pool(pool, schema, "use async_once")
    return finish(_once(source, key, work, scope, fingerprint, ttl, wait, signal, attempts))


async def async_once(
    pool: Any,
    key: str,
    work: Callable[[AsyncRun], Json | Awaitable[Json]],
    *,
    scope: str,
    fingerprint: bytes | None = None,
    ttl: Interval | None = None,
    wait: Interval = "10 s",
    signal: Signal | None = None,
    attempts: int = 4,
    schema: str = "idem",
) -> Done:
    """As `once`, in an event loop. `work` may be a coroutine."""
    source = Pool(pool, schema, in_loop=True)
    return await _once(source, key, work, scope, fingerprint, ttl, wait, signal, attempts)


async def _once(
    pool: Pool,
    key: str,
    work: Callable[[Any], Any],
    scope: str,
    fingerprint: bytes | None,
    ttl: Interval | None,
    wait: Interval,
    signal: Signal | None,
    attempts: int,
) -> Done:
    until = time.monotonic() + interval_seconds("wait", wait)
    begin = keys.begin(key, fingerprint=fingerprint, ttl=ttl, scope=scope)
    loss: Exception | None = None  # of a COMMIT: the next claim tells what became of it
    for attempt in range(1, attempts + 1):
        stage = Stage()
        try:
            return await _waited(pool, until, lambda: _attempt(pool, begin, work, key, scope, signal, stage), stage, signal)
        except Exception as error:
            if stage.name == "commit" and is_connection_loss(error):
                loss = error
            is_known = isinstance(error, (InFlight, Mismatch, InDoubt, Aborted)) or stage.name == "work" and not is_retryable(error)
            can_repeat = is_retryable(error) or is_unavailable(error) or loss is not None
            if is_known or loss is None and (attempt == attempts or not can_repeat):
                raise
        await pool.sleep(0.02 * attempt * random.random() if loss is None else LOOKUPS[min(attempt - 1, 2)])
    raise CommitUnknown(f'the connection was lost in the COMMIT of key "{key}"') from loss


class Stage:
    name = "begin"


async def _waited(pool: Pool, until: float, attempt: Callable[[], Awaitable[Done]], stage: Stage, signal: Signal | None) -> Done:
    """While another caller works on the key, the attempt is repeated: a caller that waits holds no connection."""
    pause = 0.02
    while True:
        try:
            return await attempt()
        except InFlight as error:
            left = until - time.monotonic()
            if stage.name != "begin" or left <= 0:
                raise
            retry_after = left if error.retry_after_ms is None else error.retry_after_ms / 1000
            await pool.sleep(max(0.001, min(left, pause * random.uniform(0.5, 1), retry_after)))
            pause = min(pause * 2, 0.25)
            refuse_aborted(signal)


async def _attempt(
    pool: Pool, begin: Any, work: Callable[[Any], Any], key: str, scope: str, signal: Signal | None, stage: Stage
) -> Done:
    async with pool.session() as session:
        try:
            await session.begin()
            run = make_run(pool, scope=scope, key=key, raw_connection=session.connection)
            try:
                ticket = await session.run(begin)
                if not ticket.is_mine:
                    if ticket.outcome != "in_doubt":
                        await rollback(session)
                    else:
                        await session.commit()  # the call that reports the doubt records it
                    return known(ticket, key)
                refuse_aborted(signal)
                stage.name = "work"
                with as_current(run):
                    value = await settled(work(run))
                run.life.is_over = True
                refuse_aborted(signal)
                stored = await session.run(keys.complete(key, encoded(value), scope=scope))
                stage.name = "commit"
            except BaseException:
                run.life.is_over = True
                await rollback(session)
                raise
            await session.commit()
        except Exception as error:
            raise pool.lost(session, error)
    return Done(value, False, not stored, stored)


def known(ticket: keys.Ticket, key: str) -> Done:
    """The result of an earlier call, or why there is none."""
    match ticket.outcome:
        case "completed":
            return Done(decoded(ticket.response), True, ticket.response_omitted, not ticket.response_omitted)
        case "in_flight":
            raise InFlight(f'another caller is working on key "{key}"', ticket.retry_after_ms)
        case "mismatch":
            raise Mismatch(f'key "{key}" was used with another fingerprint')
    unknown = [name for name, output in (ticket.steps or {}).items() if output is None]
    raise InDoubt(f'key "{key}" is in doubt: an operator must decide', unknown[0] if unknown else None)


def refuse_aborted(signal: Signal | None) -> None:
    if signal is not None and signal.is_set():
        raise Aborted("the caller has given up")
