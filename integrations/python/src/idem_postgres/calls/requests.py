"""Rates, signed requests and webhooks: docs/requests.md."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..call import Call, Json, Row, argument, json_argument, scalar
from ..interval import Interval


@dataclass(frozen=True)
class Allowance:
    allowed: bool
    remaining: int
    """Whole units that are left."""
    retry_after_ms: int | None
    """When there would be room. None: it was allowed."""


@dataclass(frozen=True)
class Webhook:
    """`outcome` is accepted (do the work in this transaction), duplicate, stale or invalid."""

    outcome: str
    message_id: str | None


def allow(name: str, rate: float, burst: int, *, cost: int | None = None, scope: str = "") -> Call[Allowance]:
    """Takes `cost` units, 1, from the token bucket of the name, which holds `burst` and regains `rate` a second. In a
    transaction of its own, before the work."""

    def read(rows: Sequence[Row]) -> Allowance:
        allowed, remaining, retry_after_ms = rows[0]
        return Allowance(allowed, remaining, retry_after_ms)

    return Call(
        "idem_allow",
        "allowed, remaining, retry_after_ms",
        (
            argument("name", "text", name),
            argument("rate", "float8", float(rate)),
            argument("burst", "int", burst),
            argument("cost", "int", cost),
            argument("scope", "text", scope),
        ),
        read,
    )


def verify_request(
    params: Mapping[str, Json],
    signature: str,
    key_id: str,
    signed_at: datetime.datetime,
    nonce: str,
    *,
    tolerance: Interval | None = None,
    scope: str | None = None,
) -> Call[str]:
    """Verifies a signed request, and accepts it once. The outcome is accepted (do the work in this transaction), or why not."""
    if signed_at.tzinfo is None:
        raise ValueError("signed_at must have a time zone")
    return Call(
        "idem_verify_request",
        "CAST(answer AS text)",
        (
            json_argument("params", params),
            argument("signature", "text", signature),
            argument("key_id", "text", key_id),
            argument("signed_at", "timestamptz", signed_at.isoformat()),
            argument("nonce", "text", nonce),
            argument("tolerance", "interval", tolerance),
            argument("scope", "text", scope),
        ),
        scalar,
    )


def webhook_receive(source: str, headers: Mapping[str, Json], body: bytes) -> Call[Webhook]:
    """Verifies a webhook, and accepts it once. Answer 2xx after the commit, also for a duplicate."""

    def read(rows: Sequence[Row]) -> Webhook:
        return Webhook(rows[0][0], rows[0][1])

    return Call(
        "idem_webhook_receive",
        "CAST(outcome AS text), message_id",
        (argument("source", "text", source), json_argument("headers", dict(headers)), argument("body", "bytea", body)),
        read,
    )
