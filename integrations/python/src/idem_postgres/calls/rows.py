"""Row flows and state machines on your own tables: docs/rows.md, docs/machines.md.

`target` is a table's name as SQL writes it: quoted where it needs quotes, with a schema where the search path lacks it.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..call import Argument, Call, Json, Row, argument, json_argument, nullable, parsed_exactly
from ..interval import Interval

Columns = Mapping[str, Json]


@dataclass(frozen=True)
class RowResult:
    """`row` has the columns that the caller may SELECT, as they are now."""

    outcome: str
    row: dict[str, Json] | None


@dataclass(frozen=True)
class VersionedResult:
    outcome: str
    version: int | None
    row: dict[str, Json] | None


@dataclass(frozen=True)
class Adjusted:
    """`outcome` is adjusted, out_of_range or not_found; `value` is what the column holds now."""

    outcome: str
    value: decimal.Decimal | None


@dataclass(frozen=True)
class Transition:
    """`outcome` is moved, already, conflict, not_allowed or not_found; `state` is the row's now."""

    outcome: str
    state: str | None


_ROW = "outcome, CAST(row_data AS text)"


def _one(rows: Sequence[Row]) -> RowResult:
    return RowResult(rows[0][0], parsed_exactly(rows[0][1]))


def _target(target: str, key: Columns) -> tuple[Argument, Argument]:
    return argument("target", "regclass", target), json_argument("key", key)


def optimistic_update(target: str, key: Columns, expected_version: int, changes: Columns) -> Call[VersionedResult]:
    """Changes the row if it has the expected version. Outcomes: updated, conflict, not_found."""
    return Call(
        "optimistic_update",
        "outcome, version, CAST(row_data AS text)",
        (*_target(target, key), argument("expected_version", "bigint", expected_version), json_argument("changes", changes)),
        lambda rows: VersionedResult(rows[0][0], rows[0][1], parsed_exactly(rows[0][2])),
    )


def conditional_update(target: str, key: Columns, expected: Columns, changes: Columns) -> Call[RowResult]:
    """Changes the row if its columns have the expected values. Outcomes: updated, conflict, not_found."""
    return Call(
        "conditional_update",
        _ROW,
        (*_target(target, key), json_argument("expected", expected), json_argument("changes", changes)),
        _one,
    )


def conditional_adjust(
    target: str,
    key: Columns,
    column_name: str,
    delta: int | decimal.Decimal,
    *,
    minimum: int | decimal.Decimal | str | None = None,
    maximum: int | decimal.Decimal | None = None,
) -> Call[Adjusted]:
    """Adds `delta` if the sum is within the bounds. Without `minimum` it is 0; `'-infinity'` is none."""
    return Call(
        "conditional_adjust",
        "outcome, value",
        (
            *_target(target, key),
            argument("column_name", "name", column_name),
            argument("delta", "numeric", delta),
            argument("minimum", "numeric", minimum),
            argument("maximum", "numeric", maximum),
        ),
        lambda rows: Adjusted(rows[0][0], rows[0][1]),
    )


def pessimistic_lock(target: str, key: Columns, *, wait: Interval | None = None) -> Call[RowResult]:
    """SELECT … FOR UPDATE. Outcomes: locked, busy (after `wait`; None waits without bound), not_found."""
    return Call("pessimistic_lock", _ROW, (*_target(target, key), argument("wait", "interval", wait)), _one)


def pessimistic_lock_many(target: str, keys: Sequence[Columns], *, wait: Interval | None = None) -> Call[list[RowResult]]:
    """As `pessimistic_lock`, for many rows, locked in one order for all callers. A result for each key, in the order given."""
    return Call(
        "pessimistic_lock_many",
        _ROW,
        (argument("target", "regclass", target), argument("keys", "jsonb[]", keys), argument("wait", "interval", wait)),
        lambda rows: [RowResult(outcome, parsed_exactly(row)) for outcome, row in rows],
    )


def unique_insert(target: str, new_row: Columns, *, conflict_columns: Sequence[str] | None = None) -> Call[RowResult]:
    """Inserts the row unless one with the same columns is there (None: the primary key). Outcomes: inserted, duplicate."""
    return Call(
        "unique_insert",
        _ROW,
        (
            argument("target", "regclass", target),
            json_argument("new_row", new_row),
            argument("conflict_columns", "name[]", conflict_columns),
        ),
        _one,
    )


def guarded_insert(target: str, new_row: Columns, match_columns: Sequence[str]) -> Call[RowResult]:
    """As `unique_insert`, for a table that cannot have the unique index."""
    return Call(
        "guarded_insert",
        _ROW,
        (
            argument("target", "regclass", target),
            json_argument("new_row", new_row),
            argument("match_columns", "name[]", match_columns),
        ),
        _one,
    )


def transition(target: str, key: Columns, from_state: str | None, to_state: str) -> Call[Transition]:
    """Moves the row's state; `from_state` None: whatever it is."""
    return Call(
        "idem_transition",
        "outcome, state",
        (
            *_target(target, key),
            nullable("from_state", "text", from_state),
            argument("to_state", "text", to_state),
        ),
        lambda rows: Transition(rows[0][0], rows[0][1]),
    )
