"""Waits for a key on the client's side: a caller that sleeps holds no connection, which the holder's renewal needs.

Of the callers in this process that wait for the same key, one asks the database; the others wait for it here.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from .pool import Pool

T = TypeVar("T")
_FIRST, _LONGEST = 0.02, 0.25

_lock = threading.Lock()
_waiting: dict[Hashable, list[Callable[[], None]]] = {}
"""The callers that wait behind the one that asks, for each key."""


async def claimed(
    pool: Pool,
    key: Hashable,
    wait: float,
    ask: Callable[[], Awaitable[T]],
    is_busy: Callable[[T], bool],
    retry_after: Callable[[T], float | None] = lambda answer: None,
) -> T:
    """The first answer of `ask` that is not busy, or the last one after `wait` seconds. `ask` never waits in the database."""
    answer = await ask()
    until = time.monotonic() + wait
    if wait <= 0 or not is_busy(answer):
        return answer
    key = (pool.schema, key)
    while not _enter(key):
        if not await _left(pool, key, until - time.monotonic()):
            return answer
    try:
        pause = _FIRST
        while is_busy(answer) and (left := until - time.monotonic()) > 0:
            longest = min(left, pause * random.uniform(0.5, 1), retry_after(answer) or left)
            await pool.sleep(max(longest, 0.001))
            pause = min(pause * 2, _LONGEST)
            answer = await ask()
        return answer
    finally:
        _leave(key)


def _enter(key: Hashable) -> bool:
    with _lock:
        if key in _waiting:
            return False
        _waiting[key] = []
        return True


def _leave(key: Hashable) -> None:
    with _lock:
        waiters = _waiting.pop(key)
    for wake in waiters:
        wake()


async def _left(pool: Pool, key: Hashable, timeout: float) -> bool:
    """Whether the caller that asks has left in time."""
    if timeout <= 0:
        return False
    if not pool.in_loop:
        event = threading.Event()
        return not _join(key, event.set) or event.wait(timeout)
    loop, left = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(left.set)
        except RuntimeError:  # the loop was closed
            pass

    if not _join(key, wake):
        return True
    try:
        await asyncio.wait_for(left.wait(), timeout)
        return True
    except asyncio.TimeoutError:
        return False


def _join(key: Hashable, wake: Callable[[], None]) -> bool:
    """False: nobody asks any more."""
    with _lock:
        if key not in _waiting:
            return False
        _waiting[key].append(wake)
        return True
