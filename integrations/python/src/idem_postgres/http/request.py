"""What the options' functions are given where the framework has no request of its own, and what a flow needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """`headers` has names in lower case. `raw` is the scope of ASGI or the environ of WSGI."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Keyed:
    """A request whose scope is known and whose body was read. `header` is the field's value as it came."""

    scope: str
    method: str
    route: str
    header: str | None
    body: bytes
