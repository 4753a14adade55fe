"""What the options' functions are given where the framework has no request of its own, and what a flow needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class Headers(Mapping[str, str]):
    """Header fields. A name is found in any case. The lines of a field that comes twice are joined with a comma."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in fields:
            key = name.lower()
            self._values[key] = f"{self._values[key]}, {value}" if key in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class Request:
    """`raw` is the scope of ASGI or the environ of WSGI."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    raw: Mapping[str, Any]
    body: bytes = b""
    """For `fingerprint` and `key_from`."""


@dataclass(frozen=True)
class Keyed:
    """A request whose scope is known and whose body was read. `header` is the field's value as it came, `added` has the header
    fields that idem adds to each response from the claim on."""

    scope: str
    method: str
    route: str
    header: str | None
    body: bytes
    fingerprint: bytes | None = None
    content_type: str | None = None
    added: dict[str, str] = field(default_factory=dict)
