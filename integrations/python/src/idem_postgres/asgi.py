"""Middleware for ASGI applications: Starlette, FastAPI, Quart and others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Unpack

from .http.body import too_large, truncated
from .http.serve import serve
from .http.options import Options, Settings
from .http.request import Headers, Keyed, Request
from .http.response import Problem, Response, with_added
from .run import AsyncRun, Run, as_current
from .http.streaming import StreamingError
from .pool import Pool
from .thrown import NOTE, watch_starlette

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
BODY = "idem_postgres.body"
"""Where `multipart_fingerprint` finds the body in a request of Starlette."""


class IdemMiddleware:
    """`IdemMiddleware(app, pool=pool, scope=lambda request: …)`, with the keyword arguments of `Options`.

    The handler finds its `Run` in `request.state.idem`, or by `current()` or `current_async()`. The response is sent after
    COMMIT; background tasks of the response run after that.
    """

    def __init__(self, app: App, *, pool: Any, **options: Unpack[Options]) -> None:
        self.app = app
        self._settings = Settings(**options)
        self._pool = Pool(pool, self._settings.schema, in_loop=True)
        self._tasks: set[asyncio.Task[None]] = set()
        watch_starlette(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or NOTE in scope:  # with a note the request has an exchange: mounted twice
            return await self.app(scope, receive, send)
        header = _header(scope, self._settings.header)
        request = self.request(scope)
        if not self._settings.applies(request, scope["method"], header):
            return await self.app(scope, receive, send)
        # A task of its own: the work is finished and committed even if the server cancels the request of a client that is gone.
        task = asyncio.create_task(self._serve(request, scope, receive, send, header))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def _serve(self, request: Any, scope: Scope, receive: Receive, send: Send, header: str | None) -> None:
        settings = self._settings
        try:
            scope_of_key = await settings.scope_of(request)
            body = await _body(scope, receive, settings.max_body)
            request = self.request({**scope, BODY: body}, body)
            keyed = Keyed(
                scope_of_key,
                scope["method"],
                settings.route(request) if settings.route else _route(scope),
                await settings.key_of(request, header),
                body,
                await settings.fingerprint_of(request),
                request.headers.get("content-type"),
            )
        except Problem as problem:
            return await _send(send, settings.own_response(problem, request))
        exchange = _Exchange(self.app, scope, keyed, send, settings.max_response)
        try:
            response = await serve(self._pool, settings, keyed, exchange.start, request)
        except BaseException as error:
            return await exchange.fail(error)
        if response.is_large:
            await exchange.go_on(response)
        else:
            await _send(send, with_added(response, keyed.added))
        await exchange.finish(response)

    def request(self, scope: Scope, body: bytes = b"") -> Any:
        """What the functions of the options are given."""
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        return Request(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers, scope, body)


class _Exchange:
    """The application's side of a request: its body is there already, and its response is kept until it may be sent."""

    def __init__(self, app: App, scope: Scope, keyed: Keyed, send: Send, max_response: int) -> None:
        self._notes: list[BaseException] = []
        # No extension by which an application sends a response past `send`.
        self._scope: dict[str, Any] = {**scope, "extensions": {}, NOTE: self._notes}
        self._app = app
        self._keyed = keyed
        self._body: bytes | None = keyed.body
        self._send_now = send
        self._max_response = max_response
        self._head: Message | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._run: Run | AsyncRun | None = None
        self._response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._streamed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, run: Run | AsyncRun) -> Response:
        """Calls the application, until its response is complete. The application goes on in its task."""
        self._run = run
        self._scope["state"] = {**self._scope.get("state", {}), "idem": run}
        with as_current(run):
            self._task = asyncio.create_task(self._run_app())
        try:
            pending: set[asyncio.Future[Any]] = {self._task, self._response}
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._task.cancel()
            raise
        if not self._response.done():
            self._task.result()
            raise RuntimeError("the application ended without a response")
        return self._response.result()

    async def go_on(self, response: Response) -> None:
        """Sends the beginning of a large response; the rest passes through `finish`."""
        assert self._head is not None
        head = with_added(response, self._keyed.added)
        await self._send_now({**self._head, "headers": _fields(head)})
        await self._send_now({"type": "http.response.body", "body": response.body, "more_body": True})

    async def finish(self, response: Response) -> None:
        """A response was sent. If it was the application's and was committed, the application goes on after it; else its work was
        undone, and what it would do now must not happen."""
        if self._task is None:
            return
        if not self._task.done():
            is_own = self._response.done() and self._response.exception() is None and response is self._response.result()
            if is_own and self._run is not None and self._run.life.is_committed:
                self._sent.set_result(None)
                await self._task
                return
            self._sent.set_exception(RuntimeError("the work of this response was undone"))
            self._sent.exception()  # retrieved: the application may not wait for it
            await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()

    async def fail(self, error: BaseException) -> None:
        """Hands an error that came after the response to the application, whose own error handling answers."""
        if self._task is None or self._task.done():
            raise error
        self._sent.set_exception(error)
        await self._task
        raise error

    async def _run_app(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        """The body once. A client that disconnects is not told of: the work is finished."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.shield(self._sent)
        if self._response.result().is_large:  # an application that learns of the end of its client stops its stream
            await self._streamed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message
            if any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"]
            ):
                self._refuse()
        elif message["type"] == "http.response.body":
            await self._add(message)

    async def _add(self, message: Message) -> None:
        if self._response.done():
            if self._sent.done() and self._response.result().is_large:
                await self._send_now(message)
                if not message.get("more_body", False):
                    self._streamed.set()
            return
        is_more = message.get("more_body", False)
        self._chunks.append(message.get("body", b""))
        self._size += len(self._chunks[-1])
        is_large = self._size > self._max_response
        if is_more and not is_large:
            return
        assert self._head is not None, "http.response.body before http.response.start"
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._head.get("headers", [])]
        error = self._notes[-1] if self._notes else None
        self._response.set_result(Response(self._head["status"], headers, b"".join(self._chunks), error, is_large))
        await asyncio.shield(self._sent)
        if is_large and not is_more:
            await self._send_now({"type": "http.response.body", "body": b""})
            self._streamed.set()

    def _refuse(self) -> None:
        error = StreamingError(self._scope["path"])
        if not self._response.done():
            self._response.set_exception(error)
        raise error


def _header(scope: Scope, name: str) -> str | None:
    """Several lines are joined: a list, which idem rejects."""
    wanted = name.lower().encode("latin-1")
    values = [value.decode("latin-1").strip() for header, value in scope["headers"] if header == wanted]
    return ", ".join(values) if values else None


def _route(scope: Scope) -> str:
    path: str = scope["path"]
    query: str = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


async def _body(scope: Scope, receive: Receive, limit: int) -> bytes:
    length = _header(scope, "content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise truncated()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise too_large(limit)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _send(send: Send, response: Response) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": _fields(response)})
    await send({"type": "http.response.body", "body": response.body})


def _fields(response: Response) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
