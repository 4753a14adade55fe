"""A leased key that is renewed while its holder works."""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .calls import keys
from .errors import StaleFence
from .heartbeat import heartbeat
from .pool import Pool
from .run import AsyncRun, Run


@asynccontextmanager
async def renewed(pool: Pool, run: Run | AsyncRun, lease: datetime.timedelta, logger: logging.Logger) -> AsyncIterator[None]:
    """Renews the lease every third of it. Work that raises releases the key: the next attempt begins at once, with its
    steps."""
    assert run.key is not None and run.fence is not None and run.term is not None
    renew = keys.renew(run.key, run.fence, lease=lease, scope=run.scope)

    async def beat() -> bool:
        try:
            await pool.run(renew)
        except StaleFence:
            return False
        return True

    try:
        async with heartbeat(pool, run.term, beat):
            yield
    except BaseException:
        await release(pool, run, logger)
        raise


async def release(pool: Pool, run: Run | AsyncRun, logger: logging.Logger) -> None:
    """A stale fence means that the lease was lost. Another error is logged: the lease ends by itself."""
    assert run.key is not None and run.fence is not None and run.term is not None
    try:
        await pool.run(keys.release(run.key, run.fence, scope=run.scope))
    except StaleFence:
        run.term.lose()
    except Exception:
        logger.warning("could not release key %s; its lease will end", run.key, exc_info=True)
