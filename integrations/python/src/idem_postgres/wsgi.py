"""Middleware for WSGI applications: Flask, Bottle, Pyramid and others."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Unpack

from .http.body import too_large, truncated
from .http.serve import serve
from .http.options import Options, Settings
from .http.request import Headers, Keyed, Request
from .http.response import Problem, Response, with_added
from .run import AsyncRun, Run, as_current
from .http.streaming import StreamingError
from .pool import blocking_pool, finish
from .thrown import NOTE, watch_flask

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class IdemMiddleware:
    """`app.wsgi_app = IdemMiddleware(app.wsgi_app, pool=pool, scope=lambda request: …)`, with the keyword arguments of
    `Options`.

    The handler finds its `Run` by `current()`, or in `environ["idem"]`. The pool is one of a blocking driver.
    """

    def __init__(self, app: App, *, pool: Any, **options: Unpack[Options]) -> None:
        self.app = app
        self._settings = Settings(**options)
        self._pool = blocking_pool(pool, self._settings.schema, "WSGI needs a pool of a blocking driver")
        watch_flask(app)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        header = environ.get("HTTP_" + self._settings.header.upper().replace("-", "_"))
        request = _request(environ)
        # With a note the request has an exchange: mounted twice.
        if NOTE in environ or not self._settings.applies(request, request.method, header):
            return self.app(environ, start_response)
        exchange = _Exchange(self.app, environ, self._settings.max_response)
        response = finish(self._serve(request, environ, header, exchange))
        start_response(_status_line(response.status), list(response.headers))
        if response.is_large:
            return _Rest(response.body, exchange)
        return _Whole(response.body, exchange)

    async def _serve(self, request: Request, environ: Environ, header: str | None, exchange: _Exchange) -> Response:
        settings = self._settings
        try:
            scope = await settings.scope_of(request)
            request = replace(request, body=_body(environ, settings.max_body))
            keyed = Keyed(
                scope,
                request.method,
                settings.route(request) if settings.route else _route(request),
                await settings.key_of(request, header),
                request.body,
                await settings.fingerprint_of(request),
                request.headers.get("content-type"),
            )
        except Problem as problem:
            return settings.own_response(problem, request)
        environ["wsgi.input"] = io.BytesIO(keyed.body)
        environ["CONTENT_LENGTH"] = str(len(keyed.body))
        try:
            return with_added(await serve(self._pool, settings, keyed, exchange.start, request), keyed.added)
        except BaseException:
            exchange.close()
            raise


class _Exchange:
    """The application's side of a request: its response is kept until it may be sent."""

    def __init__(self, app: App, environ: Environ, max_response: int) -> None:
        self._app = app
        self._environ = environ
        self._notes: list[BaseException] = []
        self._max_response = max_response
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._written: list[bytes] = []
        self._iterable: Iterable[bytes] = ()
        self.rest: Iterator[bytes] = iter(())

    async def start(self, run: Run | AsyncRun) -> Response:
        self._environ["idem"] = run
        self._environ[NOTE] = self._notes
        with as_current(run):
            self._iterable = self._app(self._environ, self._start_response)
            self.rest = self._chunks(self._iterable)
            chunks: list[bytes] = []
            size = 0
            for chunk in self.rest:
                chunks.append(chunk)
                size += len(chunk)
                if size > self._max_response:
                    break
        error = self._notes[-1] if self._notes else None
        return Response(self._status, self._headers, b"".join(chunks), error, size > self._max_response)

    def close(self) -> None:
        """What the application does after the response."""
        if close := getattr(self._iterable, "close", None):
            close()

    def _start_response(
        self,
        status: str,
        headers: list[tuple[str, str]],
        exc_info: tuple[type[BaseException], BaseException, TracebackType] | None = None,
    ) -> Callable[[bytes], None]:
        self._status = int(status.split(" ", 1)[0])
        self._headers = list(headers)
        if any(name.lower() == "content-type" and value.startswith("text/event-stream") for name, value in headers):
            raise StreamingError(self._environ["PATH_INFO"])
        return self._written.append

    def _chunks(self, iterable: Iterable[bytes]) -> Iterator[bytes]:
        """With what the application has written by `write`."""
        for chunk in iterable:
            yield from self._written
            self._written.clear()
            yield chunk
        yield from self._written


class _Whole:
    """The server calls `close` when the response was sent."""

    def __init__(self, body: bytes, exchange: _Exchange) -> None:
        self._body = body
        self.close = exchange.close

    def __iter__(self) -> Iterator[bytes]:
        yield self._body

    def __len__(self) -> int:
        return 1


class _Rest:
    """A large response: the beginning, and then what follows it."""

    def __init__(self, body: bytes, exchange: _Exchange) -> None:
        self._body = body
        self._exchange = exchange
        self.close = exchange.close

    def __iter__(self) -> Iterator[bytes]:
        yield self._body
        yield from self._exchange.rest


def _request(environ: Environ) -> Request:
    fields = [(name.removeprefix("HTTP_").replace("_", "-"), value) for name, value in environ.items() if _is_field(name)]
    # WSGI has bytes in latin-1.
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
    return Request(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), Headers(fields), environ)


def _is_field(name: str) -> bool:
    return name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")


def _route(request: Request) -> str:
    return f"{request.path}?{request.query}" if request.query else request.path


def _body(environ: Environ, limit: int) -> bytes:
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isdigit():
        if int(length) > limit:
            raise too_large(limit)
        body: bytes = environ["wsgi.input"].read(int(length))
        if len(body) < int(length):
            raise truncated()
    elif environ.get("wsgi.input_terminated"):  # a chunked body, from a server that ends it
        body = environ["wsgi.input"].read(limit + 1)
    else:
        body = b""
    if len(body) > limit:
        raise too_large(limit)
    return body


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} "
