"""A leased key that is renewed while its holder works."""

from __future__ import annotations

import logging

from .calls import keys
from .errors import StaleFence
from .heartbeat import Heartbeat, heartbeat
from .interval import Interval, lease_seconds
from .pool import Pool
from .run import AsyncRun, Run


class Holder:
    """Of a key that is to be claimed: `beat.claim()` before the claim is sent, then `begin`, and at the end `release` or
    `beat.returned()`."""

    def __init__(self, pool: Pool, run: Run | AsyncRun, lease: Interval, logger: logging.Logger) -> None:
        self._pool = pool
        self._run = run
        self._lease = lease
        self._logger = logger
        self.beat: Heartbeat = heartbeat(pool, lease_seconds("lease", lease), self._renew)

    async def begin(self) -> None:
        """The work may begin. Raises LeaseLost, and then nothing is released: the lease ends by itself."""
        self._run.beat = self.beat
        await self.beat.acquired()

    async def release(self) -> None:
        """The key is free at once, with its steps. An error is logged: the lease ends by itself."""
        assert self._run.key is not None and self._run.fence is not None
        self.beat.threw()
        if self.beat.is_stale:
            return
        try:
            await self._pool.run(keys.release(self._run.key, self._run.fence, scope=self._run.scope))
        except StaleFence:
            self.beat.lose()
        except Exception:
            self._logger.warning("could not release key %s; its lease will end", self._run.key, exc_info=True)

    async def _renew(self, pool: Pool) -> bool:
        assert self._run.key is not None and self._run.fence is not None
        try:
            await pool.run(keys.renew(self._run.key, self._run.fence, lease=self._lease, scope=self._run.scope))
        except StaleFence:
            return False
        return True
