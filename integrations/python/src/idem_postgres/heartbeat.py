"""Renews a lease while work goes on outside of the database."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from .pool import Pool, finish

log = logging.getLogger("idem_postgres")

Beat = Callable[[], Awaitable[bool]]
OnLost = Callable[[], None]


class Term:
    """How long a lease is certainly held, by this process's clock. A lease that was lost stays lost."""

    def __init__(self, length: float, granted: float) -> None:
        """`length` in seconds; `granted` is `time.monotonic()` before the lease was asked for."""
        self.interval = length / 3
        """From the start of a renewal to the next one's."""
        self._length = length
        self._granted = granted
        self._is_lost = False
        self._lock = threading.Lock()

    def remaining(self) -> float:
        """Seconds; 0: the lease is lost."""
        with self._lock:
            left = self._granted + self._length - time.monotonic()
            self._is_lost = self._is_lost or left <= 0
            return 0 if self._is_lost else left

    def is_lost(self) -> bool:
        return self.remaining() == 0

    def until_renewal(self) -> float:
        """Seconds until the first renewal; 0: it is due."""
        return max(self._granted + self.interval - time.monotonic(), 0)

    def prolong(self, granted: float) -> None:
        """`granted` is `time.monotonic()` before the renewal."""
        with self._lock:
            self._granted = granted

    def lose(self) -> None:
        with self._lock:
            self._is_lost = True


@asynccontextmanager
async def heartbeat(pool: Pool, term: Term, beat: Beat, on_lost: OnLost | None = None) -> AsyncIterator[None]:
    """Awaits `beat` three times in a lease, in a task of the event loop or in a thread. The lease is lost when `beat` returns
    False, and when no beat has succeeded for its length: then `on_lost` is called, once, and the beats end. An error is
    logged, and the next beat tries again."""
    pause = term.until_renewal()
    if pause == 0:  # the claim has waited for another holder
        pause = await _attempt(term, beat)
    runner = _beat_in_task if pool.in_loop else _beat_in_thread
    async with runner(pool, term, pause, beat, on_lost):
        yield


@asynccontextmanager
async def _beat_in_task(pool: Pool, term: Term, pause: float, beat: Beat, on_lost: OnLost | None) -> AsyncIterator[None]:
    stop = asyncio.Event()

    async def renew(pause: float) -> None:
        while not term.is_lost() and not await _is_set(stop, pause):
            pause = await _attempt(term, beat)
        stop.set()

    async def watch(on_lost: OnLost) -> None:
        while not term.is_lost() and not await _is_set(stop, term.remaining()):
            pass
        if term.is_lost():
            on_lost()

    tasks = [asyncio.create_task(renew(pause))]
    if on_lost is not None:
        tasks.append(asyncio.create_task(watch(on_lost)))
    try:
        yield
    finally:
        stop.set()
        # A renewal that hangs is not waited for once the lease is lost.
        _, pending = await asyncio.wait(tasks, timeout=term.remaining())
        for task in pending:
            task.cancel()


@asynccontextmanager
async def _beat_in_thread(pool: Pool, term: Term, pause: float, beat: Beat, on_lost: OnLost | None) -> AsyncIterator[None]:
    stop = threading.Event()

    def renew(pause: float) -> None:
        while not term.is_lost() and not stop.wait(pause):
            pause = finish(_attempt(term, beat))
        stop.set()
        pool.end_thread()

    def watch(on_lost: OnLost) -> None:
        while not term.is_lost() and not stop.wait(term.remaining()):
            pass
        if term.is_lost():
            on_lost()

    renewing = threading.Thread(target=renew, args=(pause,), name="idem-heartbeat", daemon=True)
    renewing.start()
    if on_lost is not None:
        threading.Thread(target=watch, args=(on_lost,), name="idem-lease", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        # A renewal that hangs is not waited for once the lease is lost.
        renewing.join(term.remaining())


async def _is_set(event: asyncio.Event, timeout: float) -> bool:
    try:
        return await asyncio.wait_for(event.wait(), timeout)
    except asyncio.TimeoutError:
        return event.is_set()


async def _attempt(term: Term, beat: Beat) -> float:
    """Seconds until the next one."""
    began = time.monotonic()
    try:
        if await beat():
            term.prolong(began)
        else:
            term.lose()
    except Exception:
        log.warning("could not renew a lease", exc_info=True)
    return max(began + term.interval - time.monotonic(), 0)
