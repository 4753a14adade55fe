"""Responses that cannot be stored and sent after COMMIT."""

from __future__ import annotations


class StreamingError(RuntimeError):
    """The handler streams its response: more than one flush before its end, or server-sent events."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} streams its response, which cannot be sent after COMMIT: exclude this route from the middleware")
