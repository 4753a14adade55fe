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

# For durations that this package measures itself. A month has no fixed length.
_SECONDS = {
    1e-6: "us usec usecs microsecond microseconds",
    1e-3: "ms msec msecs millisecond milliseconds",
    1: "s sec secs second seconds",
    60: "m min mins minute minutes",
    3600: "h hr hrs hour hours",
    86400: "d day days",
    604800: "w week weeks",
}
_BY_NAME = {name: seconds for seconds, names in _SECONDS.items() for name in names.split()}
_PART = re.compile(r"([+-]?[\d.]+)\s*([a-z]+)|(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?", re.ASCII | re.IGNORECASE)


def interval_text(name: str, value: Interval) -> str:
    """The value as the server reads it. `name` is the argument's, for the error."""
    if isinstance(value, datetime.timedelta):
        return f"{value // datetime.timedelta(microseconds=1)} us"
    message = f"{name} is a timedelta or text with a unit, such as '30 s', not {value!r}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise TypeError(f"{message}: write {_written(value)}")
    if not isinstance(value, str):
        raise TypeError(message)
    if not _TEXT.fullmatch(value):
        raise ValueError(message)
    return value


def interval_seconds(name: str, value: Interval) -> float:
    """For durations that this package measures itself, such as the time between two renewals of a lease."""
    text = interval_text(name, value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if text.upper().startswith("P"):  # of ISO 8601, where M is a month before T
        date, _, time = text.upper()[1:].partition("T")
        text = date.replace("M", "mon") + time
    seconds = 0.0
    for number, unit, hours, minutes, rest in _PART.findall(text):
        if hours:
            seconds += int(hours) * 3600 + int(minutes) * 60 + float(rest or 0)
        elif unit.lower() in _BY_NAME:
            seconds += float(number) * _BY_NAME[unit.lower()]
        else:
            raise ValueError(f"{name} has a unit without a fixed length, {unit!r}: write it in days, hours, min, s or ms")
    return seconds


def lease_seconds(name: str, value: Interval) -> float:
    seconds = interval_seconds(name, value)
    if seconds <= 0:
        raise ValueError(f"{name} must be greater than 0, not {value!r}")
    return seconds


def _written(value: float) -> str:
    return f"'{value} s' or '{value // 86400:g} day{'s' if value > 86400 else ''}'" if value and value % 86400 == 0 else f"'{value} s'"
