"""A request of Django with its key. The ORM is in the transaction: views change nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from ..errors import StaleFence, is_connection_loss, is_retryable
from ..http.body import too_large, truncated
from ..http.serve import serve
from ..http.options import Options, Settings
from ..http.request import Keyed
from ..http.response import Problem, Response, with_added
from ..run import AsyncRun, Run, as_current
from ..sessions.django import DjangoSession
from ..http.streaming import StreamingError
from ..pool import Pool, finish
from .pool import DjangoPool

View = Callable[..., HttpResponseBase]
V = TypeVar("V", bound=View)


class IdemMiddleware:
    """`MIDDLEWARE = [..., "idem_postgres.django.IdemMiddleware"]`, after the one that authenticates.

    `IDEM = {"scope": "shop.views.scope"}` in the settings has the keyword arguments of `Options`, functions as such or as
    dotted paths, and `using`, the alias of the database. A view finds its `Run` in `request.idem`.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: View) -> None:
        options = {
            name: import_string(value) if name in _FUNCTIONS and isinstance(value, str) else value
            for name, value in getattr(django_settings, "IDEM", {}).items()
        }
        if "scope" not in options:
            raise ImproperlyConfigured('IDEM = {"scope": …} must name a function that returns the scope of a request')
        self._guard = _Guard(**options)
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._guard.serve(request, lambda: self._get_response(request))

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        """Django turns the exception into a response before `__call__` sees it."""
        request.idem_exception = exception


def idempotent(*, using: str = "default", **options: Unpack[Options]) -> Callable[[V], V]:
    """The same for one view: `@idempotent(scope=lambda request: …)`."""
    guard = _Guard(using=using, **options)

    def decorate(view: V) -> V:
        @functools.wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return guard.serve(request, lambda: view(request, *args, **kwargs))

        return wrapped  # type: ignore[return-value]

    return decorate


_FUNCTIONS = ("scope", "route", "exclude", "rollback_on", "on_outcome")


class _Guard:
    def __init__(self, *, using: str = "default", **options: Unpack[Options]) -> None:
        self._settings = Settings(**options)
        self._pool = Pool(DjangoPool(using), self._settings.schema, may_nest=self._settings.lease is None)

    def serve(self, request: HttpRequest, view: Callable[[], HttpResponseBase]) -> HttpResponseBase:
        header = request.headers.get(self._settings.header)
        if not self._settings.applies(request, request.method, header):
            return view()
        return finish(self._serve(request, view, header))

    async def _serve(self, request: HttpRequest, view: Callable[[], HttpResponseBase], header: str | None) -> HttpResponseBase:
        sent: HttpResponseBase | None = None
        kept: Response | None = None

        async def handler(run: Run | AsyncRun) -> Response:
            nonlocal sent, kept
            request.idem = run
            with as_current(run):
                sent = view()
                if not getattr(sent, "is_rendered", True):
                    sent = sent.render()
            _raise_retryable(request, run)
            kept = _response(request, sent)
            return kept

        added: dict[str, str] = {}
        try:
            keyed = Keyed(
                await self._settings.scope_of(request),
                request.method,
                self._settings.route(request) if self._settings.route else request.get_full_path(),
                header,
                _body(request, self._settings.max_body),
            )
            added = keyed.added
            response = await serve(self._pool, self._settings, keyed, handler)
        except Problem as problem:
            response = problem.response()
        if sent is not None and sent.streaming:
            # Not before the rollback: it ends with Django's signal that closes connections.
            sent.close()
        if sent is None or response is not kept:
            return _django_response(with_added(response, added))
        # Django's own, with its cookies and what other middleware has noted on it.
        for name, value in added.items():
            sent.setdefault(name, value)
        return sent


def _raise_retryable(request: HttpRequest, run: Run | AsyncRun) -> None:
    """The view's exception, where it may mean 503."""
    error = getattr(request, "idem_exception", None)
    if error is None:
        return
    is_lost = run.connection is not None and DjangoSession(run.connection, run.pool.schema).is_lost()
    is_stale = run.fence is not None and isinstance(error, StaleFence)
    if is_lost or is_stale or is_retryable(error) or is_connection_loss(error):
        raise error


def _response(request: HttpRequest, response: HttpResponseBase) -> Response:
    if response.streaming or response.get("Content-Type", "").startswith("text/event-stream"):
        raise StreamingError(request.path)
    return Response(response.status_code, list(response.items()), response.content)


def _body(request: HttpRequest, limit: int) -> bytes:
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdigit() and int(length) > limit:
        raise too_large(limit)
    try:
        body: bytes = request.body
    except RequestDataTooBig as error:  # DATA_UPLOAD_MAX_MEMORY_SIZE
        raise too_large(limit) from error
    if len(body) > limit:
        raise too_large(limit)
    if length.isdigit() and len(body) < int(length):
        raise truncated()
    return body


def _django_response(response: Response) -> HttpResponse:
    answer = HttpResponse(response.body, status=response.status)
    del answer["Content-Type"]
    for name, value in response.headers:
        # Django has one line for each name: a list.
        answer[name] = f"{answer[name]}, {value}" if name in answer else value
    return answer
