"""The options that all middleware has."""

from __future__ import annotations

import datetime
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict

from ..interval import Interval, check_timedelta, interval_text
from .response import internal_error

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


@dataclass(frozen=True)
class Outcome:
    """What became of a request, for metrics. `outcome` is run, replay or reject; `status` is None when the handler raised."""

    scope: str
    key: str | None
    method: str
    route: str
    outcome: str
    status: int | None
    ms: float
    fence: int | None


class Options(TypedDict, total=False):
    """The keyword arguments of all middleware. A request is the framework's: `HttpRequest` of Django, `Request` of Starlette
    with
    FastAPI, otherwise `idem_postgres.http.request.Request`."""

    scope: Required[Callable[[Any], str | Awaitable[str]]]
    """The space in which keys are unique: the authenticated client and the API. Not empty. It may raise `Problem(401)`."""
    header: str
    """The name of the header: Idempotency-Key."""
    methods: Collection[str]
    """Methods for which the middleware acts even when the request has no key: all but GET, HEAD, OPTIONS and TRACE."""
    exclude: Callable[[Any], bool]
    """The requests that are passed on untouched, such as those of a route that streams."""
    key_required: Literal[False]
    """Not given: the scope's policy decides. False: without a key the handler runs in a plain transaction."""
    route: Callable[[Any], str]
    """What the request is for: its path with the query."""
    lease: datetime.timedelta
    """Leased mode: the claim is committed first, the handler runs outside of a transaction."""
    wait: Interval
    """How long to wait for another request with the key, instead of 409."""
    ttl: Interval
    """How long the key and its response are kept."""
    max_body: int
    """The greatest body of a request in bytes, 1 MiB; 413 beyond it."""
    schema: str
    """The schema of idem: idem."""
    rollback_on: Callable[[int], bool]
    """The statuses that undo the work: 500 and above."""
    on_outcome: Callable[[Outcome], None]
    """Called once per request, for metrics. Its errors are logged."""
    logger: logging.Logger
    """The logger: idem_postgres."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`Options` with the defaults."""

    scope: Callable[[Any], str | Awaitable[str]]
    header: str = "Idempotency-Key"
    methods: Collection[str] | None = None
    exclude: Callable[[Any], bool] = lambda request: False
    key_required: Literal[False] | None = None
    route: Callable[[Any], str] | None = None
    lease: datetime.timedelta | None = None
    wait: Interval | None = None
    ttl: Interval | None = None
    max_body: int = 1024 * 1024
    schema: str = "idem"
    rollback_on: Callable[[int], bool] = lambda status: status >= 500
    on_outcome: Callable[[Outcome], None] | None = None
    logger: logging.Logger = logging.getLogger("idem_postgres")

    def __post_init__(self) -> None:
        if not callable(self.scope):
            raise TypeError("scope is a function of the request that returns the scope of its key")
        if self.lease is not None:
            check_timedelta("lease", self.lease)
        if self.wait is not None:
            interval_text("wait", self.wait)
        if self.ttl is not None:
            interval_text("ttl", self.ttl)

    def applies(self, request: Any, method: str, header: str | None) -> bool:
        if self.exclude(request):
            return False
        if header is not None:
            return True
        return method not in SAFE_METHODS if self.methods is None else method in self.methods

    async def scope_of(self, request: Any) -> str:
        scope = self.scope(request)
        if inspect.isawaitable(scope):
            scope = await scope
        if not isinstance(scope, str) or not scope:
            self.logger.error("the scope function returned no scope: it must name the authenticated client and the API")
            raise internal_error()
        return scope
