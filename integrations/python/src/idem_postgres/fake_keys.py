"""idem's keys in memory, for `fake`: the functions of SQL as methods, whose rows a `Call` reads."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from .call import Call, T
from .http.response import Problem
from .interval import interval_seconds

_UNSTORED = re.compile(
    r"set-cookie2?|connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade|date|content-length", re.IGNORECASE
)
_HEADER = re.compile(r'"([^"\\]+)"(?:;.*)?|([^",;\s]+)', re.ASCII)

Place = tuple[str, str]
Rows = list[tuple[Any, ...]]


class FakeError(Exception):
    """Has the SQLSTATE of the error that idem raises."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


@dataclass(frozen=True)
class Record:
    """Is replaced and never changed, so that a rollback puts the old one back. `lease_until`: of `time.time()`."""

    fingerprint: bytes | None
    owner: str | None
    attempt: int
    steps: dict[str, Any]
    fence: int | None
    lease_until: float | None
    state: str = "in_progress"
    status_code: int | None = None
    response: str | None = None
    is_omitted: bool = False
    created_at: float = field(default_factory=time.time)


Undo = dict[Place, Record | None]
"""What a rollback puts back."""


class FakeKeys:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[Place, Record] = {}
        self._fence = 0

    def call(self, call: Call[T], undo: Undo | None) -> T:
        """None: the call is a transaction of its own."""
        function = getattr(self, "_" + call.function, None)
        if function is None:
            raise NotImplementedError(f"the fake has no {call.function}: test it with PostgreSQL")
        arguments = {argument.name: argument.value for argument in call.given()}
        with self._lock:
            touched: Undo = {} if undo is None else undo
            rows = function(touched, **{"scope": "", **arguments})
            if undo is None:
                self._commit(touched)
        return call.read(rows)

    def commit(self, undo: Undo) -> None:
        with self._lock:
            self._commit(undo)

    def restore(self, undo: Undo) -> None:
        with self._lock:
            for place, record in undo.items():
                if record is None:
                    self._records.pop(place, None)
                else:
                    self._records[place] = record

    def clear(self) -> None:
        with self._lock:
            self._records.clear()

    def _commit(self, undo: Undo) -> None:
        """A claim without a lease that is committed is done, whether or not it has a response."""
        for place in undo:
            record = self._records.get(place)
            if record and record.state == "in_progress" and record.lease_until is None:
                self._records[place] = replace(record, state="completed")

    def _set(self, undo: Undo, place: Place, record: Record) -> None:
        undo.setdefault(place, self._records.get(place))
        self._records[place] = record

    def _claim(
        self, undo: Undo, place: Place, fingerprint: bytes | None = None, lease: str | None = None, owner: str | None = None
    ) -> tuple[str, Record]:
        """acquired, taken_over, completed, in_flight or mismatch; and the record."""
        old, now = self._records.get(place), time.time()
        if old and old.state != "released" and None not in (old.fingerprint, fingerprint) and old.fingerprint != fingerprint:
            return "mismatch", old
        is_own = place in undo and old is not None and old.lease_until is None  # claimed by this transaction
        if old and (old.state == "completed" or old.state == "in_progress" and is_own):
            return "completed", old
        until = None if lease is None else now + interval_seconds("lease", lease)
        if old and old.state == "in_progress" and owner is not None and old.owner == owner:
            self._set(undo, place, replace(old, lease_until=until))
            return "acquired", self._records[place]
        if old and old.state == "in_progress" and (old.lease_until is None or old.lease_until > now):
            return "in_flight", old
        if lease is not None:
            self._fence += 1
        attempt, steps = (old.attempt + 1, old.steps) if old else (1, {})
        record = Record(fingerprint, owner, attempt, steps, self._fence if lease is not None else None, until)
        self._set(undo, place, record)
        return ("taken_over" if old and old.state == "in_progress" else "acquired"), record

    def _held(self, place: Place, fence: int | None) -> Record:
        record = self._records.get(place)
        if record is None or record.state != "in_progress" or record.fence != fence:
            raise FakeError("ID001", f'key "{place[1]}" is not held with fence {fence}')
        return record

    def _idem_claim(self, undo: Undo, key: str, scope: str, ttl: str | None = None) -> Rows:
        outcome, _ = self._claim(undo, (scope, key))
        if outcome == "in_flight":
            raise FakeError("ID005", f'key "{key}" is in flight')
        return [(outcome in ("acquired", "taken_over"),)]

    def _idem_must_claim(self, undo: Undo, key: str, scope: str, ttl: str | None = None) -> Rows:
        if not self._idem_claim(undo, key, scope)[0][0]:
            raise FakeError("ID006", f'key "{key}" was claimed before')
        return [(True,)]

    def _idem_try_claim(self, undo: Undo, key: str, scope: str, ttl: str | None = None) -> Rows:
        return [(self._claim(undo, (scope, key))[0],)]

    def _idem_claim_many(self, undo: Undo, keys: list[str], scope: str, ttl: str | None = None) -> Rows:
        return [(key,) for key in dict.fromkeys(keys) if self._idem_claim(undo, key, scope)[0][0]]

    def _idem_begin(
        self, undo: Undo, key: str, scope: str, fingerprint: bytes | None = None, ttl: str | None = None, lease: str | None = None,
        owner: str | None = None, wait: str | None = None,
    ) -> Rows:  # fmt: skip
        outcome, record = self._claim(undo, (scope, key), fingerprint, lease, owner)
        is_held, is_done = outcome in ("acquired", "taken_over"), outcome == "completed"
        left = None if record.lease_until is None else record.lease_until - time.time()
        return [(
            outcome, record.fence if is_held else None, record.attempt, _time(record.lease_until) if is_held else None,
            record.status_code if is_done else None, record.response if is_done else None, record.is_omitted, _steps(record),
            max(1, round((left or 0) * 1000)) if outcome == "in_flight" else None,
        )]  # fmt: skip

    def _idem_complete(
        self, undo: Undo, key: str, scope: str, response: str | None = None, status_code: int | None = None, fence: int | None = None,
        is_omitted: bool = False,
    ) -> Rows:  # fmt: skip
        record = self._held((scope, key), fence)
        done = replace(record, state="completed", status_code=status_code, response=response, is_omitted=is_omitted)
        self._set(undo, (scope, key), done)
        return [(True,)]

    def _idem_release(self, undo: Undo, key: str, fence: int, scope: str) -> Rows:
        self._set(undo, (scope, key), replace(self._held((scope, key), fence), state="released", fence=None))
        return [(True,)]

    def _idem_renew(self, undo: Undo, key: str, fence: int, scope: str, lease: str = "30 s") -> Rows:
        until = time.time() + interval_seconds("lease", lease)
        self._set(undo, (scope, key), replace(self._held((scope, key), fence), lease_until=until))
        return [(_time(until),)]

    def _idem_step(self, undo: Undo, key: str, fence: int, step: str, scope: str, output: str | None = None) -> Rows:
        record = self._held((scope, key), fence)
        known, given = record.steps.get(step), None if output is None else json.loads(output)
        if known is not None and given is not None and known != given:
            raise FakeError("ID001", f'step "{step}" of key "{key}" is done with another output')
        is_changed = step not in record.steps or known is None and given is not None
        if is_changed:
            self._set(undo, (scope, key), replace(record, steps={**record.steps, step: given}))
        return [(is_changed,)]

    def _idem_lookup(self, undo: Undo, key: str, scope: str) -> Rows:
        record = self._records.get((scope, key))
        if record is None:
            return []
        return [(
            record.state, record.status_code, record.response, record.is_omitted, record.attempt, _steps(record),
            _time(record.created_at), None, _time(record.lease_until),
        )]  # fmt: skip

    def _idem_http_key(self, undo: Undo, idempotency_key: str | None, scope: str) -> Rows:
        return [(_key(idempotency_key),)]

    def _idem_http_begin(
        self, undo: Undo, scope: str, method: str, route: str, idempotency_key: str | None, body_bytes: bytes = b"",
        lease: str | None = None, wait: str | None = None, ttl: str | None = None, fingerprint: bytes | None = None,
        content_type: str | None = None,
    ) -> Rows:  # fmt: skip
        if idempotency_key is None:
            return _rejected(400, "key_missing") if method in ("POST", "PATCH") else _run(None, "unkeyed")
        key = _key(idempotency_key)
        if key is None:
            return _rejected(400, "key_malformed")
        digest = fingerprint or hashlib.sha256(f"{method}\n{route}\n".encode() + body_bytes).digest()
        outcome, record = self._claim(undo, (scope, key), digest, lease)
        match outcome:
            case "mismatch":
                return _rejected(422, "mismatch")
            case "in_flight":
                return _rejected(409, "in_flight", {"Retry-After": "1"})
            case "completed":
                headers, body = json.loads(record.response or "[{}, null]")
                headers["Idempotent-Replayed"] = "true"
                return [("replay", record.status_code, json.dumps(headers), None if body is None else bytes.fromhex(body), None, None)]
        return _run(record.fence, None)

    def _idem_http_complete(
        self, undo: Undo, scope: str, idempotency_key: str | None, status: int, headers: str = "{}", body_bytes: bytes | None = None,
        fence: int | None = None, omit: bool = False,
    ) -> Rows:  # fmt: skip
        key = _key(idempotency_key)
        if key is None:
            return [("unkeyed",)]
        kept = {name: value for name, value in json.loads(headers).items() if not _UNSTORED.fullmatch(name)}
        response = json.dumps([kept, None if omit or body_bytes is None else body_bytes.hex()])
        self._idem_complete(undo, key, scope, response, status, fence, omit)
        return [("omitted" if omit else "stored",)]


def _key(header: str | None) -> str | None:
    found = None if header is None else _HEADER.fullmatch(header)
    return None if found is None else found[1] or found[2]


def _time(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def _steps(record: Record) -> str | None:
    return json.dumps(record.steps) if record.steps else None


def _run(fence: int | None, code: str | None) -> Rows:
    return [("run", None, None, None, fence, code)]


def _rejected(status: int, code: str, headers: dict[str, str] = {}) -> Rows:
    response = Problem(status, "The fake has rejected the request.", code=code, headers=headers).response()
    fields = {name: value for name, value in response.headers if name != "Content-Length"}
    return [("reject", status, json.dumps(fields), response.body, None, code)]
