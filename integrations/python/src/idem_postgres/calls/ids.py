"""Order numbers: docs/ids.md."""

from __future__ import annotations

from ..call import Call, scalar


def next_id() -> Call[int]:
    """A number that never repeats in this database."""
    return Call("idem_next_id", "*", (), scalar)
