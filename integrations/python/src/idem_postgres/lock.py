"""A lease lock that is renewed while it is held: docs/locks.md."""

from __future__ import annotations

import asyncio
import datetime
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .calls import locks
from .errors import LeaseLost, LockBusy, StaleFence, is_connection_loss
from .flight import claimed
from .heartbeat import Heartbeat, heartbeat
from .interval import Interval, interval_seconds, lease_seconds
from .pool import Pool, blocking_pool, finish

T = TypeVar("T")
_TTL = datetime.timedelta(seconds=30)


@dataclass(frozen=True)
class HeldLock:
    """Call `check()` between the parts of the work, and `Idem(connection).assert_fence(name, fence, scope=…)` in each
    transaction that writes. Give `fence` to other systems, which refuse a smaller one than the greatest that they have
    seen."""

    name: str
    scope: str
    fence: int
    lost: threading.Event | asyncio.Event
    """Set when another caller has, or may have, the lock."""
    _beat: Heartbeat = field(repr=False, compare=False)

    def check(self) -> None:
        """Raises StaleFence when the lock is lost."""
        if self._beat.is_lost:
            raise StaleFence(f'lock "{self.name}" was lost')


@contextmanager
def lock(
    pool: Any,
    name: str,
    *,
    ttl: Interval = _TTL,
    wait: Interval | None = None,
    scope: str = "",
    schema: str = "idem",
) -> Iterator[HeldLock]:
    """Holds a lock, on connections of a blocking pool. A thread renews it every third of `ttl`, which is how long the
    process may be silent. Raises LockBusy when another caller has it after `wait`; None does not wait. A caller that waits
    holds no connection."""
    source = blocking_pool(pool, schema, "use async_lock")
    with _blocking(_hold(source, name, ttl, wait, scope, threading.Event())) as held:
        yield held


@asynccontextmanager
async def async_lock(
    pool: Any,
    name: str,
    *,
    ttl: Interval = _TTL,
    wait: Interval | None = None,
    scope: str = "",
    schema: str = "idem",
) -> AsyncIterator[HeldLock]:
    """As `lock`, in an event loop, on a pool of either kind."""
    async with _hold(Pool(pool, schema, in_loop=True), name, ttl, wait, scope, asyncio.Event()) as held:
        yield held


@asynccontextmanager
async def _hold(
    pool: Pool,
    name: str,
    ttl: Interval,
    wait: Interval | None,
    scope: str,
    lost: threading.Event | asyncio.Event,
) -> AsyncIterator[HeldLock]:
    length = lease_seconds("ttl", ttl)
    patience = 0 if wait is None else interval_seconds("wait", wait)
    # An owner gets its lock again when the reply to its first call was lost.
    take = locks.lock(name, ttl=ttl, owner=str(uuid.uuid4()), scope=scope)
    fence: int | None = None

    async def renew(pool: Pool) -> bool:
        assert fence is not None
        return await pool.run(locks.lock_renew(name, fence, ttl=ttl, scope=scope))

    beat = heartbeat(pool, length, renew, lost.set)

    async def ask() -> int | None:
        beat.claim()
        try:
            return await pool.run(take)
        except Exception as error:
            if not is_connection_loss(error):
                raise
            beat.claim()
            return await pool.run(take)

    fence = await claimed(pool, ("lock", scope, name), patience, ask, lambda fence: fence is None)
    if fence is None:
        raise LockBusy(f'lock "{name}" is held by another caller')
    try:
        try:
            await beat.acquired()
        except LeaseLost as error:
            raise LockBusy(f'lock "{name}" was granted too late: {error}') from error
        yield HeldLock(name, scope, fence, lost, beat)
    finally:
        beat.returned()
        await pool.run(locks.unlock(name, fence, scope=scope))


@contextmanager
def _blocking(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    value = finish(manager.__aenter__())
    try:
        yield value
    except BaseException:
        if not finish(manager.__aexit__(*sys.exc_info())):
            raise
    else:
        finish(manager.__aexit__(None, None, None))
