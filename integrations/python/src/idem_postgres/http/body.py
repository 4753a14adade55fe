"""The body of a request that is too large or truncated."""

from __future__ import annotations

from .response import Problem


def too_large(limit: int) -> Problem:
    return Problem(413, f"The body of a request is at most {limit} bytes.", code="body_too_large")


def truncated() -> Problem:
    return Problem(400, "The client disconnected before the end of its request.")
