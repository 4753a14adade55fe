"""FastAPI: the middleware of ASGI, whose functions are given Starlette's request, and a dependency for handlers."""

from __future__ import annotations

from typing import Any

from fastapi import Header
from starlette.requests import Request

from . import asgi
from .run import AsyncRun, Run
from .openapi import DESCRIPTION


class IdemMiddleware(asgi.IdemMiddleware):
    """`app.add_middleware(IdemMiddleware, pool=pool, scope=lambda request: …)`"""

    def request(self, scope: asgi.Scope) -> Request:
        return Request(scope)


def idempotent(request: Request, idempotency_key: str | None = Header(None, description=DESCRIPTION)) -> Any:
    """`Depends(idempotent)`: the request's `Run`, or `AsyncRun` on a pool of an asynchronous driver. Documents the header."""
    run = getattr(request.state, "idem", None)
    if not isinstance(run, (Run, AsyncRun)):
        raise RuntimeError("idempotent needs IdemMiddleware, and a method that it looks at")
    return run
