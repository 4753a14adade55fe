"""Durations. A number without a unit is rejected: its writer may mean milliseconds, and the server reads seconds."""

from __future__ import annotations

import datetime
import re
from typing import TypeAlias

Interval: TypeAlias = datetime.timedelta | str
"""A `timedelta`, or PostgreSQL's text with a unit: `'30 s'`, `'1 day 02:00'`, `'PT30S'`."""

_UNITS = r"(?=.*\d)(?:\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*[a-z]+)*\s*(?:\d+:\d\d(?::\d\d(?:\.\d+)?)?\s*)?"
_ISO_8601 = r"P(?=.)(?:\d+(?:\.\d+)?[YMWD])*(?:T(?:\d+(?:\.\d+)?[HMS])+)?"
_TEXT = re.compile(f"{_UNITS}|{_ISO_8601}", re.ASCII | re.IGNORECASE)


def interval_text(name: str, value: Interval) -> str:
    """The value as the server reads it. `name` is the argument's, for the error."""
    if isinstance(value, datetime.timedelta):
        return f"{value // datetime.timedelta(microseconds=1)} us"
    message = f"{name} is a timedelta or text with a unit, such as '30 s', not {value!r}"
    if not isinstance(value, str):
        raise TypeError(message)
    if not _TEXT.fullmatch(value):
        raise ValueError(message)
    return value


def check_timedelta(name: str, value: datetime.timedelta) -> None:
    """For durations that this package measures itself, such as the time between two renewals of a lease."""
    if not isinstance(value, datetime.timedelta):
        raise TypeError(f"{name} is a timedelta, not {value!r}")
