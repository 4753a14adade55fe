"""A call of one of idem's functions: its SQL text, its arguments and its result, for every driver."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from .interval import interval_text

T = TypeVar("T")

Row: TypeAlias = Sequence[Any]
Json: TypeAlias = Any
"""What `json.dumps` takes, with dates, `Decimal` and `UUID` as their text."""

# Arguments travel as text, bytes, integers and lists of these, which all drivers send alike. The server casts the text.
_CASTS = {
    "text": ("text",),
    "bigint": ("bigint",),
    "int": ("int",),
    "float8": ("float8",),
    "boolean": ("boolean",),
    "bytea": ("bytea",),
    "text[]": ("text[]",),
    "bigint[]": ("bigint[]",),
    "name": ("text", "name"),
    "name[]": ("text[]", "name[]"),
    "numeric": ("text", "numeric"),
    "interval": ("text", "interval"),
    "regclass": ("text", "regclass"),
    "timestamptz": ("text", "timestamptz"),
    "jsonb": ("text", "jsonb"),
    "jsonb[]": ("text[]", "jsonb[]"),
}


@dataclass(frozen=True)
class Argument:
    """A named argument, encoded. What is not given is left out, so that the function's default applies."""

    name: str
    type: str
    value: Any
    is_given: bool = True


@dataclass(frozen=True)
class Call(Generic[T]):
    """`SELECT columns FROM function(arguments)`, and what its rows mean."""

    function: str
    columns: str
    arguments: tuple[Argument, ...]
    read: Callable[[Sequence[Row]], T]

    def given(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.is_given]

    def values(self) -> list[Any]:
        return [argument.value for argument in self.given()]

    def sql(self, schema: str, placeholder: Callable[[int], str]) -> str:
        """The statement. `placeholder` is told a parameter's number, from 1."""
        arguments = ", ".join(
            f"{argument.name} => {_cast(placeholder(number), argument.type)}" for number, argument in enumerate(self.given(), 1)
        )
        return f"SELECT {self.columns} FROM {quoted(schema)}.{self.function}({arguments}) AS answer"


def argument(name: str, type: str, value: Any) -> Argument:
    """None: not given."""
    return Argument(name, type, None if value is None else _encode(name, type, value), value is not None)


def nullable(name: str, type: str, value: Any) -> Argument:
    """None: NULL, for a parameter without a default."""
    return Argument(name, type, None if value is None else _encode(name, type, value))


def json_argument(name: str, value: Json) -> Argument:
    """None: the JSON value null."""
    return Argument(name, "jsonb", dumps(value))


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def scalar(rows: Sequence[Row]) -> Any:
    return rows[0][0]


def column(rows: Sequence[Row]) -> Any:
    return [row[0] for row in rows]


def parsed(text: str | None) -> Json:
    return None if text is None else json.loads(text)


def parsed_exactly(text: str | None) -> Json:
    """As `parsed`; numbers with a fraction are `Decimal`, as the row has them."""
    return None if text is None else json.loads(text, parse_float=decimal.Decimal)


def _cast(text: str, type: str) -> str:
    # CAST, as SQLAlchemy reads `:name::type` otherwise.
    for cast in _CASTS[type]:
        text = f"CAST({text} AS {cast})"
    return text


def _encode(name: str, type: str, value: Any) -> Any:
    match type:
        case "interval":
            return interval_text(name, value)
        case "jsonb":
            return dumps(value)
        case "jsonb[]":
            return [dumps(element) for element in value]
        case "numeric":
            return str(value)
        case "bytea":
            return bytes(value)
        case _ if type.endswith("[]"):
            return list(value)
    return value


def dumps(value: Json) -> str:
    return json.dumps(value, default=_as_text, allow_nan=False)


def _as_text(value: object) -> str:
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")
