"""Tools of an MCP server that take effect once: for FastMCP, and the FastMCP of the official SDK. docs/agents.md describes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from .interval import Interval
from .tools import Key, Outcome, Scope, Settings, ToolRefused, tool_of

__all__ = ["Outcome", "ToolRefused", "idempotent"]


def idempotent(
    pool: Any,
    *,
    scope: Scope,
    key: Key,
    identity: Iterable[str] | None = None,
    lease: Interval | None = None,
    ttl: Interval | None = None,
    wait: Interval = "10 s",
    call_keys: Iterable[str] = (),
    error: Callable[[str], Exception] | None = None,
    schema: str = "idem",
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]:
    """`@mcp.tool()` and below it `@idempotent(pool, scope=…, key=…)`. The function has a parameter `run`, or with `lease` a parameter
    `work`, which the SDK does not see: what `once` and `leased` give to work. A coroutine function needs an asynchronous pool.

    `key`: "argument" adds the argument `idempotency_key`, which the model gives; "call" is an id that the host sends in `_meta`
    (`idempotencyKey`, `io.modelcontextprotocol/idempotencyKey`, `call_keys`) or in the header field Idempotency-Key, and needs a
    parameter with the SDK's `Context`; or a function of the arguments, a dict. `identity` names the arguments that make it the
    same call (default: all). `scope` is the authenticated user, or a function of the context, which is None without such a parameter.

    A call that is refused raises ToolRefused, or what `error` makes of its text: the SDK's ToolError, where it hides other errors.
    """

    def call_id(context: Any) -> str | None:
        return _call_id(context, tuple(call_keys))

    def refuse(refused: ToolRefused) -> Any:
        raise refused if error is None else error(str(refused)) from refused

    settings = Settings(
        pool, scope, key, _listed(identity), lease, ttl, wait, schema, on_outcome, frozenset({"Context"}), call_id, refuse
    )
    return lambda function: tool_of(function, settings)


def _listed(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _call_id(context: Any, call_keys: tuple[str, ...]) -> str | None:
    request = context.request_context
    meta = request.meta
    members = meta if isinstance(meta, dict) else getattr(meta, "model_extra", None) or {}
    for name in ("idempotencyKey", "io.modelcontextprotocol/idempotencyKey", *call_keys):
        if isinstance(members.get(name), str) and members[name]:
            return str(members[name])
    headers = getattr(getattr(request, "request", None), "headers", None)
    field: str | None = headers.get("idempotency-key") if headers is not None else None
    return field[1:-1] if field and len(field) > 2 and field[0] == field[-1] == '"' else field
