"""The Idempotency-Key header: docs/http.md. The middleware calls these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..call import Call, Json, Row, argument, nullable, parsed, scalar
from ..interval import Interval


@dataclass(frozen=True)
class HttpAnswer:
    """`action` is run, replay or reject."""

    action: str
    status: int | None
    headers: Mapping[str, Json]
    body: bytes
    fence: int | None
    code: str | None = None
    """The error's code, in every form of its body; of run: unkeyed, when nothing was claimed."""


def http_begin(
    scope: str,
    method: str,
    route: str,
    header: str | None,
    body: bytes,
    *,
    lease: Interval | None = None,
    wait: Interval | None = None,
    ttl: Interval | None = None,
    fingerprint: bytes | None = None,
    content_type: str | None = None,
) -> Call[HttpAnswer]:
    """`fingerprint`: the caller's own digest, in the place of route and body. `content_type`: the header field, for scopes that
    compare JSON."""

    def read(rows: Sequence[Row]) -> HttpAnswer:
        action, status, headers, body, fence, code = rows[0]
        return HttpAnswer(action, status, parsed(headers) or {}, b"" if body is None else bytes(body), fence, code)

    return Call(
        "idem_http_begin",
        "action, status, CAST(headers AS text), body_bytes, fence, code",
        (
            argument("scope", "text", scope),
            argument("method", "text", method),
            argument("route", "text", route),
            nullable("idempotency_key", "text", header),
            argument("body_bytes", "bytea", body if fingerprint is None else None),
            argument("lease", "interval", lease),
            argument("wait", "interval", wait),
            argument("ttl", "interval", ttl),
            argument("fingerprint", "bytea", fingerprint),
            argument("content_type", "text", content_type),
        ),
        read,
    )


def http_complete(
    scope: str,
    header: str | None,
    status: int,
    headers: Mapping[str, Json],
    body: bytes,
    *,
    fence: int | None = None,
    omit: bool = False,
) -> Call[str]:
    """stored; omitted: the response is too large, commit; released: a status that the scope does not store, roll back; unkeyed.

    `omit`: status and headers are stored, the body is not."""
    return Call(
        "idem_http_complete",
        "CAST(answer AS text)",
        (
            argument("scope", "text", scope),
            nullable("idempotency_key", "text", header),
            argument("status", "int", status),
            argument("headers", "jsonb", headers),
            argument("body_bytes", "bytea", None if omit else body),
            argument("fence", "bigint", fence),
            argument("omit", "boolean", omit or None),
        ),
        scalar,
    )


def http_key(header: str, *, scope: str | None = None) -> Call[str | None]:
    """The key in the header of a request in the scope, as the other functions take it. None: malformed."""
    return Call("idem_http_key", "*", (nullable("idempotency_key", "text", header), argument("scope", "text", scope)), scalar)
