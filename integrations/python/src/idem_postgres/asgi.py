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

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
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
        try:
            keyed = Keyed(
                await self._settings.scope_of(request),
                scope["method"],
                self._settings.route(request) if self._settings.route else _route(scope),
                header,
                await _body(scope, receive, self._settings.max_body),
            )
        except Problem as problem:
            return await _send(send, problem.response())
        exchange = _Exchange(self.app, scope, keyed.body)
        try:
            response = await serve(self._pool, self._settings, keyed, exchange.start)
        except BaseException as error:
            return await exchange.fail(error)
        await _send(send, with_added(response, keyed.added))
        await exchange.finish(response)

    def request(self, scope: Scope) -> Any:
        """What the functions of the options are given."""
        headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        return Request(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers, scope)


class _Exchange:
    """The application's side of a request: its body is there already, and its response is kept until it may be sent."""

    def __init__(self, app: App, scope: Scope, body: bytes) -> None:
        # No extension by which an application sends a response past `send`.
        self._scope: dict[str, Any] = {**scope, "extensions": {}}
        self._app = app
        self._body: bytes | None = body
        self._head: Message | None = None
        self._chunks: list[bytes] = []
        self._flushes = 0
        self._response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def start(self, run: Run | AsyncRun) -> Response:
        """Calls the application, until its response is complete. The application goes on in its task."""
        self._scope.setdefault("state", {})["idem"] = run
        with as_current(run):
            self._task = asyncio.create_task(self._run())
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

    async def finish(self, response: Response) -> None:
        """A response was sent. If it was the application's, the application goes on after it; in the place of another one, its work
        was undone, and what it would do now must not happen."""
        if self._task is None:
            return
        if not self._task.done():
            if self._response.exception() is None and response is self._response.result():
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

    async def _run(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        """The body once. A client that disconnects is not told of: the work is finished."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.shield(self._sent)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message
            if any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"]
            ):
                self._refuse()
        elif message["type"] == "http.response.body":
            await self._add(message.get("body", b""), message.get("more_body", False))

    async def _add(self, chunk: bytes, is_more: bool) -> None:
        if self._response.done():
            return
        self._chunks.append(chunk)
        if is_more:
            self._flushes += bool(chunk)
            if self._flushes > 1:
                self._refuse()
            return
        assert self._head is not None, "http.response.body before http.response.start"
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._head.get("headers", [])]
        self._response.set_result(Response(self._head["status"], headers, b"".join(self._chunks)))
        await asyncio.shield(self._sent)

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
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
