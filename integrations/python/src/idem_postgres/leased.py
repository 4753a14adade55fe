"""Work outside of the database under a leased key, in steps that are not repeated: docs/leases.md."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from .call import Call, Json
from .calls import keys
from .errors import CommitUnknown, InDoubt, LeaseLost, ResultNotStored, StaleFence, is_connection_loss, is_retryable, is_unavailable
from .flight import claimed
from .heartbeat import Heartbeat, heartbeat
from .interval import Interval, interval_seconds, lease_seconds
from .once import Done, Signal, known, refuse_aborted
from .pool import LOOKUPS, Pool, blocking_pool, finish, rollback, settled
from .result import decoded, encoded
from .run import AsyncRun, Run, as_current, make_run

T = TypeVar("T")
_log = logging.getLogger("idem_postgres")
OnError = Literal["release", "keep"]


@dataclass(frozen=True)
class Fate:
    """What became of a step that an earlier attempt may have done. Make it by `fate`."""

    what: Literal["done", "not_done", "unknown"]
    output: Json = None


class fate:
    """`fate.done(output)`, `fate.not_done()`, `fate.unknown()`: what `reconcile` returns."""

    @staticmethod
    def done(output: Json = None) -> Fate:
        return Fate("done", output)

    @staticmethod
    def not_done() -> Fate:
        return Fate("not_done")

    @staticmethod
    def unknown() -> Fate:
        """The key is kept until an operator decides."""
        return Fate("unknown")


@dataclass(frozen=True)
class Gate:
    """For an act outside of the database."""

    key: str
    """scope/key/step: the idempotency key for the gateway."""
    fence: int
    signal: threading.Event | asyncio.Event
    """Set when the lease is lost."""


class _Work:
    def __init__(self, pool: Pool, key: str, scope: str, signal: Signal | None, lease: Interval) -> None:
        self._pool = pool
        self._signal = signal
        self._lease = lease
        self.key = key
        self.scope = scope
        self.fence = 0
        self.attempt = 1
        self.steps: dict[str, Json] = {}
        """Outputs; None for a step that an earlier attempt may have done."""
        self.signal: threading.Event | asyncio.Event = asyncio.Event() if pool.in_loop else threading.Event()
        """Set when the lease is lost."""
        self.is_kept = False
        self.beat: Heartbeat = heartbeat(pool, lease_seconds("lease", lease), self._renew, self.signal.set)

    def check(self) -> None:
        """Raises LeaseLost."""
        if self.beat.is_lost:
            raise LeaseLost(f'the lease of key "{self.key}" was lost')

    async def _renew(self, pool: Pool) -> bool:
        try:
            await pool.run(keys.renew(self.key, self.fence, lease=self._lease, scope=self.scope))
        except StaleFence:
            return False
        return True

    async def guarded(self, call: Call[T]) -> T:
        self.check()
        try:
            return await self._pool.run(call)
        except StaleFence as error:
            self.beat.lose()
            raise LeaseLost(str(error)) from error

    async def _step(self, name: str, act: Callable[[Gate], Any], reconcile: Callable[[Gate], Any] | None) -> Json:
        if self.steps.get(name) is not None:
            return self.steps[name]
        refuse_aborted(self._signal)
        gate = Gate(f"{self.scope}/{self.key}/{name}", self.fence, self.signal)
        if not await self.guarded(keys.step(self.key, self.fence, name, scope=self.scope)) and reconcile is not None:
            what = await settled(reconcile(gate))
            if not isinstance(what, Fate):
                raise TypeError("reconcile returns fate.done(output), fate.not_done() or fate.unknown()")
            if what.what == "unknown":
                self.is_kept = True
                raise InDoubt(f'it is not known whether step "{name}" of key "{self.key}" has happened', name)
            if what.what == "done":
                return await self._note(name, what.output)
        self.check()
        return await self._note(name, await settled(act(gate)))

    async def _note(self, name: str, output: Json) -> Json:
        """The act has happened: from here on the key is not released, which would repeat it, until its output is stored."""
        was_kept, self.is_kept = self.is_kept, True
        output = {} if output is None else output
        try:
            await self.guarded(keys.step(self.key, self.fence, name, encoded(output), scope=self.scope))
        except LeaseLost:
            raise
        except Exception as error:
            raise ResultNotStored(
                f'step "{name}" of key "{self.key}" has happened, and its output was not stored, so the key is kept: {error}', name
            ) from error
        self.is_kept = was_kept
        self.steps[name] = output
        return output

    async def _write(self, name: str, work: Callable[[Any], Any]) -> Json:
        """Rows and output in one COMMIT."""
        if self.steps.get(name) is not None:
            return self.steps[name]
        refuse_aborted(self._signal)
        self.check()
        run = make_run(self._pool, scope=self.scope, key=self.key, fence=self.fence)
        is_in_commit = False
        async with self._pool.session() as session:
            run.raw_connection = session.connection
            try:
                await session.begin()
                try:
                    with as_current(run):
                        output = await settled(work(run))
                    run.life.is_over = True
                    output = {} if output is None else output
                    await session.run(keys.step(self.key, self.fence, name, encoded(output), scope=self.scope))
                except BaseException:
                    run.life.is_over = True
                    await rollback(session)
                    raise
                is_in_commit = True
                await session.commit()
            except StaleFence as error:
                self.beat.lose()
                raise LeaseLost(str(error)) from error
            except Exception as error:
                lost = self._pool.lost(session, error)
                if not is_in_commit or not is_connection_loss(lost):
                    raise lost
                loss = lost
            else:
                self.steps[name] = output
                return output
        return await self._look_up(name, output, loss)

    async def _look_up(self, name: str, output: Json, loss: Exception) -> Json:
        """After a COMMIT that was lost."""
        for pause in LOOKUPS:
            await self._pool.sleep(pause)
            try:
                found = await self._pool.run(keys.lookup(self.key, scope=self.scope))
            except Exception:
                continue
            if found is not None and (found.steps or {}).get(name) is not None:
                self.steps[name] = output
                return output
            if pause == LOOKUPS[-1]:
                raise loss
        self.is_kept = True
        raise CommitUnknown(f'the connection was lost in the COMMIT of step "{name}" of key "{self.key}"') from loss


class Work(_Work):
    """What the work is given, on a pool of a blocking driver."""

    def step(self, name: str, act: Callable[[Gate], Json], reconcile: Callable[[Gate], Fate] | None = None) -> Json:
        """Calls `act` once, and returns its output, JSON, now and in later attempts. An earlier attempt that has begun the
        step, and whose output is unknown, is told to `reconcile`; without it, `act` is repeated, with the same `gate.key`."""
        return finish(self._step(name, act, reconcile))

    def write(self, name: str, work: Callable[[Run], Json]) -> Json:
        """A step in the database: the rows of `work(run)` and its output are committed together."""
        return finish(self._write(name, work))


class AsyncWork(_Work):
    """As `Work`, in an event loop."""

    async def step(
        self,
        name: str,
        act: Callable[[Gate], Json | Awaitable[Json]],
        reconcile: Callable[[Gate], Fate | Awaitable[Fate]] | None = None,
    ) -> Json:
        return await self._step(name, act, reconcile)

    async def write(self, name: str, work: Callable[[AsyncRun], Json | Awaitable[Json]]) -> Json:
        return await self._write(name, work)


def leased(
    pool: Any,
    key: str,
    work: Callable[[Work], Json],
    *,
    scope: str,
    fingerprint: bytes | None = None,
    ttl: Interval | None = None,
    wait: Interval = "10 s",
    lease: Interval = "30 s",
    on_error: OnError = "release",
    signal: Signal | None = None,
    schema: str = "idem",
) -> Done:
    """Claims the key under a lease, which is renewed while `work` runs outside of a transaction, and stores what it returns.

    An exception releases the key, and the next call begins at once, with the steps that are done; with `on_error="keep"` it
    begins when the lease has ended. Raises InFlight after `wait`, Mismatch, InDoubt, LeaseLost, ResultNotStored, CommitUnknown.
    """
    source = blocking_pool(pool, schema, "use async_leased")
    return finish(_leased(source, key, work, scope, fingerprint, ttl, wait, lease, on_error, signal, Work))


async def async_leased(
    pool: Any,
    key: str,
    work: Callable[[AsyncWork], Json | Awaitable[Json]],
    *,
    scope: str,
    fingerprint: bytes | None = None,
    ttl: Interval | None = None,
    wait: Interval = "10 s",
    lease: Interval = "30 s",
    on_error: OnError = "release",
    signal: Signal | None = None,
    schema: str = "idem",
) -> Done:
    """As `leased`, in an event loop."""
    source = Pool(pool, schema, in_loop=True)
    return await _leased(source, key, work, scope, fingerprint, ttl, wait, lease, on_error, signal, AsyncWork)


async def _leased(
    pool: Pool,
    key: str,
    work: Callable[[Any], Any],
    scope: str,
    fingerprint: bytes | None,
    ttl: Interval | None,
    wait: Interval,
    lease: Interval,
    on_error: OnError,
    signal: Signal | None,
    kind: type[_Work],
) -> Done:
    if on_error not in ("release", "keep"):
        raise ValueError(f"on_error is 'release' or 'keep', not {on_error!r}")
    held = kind(pool, key, scope, signal, lease)
    # An owner gets its claim again when the reply to its first call was lost.
    begin = keys.begin(key, fingerprint=fingerprint, ttl=ttl, lease=lease, owner=str(uuid.uuid4()), scope=scope)

    async def ask() -> keys.Ticket:
        refuse_aborted(signal)
        held.beat.claim()
        try:
            return await pool.run(begin)
        except Exception as error:
            if not is_unavailable(error) and not is_retryable(error):
                raise
            held.beat.claim()
            return await pool.run(begin)

    ticket = await claimed(
        pool,
        ("key", scope, key),
        interval_seconds("wait", wait),
        ask,
        _is_in_flight,
        _retry_after,
    )
    if not ticket.is_mine:
        return known(ticket, key)
    assert ticket.fence is not None
    held.fence, held.attempt = ticket.fence, ticket.attempt or 1
    held.steps = {name: decoded(output) for name, output in (ticket.steps or {}).items()}
    await held.beat.acquired()
    try:
        value = await settled(work(held))
        refuse_aborted(signal)
    except BaseException:
        held.beat.threw()
        if on_error == "release" and not held.is_kept and not held.beat.is_stale:
            await _release(pool, held)
        raise
    if not held.beat.returned():
        raise LeaseLost(f'the lease of key "{key}" was lost')
    return await _complete(pool, held, value)


def _is_in_flight(ticket: keys.Ticket) -> bool:
    return ticket.outcome == "in_flight"


def _retry_after(ticket: keys.Ticket) -> float | None:
    return None if ticket.retry_after_ms is None else ticket.retry_after_ms / 1000


async def _complete(pool: Pool, held: _Work, value: Json) -> Done:
    try:
        complete = keys.complete(held.key, encoded(value), fence=held.fence, scope=held.scope)
    except (TypeError, ValueError) as error:
        raise ResultNotStored(f'the work of key "{held.key}" is done, and its result is not JSON: {error}') from error
    for pause in LOOKUPS:  # the same completion twice is one
        await pool.sleep(pause)
        try:
            stored = await pool.run(complete)
            return Done(value, False, not stored, stored)
        except StaleFence as error:
            raise LeaseLost(str(error)) from error
        except Exception as error:
            if not is_unavailable(error) and not is_retryable(error):
                raise
            last = error
    raise CommitUnknown(f'the result of key "{held.key}" could not be stored') from last


async def _release(pool: Pool, held: _Work) -> None:
    try:
        await pool.run(keys.release(held.key, held.fence, scope=held.scope))
    except StaleFence:
        pass
    except Exception:
        _log.warning("could not release key %s; its lease will end", held.key, exc_info=True)
