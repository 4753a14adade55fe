"""The options that all middleware has."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict

from ..interval import Interval, interval_text, lease_seconds
from .response import Problem, Response, internal_error

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


@dataclass(frozen=True)
class Outcome:
    """What became of a request, for metrics. `outcome` is run, replay or reject; `status` is None when the handler raised."""

    scope: str
    key: str | None
    key_hash: str | None
    """Of the header, for logs and traces of other parties: SHA-256, 16 hexadecimal digits."""
    method: str
    route: str
    outcome: str
    replayed: bool
    status: int | None
    ms: float
    fence: int | None
    attempt: int | None


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
    skip: Callable[[Any], bool]
    """The requests that are passed on untouched."""
    key_required: Literal[False]
    """Not given: the scope's policy decides. False: without a key the handler runs in a plain transaction."""
    route: Callable[[Any], str]
    """What the request is for: its path with the query."""
    fingerprint: Callable[[Any], bytes | None | Awaitable[bytes | None]]
    """A digest of the request, 1 to 255 bytes, in the place of route and body; None: route and body. For forms of files
    `multipart_fingerprint`."""
    key_from: Callable[[Any], str | None | Awaitable[str | None]]
    """The key of a request without the header, such as a member of its body. None: it has none."""
    lease: Interval
    """Leased mode: the claim is committed first, the handler runs outside of a transaction."""
    wait: Interval
    """How long to wait for another request with the key, instead of 409."""
    ttl: Interval
    """How long the key and its response are kept."""
    max_body: int
    """The greatest body of a request in bytes, 1 MiB; 413 beyond it."""
    max_response: int
    """The greatest response in bytes that is kept to be stored, 1 MiB. See `oversize`."""
    oversize: Literal["omit", "rollback"]
    """A response that is too large to be stored. omit: the work is committed, the response is sent, and a repetition gets its
    status without a body. rollback: 500 response_too_large; not with `lease`."""
    store_errors: Collection[int]
    """The statuses of thrown HTTP errors that are stored as responses. All other thrown errors roll back."""
    schema: str
    """The schema of idem: idem."""
    on_error: Callable[[Problem, Any], Response | None]
    """The response for an error of the middleware's own, whose status stays; None: the problem as it is."""
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
    skip: Callable[[Any], bool] = lambda request: False
    key_required: Literal[False] | None = None
    route: Callable[[Any], str] | None = None
    fingerprint: Callable[[Any], bytes | None | Awaitable[bytes | None]] | None = None
    key_from: Callable[[Any], str | None | Awaitable[str | None]] | None = None
    lease: Interval | None = None
    wait: Interval | None = None
    ttl: Interval | None = None
    max_body: int = 1024 * 1024
    max_response: int = 1024 * 1024
    oversize: Literal["omit", "rollback"] = "omit"
    store_errors: Collection[int] = ()
    schema: str = "idem"
    on_error: Callable[[Problem, Any], Response | None] | None = None
    on_outcome: Callable[[Outcome], None] | None = None
    logger: logging.Logger = logging.getLogger("idem_postgres")

    def __post_init__(self) -> None:
        if not callable(self.scope):
            raise TypeError("scope is a function of the request that returns the scope of its key")
        if self.lease is not None:
            lease_seconds("lease", self.lease)
        if self.wait is not None:
            interval_text("wait", self.wait)
        if self.ttl is not None:
            interval_text("ttl", self.ttl)
        if self.oversize not in ("omit", "rollback"):
            raise ValueError(f"oversize is 'omit' or 'rollback', not {self.oversize!r}")
        if self.oversize == "rollback" and self.lease is not None:
            raise ValueError("oversize='rollback' does not go with lease: what leased work has done cannot be rolled back")

    def applies(self, request: Any, method: str, header: str | None) -> bool:
        if self.skip(request):
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

    async def key_of(self, request: Any, header: str | None) -> str | None:
        """The header, or as one the key that `key_from` finds."""
        if header is not None or self.key_from is None:
            return header
        found = self.key_from(request)
        key: str | None = await found if inspect.isawaitable(found) else found  # type: ignore[assignment]
        if key is None or re.fullmatch(r"[\w.:~+/=-]+", key, re.ASCII):
            return key
        return '"' + re.sub(r'(["\\])', r"\\\1", key) + '"'

    async def fingerprint_of(self, request: Any) -> bytes | None:
        if self.fingerprint is None:
            return None
        digest = self.fingerprint(request)
        known: bytes | None = await digest if inspect.isawaitable(digest) else digest  # type: ignore[assignment]
        return known

    def own_response(self, problem: Problem, request: Any) -> Response:
        if self.on_error is not None:
            try:
                if (response := self.on_error(problem, request)) is not None:
                    return Response(problem.status, response.headers, response.body)
            except Exception:
                self.logger.exception("on_error failed")
        return problem.response()
