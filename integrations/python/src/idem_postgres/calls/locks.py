"""Lease locks: docs/locks.md. `idem_postgres.lock` renews and frees by itself."""

from __future__ import annotations

from ..call import Argument, Call, argument, scalar
from ..interval import Interval


def lock(
    name: str,
    *,
    ttl: Interval | None = None,
    owner: str | None = None,
    wait: Interval | None = None,
    scope: str = "",
) -> Call[int | None]:
    """Takes a lock: its fence, or None when it is busy. Call it in a transaction of its own, and commit."""
    return Call(
        "idem_lock",
        "*",
        (
            argument("name", "text", name),
            argument("lease", "interval", ttl),
            argument("owner", "text", owner),
            argument("wait", "interval", wait),
            argument("scope", "text", scope),
        ),
        scalar,
    )


def lock_renew(name: str, fence: int, *, ttl: Interval | None = None, scope: str = "") -> Call[bool]:
    """The lease lasts from now on. False: the lock is no longer yours; stop working."""
    return Call(
        "idem_lock_renew",
        "*",
        (
            argument("name", "text", name),
            argument("fence", "bigint", fence),
            argument("lease", "interval", ttl),
            argument("scope", "text", scope),
        ),
        scalar,
    )


def unlock(name: str, fence: int, *, scope: str = "") -> Call[bool]:
    """Gives the lock back. False: it was no longer yours."""
    return Call("idem_unlock", "*", _held(name, fence, scope), scalar)


def assert_fence(name: str, fence: int, *, scope: str = "") -> Call[bool]:
    """Nobody takes the lock over until this transaction ends. Raises StaleFence when it is not held with this fence."""
    return Call("idem_assert_fence", "*", _held(name, fence, scope), scalar)


def _held(name: str, fence: int, scope: str) -> tuple[Argument, ...]:
    return argument("name", "text", name), argument("fence", "bigint", fence), argument("scope", "text", scope)
