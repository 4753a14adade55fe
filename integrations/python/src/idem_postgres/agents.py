"""Tools of agents that take effect once: for LangChain, LangGraph and OpenAI Agents. docs/agents.md describes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from .interval import Interval
from .tools import Key, Outcome, Scope, Settings, ToolRefused, tool_of

__all__ = ["Outcome", "ToolRefused", "idempotent"]

_CONTEXTS = frozenset({"ToolRuntime", "ToolContext"})


def idempotent(
    pool: Any,
    *,
    scope: Scope,
    key: Key = "call",
    identity: Iterable[str] | None = None,
    lease: Interval | None = None,
    ttl: Interval | None = None,
    wait: Interval = "10 s",
    schema: str = "idem",
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]:
    """`@tool` of LangChain or `@function_tool` of OpenAI Agents, and below it `@idempotent(pool, scope=…)`, as of
    idem_postgres.mcp. `key` is "call" by default: the SDK's id of the call, `tool_call_id` of a parameter with `ToolRuntime` or
    `ToolContext`. `scope` is a function of that context, and names the user and the thread.

    A call that is refused returns the text for the model: an error would get the SDK's advice to try again. Omitted results, too.
    """
    names = None if identity is None else tuple(identity)
    settings = Settings(
        pool, scope, key, names, lease, ttl, wait, schema, on_outcome, _CONTEXTS, lambda context: getattr(context, "tool_call_id", None), str
    )
    return lambda function: tool_of(function, settings)
