"""Notes the errors that a framework turns into responses by itself: a thrown error rolls back, a returned response is stored.

Starlette and FastAPI do so in their ExceptionMiddleware, Flask in `handle_user_exception`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

from .sessions import is_a

NOTE = "idem_postgres.thrown"
"""Where the error is, in the scope of ASGI and the environ of WSGI: a list, which copies of the scope share."""


def note(scope: MutableMapping[str, Any], error: BaseException) -> None:
    if (notes := scope.get(NOTE)) is not None:
        notes.append(error)


def watch_starlette(app: Any) -> None:
    """`app` is what is inside of the middleware."""
    for layer in _layers(app):
        if is_a(layer, "starlette.middleware.exceptions.ExceptionMiddleware", "starlette.exceptions.ExceptionMiddleware"):
            for handlers in (layer._exception_handlers, layer._status_handlers):
                for kind, handler in list(handlers.items()):
                    handlers[kind] = _noting(handler)


def watched_scope(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """For a middleware of one route: from Starlette 0.30 on, the route itself calls the handlers that are in the scope."""
    name = "starlette.exception_handlers"
    if name not in scope:
        return scope
    watched = tuple({kind: _noting(handler) for kind, handler in handlers.items()} for handlers in scope[name])
    return {**scope, name: watched}


def watch_flask(app: Any) -> None:
    for layer in _layers(app):
        flask = getattr(layer, "__self__", layer)
        if is_a(flask, "flask.app.Flask") and not hasattr(flask.handle_user_exception, "_is_watched"):
            flask.handle_user_exception = _noting_flask(flask.handle_user_exception)


def _layers(app: Any) -> list[Any]:
    layers: list[Any] = []
    while app is not None and len(layers) < 100:
        layers.append(app)
        app = getattr(app, "app", None)
    return layers


def _noting(handler: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(handler, "_is_watched"):
        return handler
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):

        @functools.wraps(handler)
        async def noted_later(request: Any, error: Exception) -> Any:
            note(request.scope, error)
            return await handler(request, error)

        noted: Callable[..., Any] = noted_later
    else:

        @functools.wraps(handler)
        def noted_now(request: Any, error: Exception) -> Any:
            note(request.scope, error)
            return handler(request, error)

        noted = noted_now
    setattr(noted, "_is_watched", True)
    return noted


def _noting_flask(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def noted(error: Exception) -> Any:
        from flask import request

        note(request.environ, error)
        return handler(error)

    setattr(noted, "_is_watched", True)
    return noted
