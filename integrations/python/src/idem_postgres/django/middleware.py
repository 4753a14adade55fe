"""A request of Django with its key. The ORM is in the transaction: views change nothing."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from django.conf import settings as django_settings
from django.core.exceptions import BadRequest, ImproperlyConfigured, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.handlers.exception import response_for_exception
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from ..http.body import too_large, truncated
from ..http.serve import serve
from ..http.options import Options, Settings
from ..http.request import Keyed
from ..http.response import Problem, Response, with_added
from ..run import AsyncRun, Run, as_current
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


def _note_exception(sender: Any, request: HttpRequest | None = None, **_: Any) -> None:
    """Of other middleware, of which `process_exception` is not told."""
    if request is not None and getattr(request, "idem_exception", None) is None:
        request.idem_exception = sys.exc_info()[1]


got_request_exception.connect(_note_exception, dispatch_uid="idem_postgres")


def idempotent(*, using: str = "default", **options: Unpack[Options]) -> Callable[[V], V]:
    """The same for one view: `@idempotent(scope=lambda request: …)`."""
    guard = _Guard(using=using, **options)

    def decorate(view: V) -> V:
        @functools.wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return guard.serve(request, lambda: view(request, *args, **kwargs))

        return wrapped  # type: ignore[return-value]

    return decorate


_FUNCTIONS = ("scope", "route", "skip", "fingerprint", "key_from", "on_error", "on_outcome")


class _Guard:
    def __init__(self, *, using: str = "default", **options: Unpack[Options]) -> None:
        self._settings = Settings(**options)
        self._pool = Pool(DjangoPool(using), self._settings.schema, may_nest=self._settings.lease is None)

    def serve(self, request: HttpRequest, view: Callable[[], HttpResponseBase]) -> HttpResponseBase:
        if getattr(request, "idem_is_open", False):  # by the middleware, or by another decorator
            return view()
        header = request.headers.get(self._settings.header)
        if not self._settings.applies(request, request.method, header):
            return view()
        return finish(self._serve(request, view, header))

    async def _serve(self, request: HttpRequest, view: Callable[[], HttpResponseBase], header: str | None) -> HttpResponseBase:
        settings = self._settings
        sent: HttpResponseBase | None = None
        kept: Response | None = None

        async def handler(run: Run | AsyncRun) -> Response:
            nonlocal sent, kept
            request.idem, request.idem_is_open, request.idem_exception = run, True, None
            with as_current(run):
                try:
                    sent = view()
                except Exception as error:
                    if (status := _status_of(error)) is None or status not in settings.store_errors:
                        raise
                    request.idem_exception = error
                    sent = response_for_exception(request, error)
                if not getattr(sent, "is_rendered", True):
                    sent = sent.render()
                kept = _response(request, sent, settings.max_response, _error_of(request, sent))
            return kept

        added: dict[str, str] = {}
        try:
            scope = await settings.scope_of(request)
            body = _body(request, settings.max_body)
            keyed = Keyed(
                scope,
                request.method,
                settings.route(request) if settings.route else request.get_full_path(),
                await settings.key_of(request, header),
                body,
                await settings.fingerprint_of(request),
                request.headers.get("content-type"),
            )
            added = keyed.added
            response = await serve(self._pool, settings, keyed, handler, request)
        except Problem as problem:
            response = settings.own_response(problem, request)
        finally:
            request.idem_is_open = False
        if sent is not None and response is kept:
            # Django's own, with its cookies and what other middleware has noted on it.
            for name, value in added.items():
                sent.setdefault(name, value)
            return sent
        if sent is not None and sent.streaming:
            # Not before the rollback: it ends with Django's signal that closes connections.
            sent.close()
        return _django_response(with_added(response, added))


def _status_of(error: Exception) -> int | None:
    """Of an exception that Django answers by itself."""
    for kind, status in ((Http404, 404), (PermissionDenied, 403), (SuspiciousOperation, 400), (BadRequest, 400)):
        if isinstance(error, kind):
            return status
    return None


def _error_of(request: HttpRequest, response: HttpResponseBase) -> BaseException | None:
    """The exception of which the response was made: by Django, or by Django REST framework; or there is no such route."""
    error: BaseException | None = getattr(request, "idem_exception", None)
    if error is not None:
        return error
    if getattr(response, "exception", False) or response.status_code == 404 and request.resolver_match is None:
        error = Http404()
    return error


def _response(request: HttpRequest, response: HttpResponseBase, limit: int, error: BaseException | None) -> Response:
    """With the beginning of a response that streams; what is read of it is put back."""
    if response.get("Content-Type", "").startswith("text/event-stream"):
        raise StreamingError(request.path)
    headers = list(response.items())
    if not response.streaming:
        body = response.content
        return Response(response.status_code, headers, body, error, len(body) > limit)
    chunks: list[bytes] = []
    size = 0
    rest = iter(response.streaming_content)
    for chunk in rest:
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            break
    response.streaming_content = itertools.chain(chunks, rest)
    return Response(response.status_code, headers, b"".join(chunks), error, size > limit)


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
