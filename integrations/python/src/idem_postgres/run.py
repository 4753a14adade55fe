"""What the handler of a request, or a task, may know of its key."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .call import Call, Json
from .calls import keys
from .errors import LeaseLost, TransactionOver
from .handle import Life, handle
from .heartbeat import Heartbeat
from .idem import AsyncIdem, Idem
from .pool import Pool, finish


@dataclass
class _Run:
    pool: Pool = field(repr=False)
    scope: str
    header: str | None = None
    """The Idempotency-Key header as it came."""
    key: str | None = None
    """The key of the claim, in leased mode; of a task, always."""
    raw_connection: Any = field(default=None, repr=False)
    fence: int | None = None
    """The fence of the claim, in leased mode."""
    attempt: int | None = None
    """In leased mode: 1 is the first."""
    steps: dict[str, Json] = field(default_factory=dict)
    """The steps of earlier attempts, in leased mode: an output, or None for one that may have happened."""
    beat: Heartbeat | None = field(default=None, repr=False)
    """What renews the lease, in leased mode."""
    life: Life = field(default_factory=Life, repr=False)
    """Of the transaction."""

    @property
    def connection(self) -> Any:
        """The transaction's connection. It commits with the response: do not commit or roll back. None in leased mode.
        Dead once the transaction is over: it is another request's then."""
        if self.raw_connection is None:
            return None
        if self.life.is_over:
            raise TransactionOver()
        return handle(self.raw_connection, self.life)

    @property
    def is_lost(self) -> bool:
        """Another caller has, or may have, taken the key over: stop working."""
        return self.beat is not None and self.beat.is_lost

    def check(self) -> None:
        """Raises LeaseLost when the lease was lost."""
        if self.is_lost:
            raise LeaseLost(f'the lease of key "{self.key}" was lost')

    def _step(self, name: str, output: Json) -> Call[bool]:
        if self.key is None or self.fence is None:
            raise RuntimeError("steps are for a request with a key, in leased mode")
        return keys.step(self.key, self.fence, name, output, scope=self.scope)


class Run(_Run):
    """On a pool of a blocking driver."""

    @property
    def idem(self) -> Idem:
        """idem's functions, in the transaction."""
        return Idem(self.connection, schema=self.pool.schema)

    def step(self, name: str, output: Json = None, *, connection: Any = None) -> bool:
        """Notes a step of the leased work: without output before it, with output after it. With `connection`, in its
        transaction."""
        call = self._step(name, output)
        if connection is not None:
            return Idem(connection, schema=self.pool.schema).run(call)
        return finish(Pool(self.pool.pool, self.pool.schema).run(call))


class AsyncRun(_Run):
    """On a pool of an asynchronous driver."""

    @property
    def idem(self) -> AsyncIdem:
        """idem's functions, in the transaction."""
        return AsyncIdem(self.connection, schema=self.pool.schema)

    async def step(self, name: str, output: Json = None, *, connection: Any = None) -> bool:
        """As `Run.step`."""
        call = self._step(name, output)
        if connection is not None:
            return await AsyncIdem(connection, schema=self.pool.schema).run(call)
        return await self.pool.run(call)


def make_run(pool: Pool, **known: Any) -> Run | AsyncRun:
    cls: type[Run | AsyncRun] = Run if pool.is_blocking else AsyncRun
    return cls(pool=pool, **known)


_current: contextvars.ContextVar[Run | AsyncRun] = contextvars.ContextVar("idem_postgres.run")


def current() -> Run:
    """The run of this request or task, on a pool of a blocking driver. LookupError outside of one."""
    run = _current.get()
    assert isinstance(run, Run), "the pool is asynchronous: use current_async()"
    return run


def current_async() -> AsyncRun:
    """The run of this request, on a pool of an asynchronous driver. LookupError outside of one."""
    run = _current.get()
    assert isinstance(run, AsyncRun), "the pool is blocking: use current()"
    return run


@contextmanager
def as_current(run: Run | AsyncRun) -> Iterator[None]:
    token = _current.set(run)
    try:
        yield
    finally:
        _current.reset(token)
