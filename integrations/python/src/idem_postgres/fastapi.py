"""FastAPI: the middleware of ASGI, whose functions are given Starlette's request, and a dependency for handlers."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Unpack

from fastapi import FastAPI, Header
from fastapi.routing import APIRoute
from starlette.requests import Request

from . import asgi
from .http.options import Options
from .http.response import Problem
from .openapi import DESCRIPTION, RESPONSES, require_key
from .run import AsyncRun, Run
from .thrown import watched_scope

__all__ = ["RESPONSES", "IdemMiddleware", "Problem", "idempotent", "idempotent_route", "lifespan"]


class IdemMiddleware(asgi.IdemMiddleware):
    """`app.add_middleware(IdemMiddleware, pool=pool, scope=lambda request: …)`

    Once the server runs, the application's OpenAPI document marks the header as required where the options say so.
    """

    _is_documented = False

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if not self._is_documented and isinstance(app := scope.get("app"), FastAPI):
            self._is_documented = True
            self._document(app)
        await super().__call__(scope, receive, send)

    def request(self, scope: asgi.Scope, body: bytes = b"") -> Request:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(scope, receive)

    def _document(self, app: FastAPI) -> None:
        if self._settings.key_required is False:
            return
        make = app.openapi

        def openapi() -> dict[str, Any]:
            document = make()
            require_key(document, self._settings.methods)
            return document

        setattr(app, "openapi", openapi)


def idempotent_route(*, pool: Any, **options: Unpack[Options]) -> type[APIRoute]:
    """The middleware for some routes: `APIRouter(route_class=idempotent_route(pool=pool, scope=…))`. What the routes of the router
    do is inside: dependencies, the response model, and background tasks, which run after COMMIT."""

    async def nothing(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        pass

    shared = _RouteMiddleware(nothing, pool=pool, **options)

    class IdempotentRoute(APIRoute):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            middleware = copy.copy(shared)
            middleware.app, self.app = self.app, middleware

    return IdempotentRoute


class _RouteMiddleware(IdemMiddleware):
    _is_documented = True  # the application has other routes; `Depends(idempotent)` documents the header

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await super().__call__(watched_scope(scope), receive, send)


def idempotent(request: Request, idempotency_key: str | None = Header(None, description=DESCRIPTION)) -> Any:
    """`Depends(idempotent)`: the request's `Run`, or `AsyncRun` on a pool of an asynchronous driver. Documents the header."""
    run = getattr(request.state, "idem", None)
    if not isinstance(run, (Run, AsyncRun)):
        raise RuntimeError("idempotent needs IdemMiddleware, and a request that has a key or one of the middleware's methods")
    return run


def lifespan(pool: AbstractAsyncContextManager[Any]) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """A lifespan that opens the pool and closes it: `app.router.lifespan_context = lifespan(pool)`. The pool is one of
    psycopg_pool or asyncpg. An application with a lifespan of its own has `async with pool:` there."""

    @asynccontextmanager
    async def opened(app: Any) -> AsyncIterator[None]:
        async with pool:
            yield

    return opened
