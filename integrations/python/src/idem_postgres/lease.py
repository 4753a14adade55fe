"""A lease as a state machine without I/O: what is to be done, and when it wants to be asked next.

Times are milliseconds of one monotonic clock. The lease counts from before the claim or the renewal was sent, because its
answer may come late. tests/vectors/lease.json has the cases. Not thread-safe.
"""

from __future__ import annotations

from typing import Literal

Ask = Literal["renew", "work", "lost expired", "lost stale", "complete", "release"]


class Lease:
    def __init__(self, length: float) -> None:
        self._length = length
        self._sent = 0.0
        self._until = 0.0
        self._next = 0.0
        self._renewal_sent: float | None = None
        self._state: Literal["idle", "waiting", "held", "lost", "ended"] = "idle"
        self._is_stale = False

    @property
    def is_lost(self) -> bool:
        return self._state == "lost"

    @property
    def is_stale(self) -> bool:
        """The database has said that the fence is no longer the key's."""
        return self._is_stale

    @property
    def due(self) -> float | None:
        """When to call `tick`. None: never."""
        if self._state not in ("waiting", "held"):
            return None
        return self._until if self._renewal_sent is not None else min(self._until, self._next)

    def claim(self, at: float) -> list[Ask]:
        """A claim is sent."""
        self._sent = at
        return []

    def acquired(self, at: float) -> list[Ask]:
        """The claim was granted. Work begins when "work" is asked for."""
        self._granted(self._sent)
        if at >= self._until:
            return self._lose("lost expired")
        if at >= self._next:
            self._state, self._renewal_sent = "waiting", at
            return ["renew"]
        self._state = "held"
        return ["work"]

    def tick(self, at: float) -> list[Ask]:
        """The time of `due` has come, or the caller wants to know."""
        if self._state not in ("waiting", "held"):
            return []
        if at >= self._until:
            return self._lose("lost expired")
        if at >= self._next and self._renewal_sent is None:
            self._renewal_sent = at
            return ["renew"]
        return []

    def renewed(self, at: float) -> list[Ask]:
        if self._renewal_sent is None or self._state not in ("waiting", "held"):
            return []
        self._granted(self._renewal_sent)
        self._renewal_sent = None
        if self._state == "held":
            return []
        if at >= self._until:
            return self._lose("lost expired")
        self._state = "held"
        return ["work"]

    def stale(self, at: float) -> list[Ask]:
        """Another caller has the key."""
        self._is_stale = self._state in ("waiting", "held", "lost")
        return self._lose("lost stale") if self._state in ("waiting", "held") else []

    def failed(self, at: float) -> list[Ask]:
        """It is not known whether a renewal succeeded."""
        if self._state in ("waiting", "held"):
            self._renewal_sent = None
            self._next = at + self._length / 10
        return []

    def returned(self, at: float) -> list[Ask]:
        """The work is done. After a lease that expired, its fence decides in the database."""
        return self._end("complete")

    def threw(self, at: float) -> list[Ask]:
        return self._end("release")

    def _granted(self, sent: float) -> None:
        self._until = sent + self._length
        self._next = sent + self._length / 3

    def _lose(self, ask: Ask) -> list[Ask]:
        self._state = "lost"
        return [ask]

    def _end(self, ask: Ask) -> list[Ask]:
        was_ended, self._state = self._state == "ended", "ended"
        return [] if was_ended or self._is_stale else [ask]
