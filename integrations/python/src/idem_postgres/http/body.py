"""The limit of a request's body."""

from __future__ import annotations

from .response import Problem


def too_large(limit: int) -> Problem:
    return Problem(413, f"The body of a request is at most {limit} bytes.", code="body_too_large")
