"""Holds a lease while work goes on outside of the database.

A watcher waits for the time at which the lease wants to be asked, and never for the database. A renewer sends, in a thread or
task of its own: a renewal that hangs delays neither the watcher nor other leases. Renewals have connections of their own.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .errors import LeaseLost
from .lease import Ask, Lease
from .pool import Pool, finish
from .renewals import RenewalPool

log = logging.getLogger("idem_postgres")

Renew = Callable[[Pool], Awaitable[bool]]
"""False: the fence is stale. An exception: unknown."""
OnLost = Callable[[], None]

_tasks: set[asyncio.Task[None]] = set()  # an event loop has weak references only


class Heartbeat:
    """`claim`, then `acquired`, which returns when the work may begin; `returned` or `threw` at the end."""

    def __init__(self, pool: Pool, seconds: float, renew: Renew, on_lost: OnLost | None = None) -> None:
        self._pool = pool
        self._lease = Lease(seconds * 1000)
        self._renew = renew
        self._on_lost = on_lost
        self._lock = threading.Condition()
        self._may_work: bool | None = None  # None: not known yet
        self._was_lost = False
        self._renewals: int = 0  # that were asked for, and are not sent
        self._has_renewer = False
        self._has_watcher = False

    def claim(self) -> None:
        """Call it before each claim is sent."""
        self._feed(self._lease.claim)

    async def acquired(self) -> None:
        """Returns when the lease is certainly held. Raises LeaseLost: the work must not begin."""
        self._begin()
        self._feed(self._lease.acquired)
        await self._decided()
        if not self._may_work:
            raise LeaseLost("the lease was lost before the work began")

    @property
    def is_lost(self) -> bool:
        """Also for a caller that has kept the watcher from running."""
        self._feed(self._lease.tick)
        return self._was_lost

    @property
    def is_stale(self) -> bool:
        return self._lease.is_stale

    def lose(self) -> None:
        """The database has said so, to another statement than a renewal."""
        self._was_lost = True
        self._feed(self._lease.stale)

    def returned(self) -> bool:
        """Whether to complete."""
        return "complete" in self._feed(self._lease.returned)

    def threw(self) -> bool:
        """Whether to release."""
        return "release" in self._feed(self._lease.threw)

    def _feed(self, event: Callable[[float], list[Ask]]) -> list[Ask]:
        """An event, at the time at which the lease hears of it; and what it asks for."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            asks = event(time.monotonic() * 1000)
            for ask in asks:
                if ask == "renew":
                    calls.append(self._send)
                elif ask == "work":
                    self._may_work = True
                elif ask.startswith("lost"):
                    self._was_lost = True
                    self._may_work = bool(self._may_work)
                    if self._on_lost is not None:
                        calls.append(self._on_lost)
            self._lock.notify_all()
        for call in calls:
            call()
        self._changed()
        return asks

    def _due(self) -> float | None:
        due = self._lease.due
        return None if due is None else max(due / 1000 - time.monotonic(), 0)

    # In threads; _LoopHeartbeat has the same for an event loop.

    def _begin(self) -> None:
        pass

    def _changed(self) -> None:
        """The lease may want to be asked at another time."""
        with self._lock:
            if self._has_watcher or self._lease.due is None:
                return
            self._has_watcher = True
        threading.Thread(target=self._watch, name="idem-lease", daemon=True).start()

    async def _decided(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._may_work is not None)

    def _watch(self) -> None:
        while True:
            with self._lock:
                left = self._due()
                if left is None:
                    return
                if left > 0:
                    self._lock.wait(left)
                    continue
            self._feed(self._lease.tick)

    def _send(self) -> None:
        with self._lock:
            self._renewals += 1
            self._lock.notify_all()
            if self._has_renewer:
                return
            self._has_renewer = True
        threading.Thread(target=self._renew_in_thread, name="idem-heartbeat", daemon=True).start()

    def _renew_in_thread(self) -> None:
        pool = RenewalPool(self._pool)
        try:
            while True:
                with self._lock:
                    self._lock.wait_for(lambda: self._renewals or self._lease.due is None)
                    if not self._renewals or self._lease.due is None:
                        return
                    self._renewals -= 1
                self._hear(_outcome(finish, self._renew(pool)))
        finally:
            finish(pool.close())
            pool.end_thread()

    def _hear(self, is_renewed: bool | None) -> None:
        self._feed(
            self._lease.failed if is_renewed is None else self._lease.renewed if is_renewed else self._lease.stale
        )


class _LoopHeartbeat(Heartbeat):
    """The watcher is a timer of the event loop, the renewer a task. With a blocking driver the renewer is a thread, as the
    loop's own threads are few."""

    _timer: asyncio.TimerHandle | None = None

    _loop: asyncio.AbstractEventLoop | None = None

    _renewals_pool: RenewalPool | None = None

    def _begin(self) -> None:
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._decision = asyncio.Event()
        if self._on_lost is not None:
            self._on_lost = functools.partial(self._in_loop, self._on_lost)

    def _in_loop(self, call: Callable[[], None]) -> None:
        if self._loop is None:
            return
        if threading.get_ident() == self._thread:
            call()
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop was closed: nobody is waiting
            pass

    def _changed(self) -> None:
        self._in_loop(self._arm)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._may_work is not None:
            self._decision.set()
        left = self._due()
        self._timer = None if left is None or self._loop is None else self._loop.call_later(left, self._feed, self._lease.tick)
        if left is None and self._renewals_pool is not None:
            pool, self._renewals_pool = self._renewals_pool, None
            _spawn(pool.close())

    async def _decided(self) -> None:
        await self._decision.wait()

    def _send(self) -> None:
        if self._pool.is_blocking:
            super()._send()
        else:
            self._in_loop(self._start)

    def _start(self) -> None:
        if self._lease.due is None:
            return
        if self._renewals_pool is None:
            self._renewals_pool = RenewalPool(self._pool)
        _spawn(self._renew_in_task(self._renewals_pool))

    async def _renew_in_task(self, pool: RenewalPool) -> None:
        try:
            is_renewed: bool | None = await self._renew(pool)
        except Exception:
            log.warning("could not renew a lease", exc_info=True)
            is_renewed = None
        self._hear(is_renewed)


def _spawn(coroutine: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(coroutine)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _outcome(run: Callable[..., bool], renewal: Awaitable[bool]) -> bool | None:
    try:
        return run(renewal)
    except Exception:
        log.warning("could not renew a lease", exc_info=True)
        return None


def heartbeat(pool: Pool, seconds: float, renew: Renew, on_lost: OnLost | None = None) -> Heartbeat:
    cls = _LoopHeartbeat if pool.in_loop else Heartbeat
    return cls(pool, seconds, renew, on_lost)
