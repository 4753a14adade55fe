"""Rows of a model, locked and changed in one statement each: docs/rows.md, docs/machines.md.

Call them in `transaction.atomic()`, which a request with a key is. `key` names the columns of one primary or unique key by
the model's fields.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django.db import connections, models

from ..interval import Interval
from ..calls.rows import Adjusted, Transition
from ..idem import Idem

M = TypeVar("M", bound=models.Model)
Fields = Mapping[str, Any]
NOWAIT = datetime.timedelta(0)


class RowBusy(Exception):
    """Another transaction held the row for as long as the caller wanted to wait."""


def select_for_update(model: type[M], *, wait: Interval | None = None, using: str = "default", **key: Any) -> M:
    """`select_for_update(Order, id=7)`: the row, locked until the transaction ends.

    `wait` bounds the wait for another transaction; None waits without bound, `timedelta(0)` not at all. Raises
    `model.DoesNotExist` and RowBusy.
    """
    result = _idem(using).pessimistic_lock(_table(model, using), _columns(model, key), wait=wait)
    return _locked(model, result.outcome, result.row, using)


def select_many_for_update(
    model: type[M], keys: Sequence[Fields], *, wait: Interval | None = None, using: str = "default"
) -> list[M]:
    """As `select_for_update`, for many rows, which all callers lock in one order: they do not deadlock. In the order of
    `keys`."""
    results = _idem(using).pessimistic_lock_many(_table(model, using), [_columns(model, key) for key in keys], wait=wait)
    return [_locked(model, result.outcome, result.row, using) for result in results]


def update_version(
    model: type[M], key: Fields, expected_version: int, changes: Fields, *, using: str = "default"
) -> tuple[str, M | None]:
    """The outcome, updated, conflict or not_found, and the row as it is now. The model's table has the version guard."""
    result = _idem(using).optimistic_update(
        _table(model, using), _columns(model, key), expected_version, _columns(model, changes)
    )
    return result.outcome, _instance(model, result.row, using)


def update_if(
    model: type[M], key: Fields, expected: Fields, changes: Fields, *, using: str = "default"
) -> tuple[str, M | None]:
    """Changes the row if it has the expected values. The outcome, updated, conflict or not_found, and the row as it is now."""
    result = _idem(using).conditional_update(
        _table(model, using), _columns(model, key), _columns(model, expected), _columns(model, changes)
    )
    return result.outcome, _instance(model, result.row, using)


def adjust(
    model: type[models.Model],
    key: Fields,
    field: str,
    delta: int | decimal.Decimal,
    *,
    minimum: int | decimal.Decimal | str | None = None,
    maximum: int | decimal.Decimal | None = None,
    using: str = "default",
) -> Adjusted:
    """Adds `delta` to a number if the sum is within the bounds. Without `minimum` it is 0."""
    column = model._meta.get_field(field).column
    return _idem(using).conditional_adjust(
        _table(model, using), _columns(model, key), column, delta, minimum=minimum, maximum=maximum
    )


def insert_once(
    model: type[M], row: Fields, *, conflict_fields: Sequence[str] | None = None, using: str = "default"
) -> tuple[M | None, bool]:
    """The row with these values of the key, and whether this call inserted it, as `get_or_create` returns them. Fields that
    are not given have the column's default in the database. The row is None where row-level security hides it."""
    columns = None if conflict_fields is None else [model._meta.get_field(name).column for name in conflict_fields]
    result = _idem(using).unique_insert(_table(model, using), _columns(model, row), conflict_columns=columns)
    return _instance(model, result.row, using), result.outcome == "inserted"


def move(
    model: type[models.Model], key: Fields, from_state: str | None, to_state: str, *, using: str = "default"
) -> Transition:
    """Moves the state of a row that a state machine guards. `from_state` None: whatever it is."""
    return _idem(using).transition(_table(model, using), _columns(model, key), from_state, to_state)


def _idem(using: str) -> Idem:
    return Idem(connections[using])


def _table(model: type[models.Model], using: str) -> str:
    return str(connections[using].ops.quote_name(model._meta.db_table))


def _columns(model: type[models.Model], values: Fields) -> dict[str, Any]:
    """Field names, or `pk`, to columns, and instances to their keys."""
    columns = {}
    for name, value in values.items():
        field = model._meta.pk if name == "pk" else model._meta.get_field(name)
        columns[field.column] = value.pk if isinstance(value, models.Model) else value
    return columns


def _locked(model: type[M], outcome: str, row: Fields | None, using: str) -> M:
    if outcome == "busy":
        raise RowBusy(f"another transaction holds the row of {model._meta.label}")
    instance = _instance(model, row, using)
    if instance is None:
        raise model.DoesNotExist(f"{model._meta.label} matching query does not exist.")
    return instance


def _instance(model: type[M], row: Fields | None, using: str) -> M | None:
    """Columns that the caller may not read are deferred."""
    if row is None:
        return None
    fields = [field for field in model._meta.concrete_fields if field.column in row]
    values = [field.to_python(row[field.column]) for field in fields]
    instance: M = model.from_db(using, [field.attname for field in fields], values)
    return instance
