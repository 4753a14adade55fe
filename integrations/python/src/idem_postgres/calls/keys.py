"""Idempotency keys: docs/keys.md."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ..call import Argument, Call, Json, Row, argument, column, json_argument, parsed, scalar
from ..interval import Interval


@dataclass(frozen=True)
class Ticket:
    """The answer of `begin` and `execute`. `outcome` is acquired, taken_over, in_flight, completed, mismatch or in_doubt."""

    outcome: str
    fence: int | None
    attempt: int | None
    lease_until: datetime.datetime | None
    status_code: int | None
    response: Json
    response_omitted: bool
    steps: dict[str, Json] | None
    retry_after_ms: int | None

    @property
    def is_mine(self) -> bool:
        """Do the work."""
        return self.outcome in ("acquired", "taken_over")


@dataclass(frozen=True)
class KeyInfo:
    """What became of a key. `state` is in_progress, completed, released or in_doubt. Retention that never ends has no
    `expires_at`."""

    state: str
    status_code: int | None
    response: Json
    response_omitted: bool
    attempt: int | None
    steps: dict[str, Json] | None
    created_at: datetime.datetime
    expires_at: datetime.datetime | None
    lease_until: datetime.datetime | None


_TICKET = (
    "CAST(outcome AS text), fence, attempt, lease_until, status_code, CAST(response AS text), response_omitted,"
    " CAST(steps AS text), retry_after_ms"
)


def _ticket(rows: Sequence[Row]) -> Ticket:
    outcome, fence, attempt, lease_until, status_code, response, omitted, steps, retry_after_ms = rows[0]
    return Ticket(
        outcome, fence, attempt, lease_until, status_code, parsed(response), bool(omitted), parsed(steps), retry_after_ms
    )


def claim(key: str, *, ttl: Interval | None = None, scope: str = "") -> Call[bool]:
    """True: the key is new, do the work in this transaction. False: its work has committed.

    Waits for a holder that has not committed. Raises InFlight when the key is leased or in doubt.
    """
    return Call("idem_claim", "*", _claim_arguments(key, ttl, scope), scalar)


def must_claim(key: str, *, ttl: Interval | None = None, scope: str = "") -> Call[bool]:
    """As `claim`, but a key whose work has committed raises DoneBefore."""
    return Call("idem_must_claim", "*", _claim_arguments(key, ttl, scope), scalar)


def try_claim(key: str, *, ttl: Interval | None = None, scope: str = "") -> Call[str]:
    """As `claim`, never waits. The outcome: acquired, completed, in_flight or in_doubt."""
    return Call("idem_try_claim", "CAST(answer AS text)", _claim_arguments(key, ttl, scope), scalar)


def claim_many(keys: Sequence[str], *, ttl: Interval | None = None, scope: str = "") -> Call[list[str]]:
    """The keys that are new, each once, in the order that was given."""
    return Call(
        "idem_claim_many",
        "*",
        (argument("keys", "text[]", keys), argument("ttl", "interval", ttl), argument("scope", "text", scope)),
        column,
    )


def _claim_arguments(key: str, ttl: Interval | None, scope: str) -> tuple[Argument, ...]:
    return argument("key", "text", key), argument("ttl", "interval", ttl), argument("scope", "text", scope)


def begin(
    key: str,
    *,
    fingerprint: bytes | None = None,
    ttl: Interval | None = None,
    lease: Interval | None = None,
    owner: str | None = None,
    wait: Interval | None = None,
    scope: str = "",
) -> Call[Ticket]:
    """Claims a key, with a fingerprint of the request, an owner, a wait; with `lease`, under a fence: then commit before the
    work."""
    return Call(
        "idem_begin",
        _TICKET,
        (
            argument("key", "text", key),
            argument("fingerprint", "bytea", fingerprint),
            argument("ttl", "interval", ttl),
            argument("lease", "interval", lease),
            argument("owner", "text", owner),
            argument("wait", "interval", wait),
            argument("scope", "text", scope),
        ),
        _ticket,
    )


def complete(
    key: str, response: Json = None, *, status_code: int | None = None, fence: int | None = None, scope: str = ""
) -> Call[bool]:
    """Stores the response. With `fence`: completes a leased key. False: the response was too large to be stored.

    Raises StaleFence when the key is not held with the fence, or, without one, not claimed by this transaction.
    """
    return Call(
        "idem_complete",
        "*",
        (
            argument("key", "text", key),
            argument("response", "jsonb", response),
            argument("status_code", "int", status_code),
            argument("fence", "bigint", fence),
            argument("scope", "text", scope),
        ),
        scalar,
    )


def step(key: str, fence: int, name: str, output: Json = None, *, scope: str = "") -> Call[bool]:
    """Notes a step of a leased key: without output it is intended, with output it is done. True: this call changed the step.

    Raises StaleFence when the key is not held with the fence, or the step is done with another output.
    """
    return Call(
        "idem_step",
        "*",
        (
            argument("key", "text", key),
            argument("fence", "bigint", fence),
            argument("step", "text", name),
            argument("output", "jsonb", output),
            argument("scope", "text", scope),
        ),
        scalar,
    )


def renew(key: str, fence: int, *, lease: Interval | None = None, scope: str = "") -> Call[datetime.datetime]:
    """Makes the lease last from now on; its new end. Raises StaleFence."""
    return Call(
        "idem_renew",
        "*",
        (
            argument("key", "text", key),
            argument("fence", "bigint", fence),
            argument("lease", "interval", lease),
            argument("scope", "text", scope),
        ),
        scalar,
    )


def release(key: str, fence: int, *, scope: str = "") -> Call[bool]:
    """Gives a leased key back undone. Raises StaleFence."""
    return Call(
        "idem_release",
        "*",
        (argument("key", "text", key), argument("fence", "bigint", fence), argument("scope", "text", scope)),
        scalar,
    )


def lookup(key: str, *, scope: str = "") -> Call[KeyInfo | None]:
    """What became of a key. None: there is no live committed key, which does not mean that it is free."""

    def read(rows: Sequence[Row]) -> KeyInfo | None:
        if not rows:
            return None
        state, status_code, response, omitted, attempt, steps, created_at, expires_at, lease_until = rows[0]
        return KeyInfo(
            state, status_code, parsed(response), bool(omitted), attempt, parsed(steps), created_at, expires_at, lease_until
        )

    return Call(
        "idem_lookup",
        "state, status_code, CAST(response AS text), response_omitted, attempt, CAST(steps AS text), created_at,"
        " NULLIF(expires_at, 'infinity'), lease_until",
        (argument("key", "text", key), argument("scope", "text", scope)),
        read,
    )


def execute(
    key: str,
    statement: str,
    args: Sequence[Json] = (),
    *,
    fingerprint: bytes | None = None,
    ttl: Interval | None = None,
    scope: str = "",
) -> Call[Ticket]:
    """Claims, runs one statement with `args` as $1, $2 …, stores its rows as the response. Never waits."""
    return Call(
        "idem_execute",
        _TICKET,
        (
            argument("key", "text", key),
            argument("statement", "text", statement),
            json_argument("args", list(args)),
            argument("fingerprint", "bytea", fingerprint),
            argument("ttl", "interval", ttl),
            argument("scope", "text", scope),
        ),
        _ticket,
    )


def is_owner(key: str, owner: str, *, scope: str = "") -> Call[bool]:
    """Whether the live key was claimed with this owner: after a COMMIT whose reply was lost."""
    return Call(
        "idem_is_owner",
        "*",
        (argument("key", "text", key), argument("owner", "text", owner), argument("scope", "text", scope)),
        scalar,
    )


def serialize(key: str, *, scope: str = "") -> Call[bool]:
    """Until this transaction ends, other calls with the key wait. Claims nothing."""
    return Call("idem_serialize", "*", (argument("key", "text", key), argument("scope", "text", scope)), scalar)


def hit(key: str, *, ttl: Interval | None = None, scope: str = "") -> Call[int]:
    """Counts a hit. How many there were within `ttl`; 1 is the first."""
    return Call("idem_hit", "*", _claim_arguments(key, ttl, scope), scalar)
