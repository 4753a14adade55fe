"""One-time tokens: docs/tokens.md."""

from __future__ import annotations

from ..call import Call, argument, scalar
from ..interval import Interval


def issue_token(subject: str = "", *, ttl: Interval | None = None, scope: str = "") -> Call[str]:
    """A token that only this subject redeems, once. Writes nothing."""
    return Call(
        "idem_token_issue",
        "*",
        (argument("subject", "text", subject), argument("ttl", "interval", ttl), argument("scope", "text", scope)),
        scalar,
    )


def redeem_token(token: str, subject: str = "", *, scope: str = "") -> Call[str]:
    """The outcome: accepted (do the work in this transaction), duplicate, in_flight, expired or invalid."""
    return Call(
        "idem_token_redeem",
        "CAST(answer AS text)",
        (argument("token", "text", token), argument("subject", "text", subject), argument("scope", "text", scope)),
        scalar,
    )
