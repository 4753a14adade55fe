"""What the handler of a request, or a task, may know of its key."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .call import Call, Json
from .calls import keys
from .errors import StaleFence
from .heartbeat import Term
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
    connection: Any = field(default=None, repr=False)
    """The transaction's connection. It commits with the response: do not commit or roll back. None in leased mode."""
    fence: int | None = None
    """The fence of the claim, in leased mode."""
    steps: dict[str, Json] = field(default_factory=dict)
    """The steps of earlier attempts, in leased mode: an output, or None for one that may have happened."""
    term: Term | None = field(default=None, repr=False)
    """The term of the lease, in leased mode."""

    @property
    def is_lost(self) -> bool:
        """Another caller has, or may have, taken the key over: stop working."""
        return self.term is not None and self.term.is_lost()

    def check(self) -> None:
        """Raises StaleFence when the lease was lost."""
        if self.is_lost:
            raise StaleFence(f'the lease of key "{self.key}" was lost')

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
