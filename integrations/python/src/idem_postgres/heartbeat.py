"""Renews a lease while work goes on outside of the database."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from .pool import Pool, finish

log = logging.getLogger("idem_postgres")

Beat = Callable[[], Awaitable[bool]]


@asynccontextmanager
async def heartbeat(pool: Pool, interval: float, beat: Beat, on_lost: Callable[[], None]) -> AsyncIterator[None]:
    """Awaits `beat` every `interval` seconds, in a task of the event loop or in a thread. When it returns False, the lease
    is lost:
    `on_lost` is called, once, and the beat ends. An error is logged, and the next beat tries again."""
    runner = _beat_in_task if pool.in_loop else _beat_in_thread
    async with runner(pool, interval, beat, on_lost):
        yield


@asynccontextmanager
async def _beat_in_task(pool: Pool, interval: float, beat: Beat, on_lost: Callable[[], None]) -> AsyncIterator[None]:
    stop = asyncio.Event()

    async def run() -> None:
        while not await _is_set(stop, interval):
            if not await _attempt(beat):
                on_lost()
                break

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        stop.set()
        await task


@asynccontextmanager
async def _beat_in_thread(pool: Pool, interval: float, beat: Beat, on_lost: Callable[[], None]) -> AsyncIterator[None]:
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(interval):
            if not finish(_attempt(beat)):
                on_lost()
                break
        pool.end_thread()

    thread = threading.Thread(target=run, name="idem-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def _is_set(event: asyncio.Event, timeout: float) -> bool:
    try:
        return await asyncio.wait_for(event.wait(), timeout)
    except asyncio.TimeoutError:
        return False


async def _attempt(beat: Beat) -> bool:
    try:
        return await beat()
    except Exception:
        log.warning("could not renew a lease", exc_info=True)
        return True
