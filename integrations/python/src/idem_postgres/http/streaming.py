"""Responses that cannot be stored and sent after COMMIT."""

from __future__ import annotations

from .response import Problem


class StreamingError(RuntimeError):
    """The handler streams its response: more than one flush before its end, or server-sent events."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} streams its response, which cannot be sent after COMMIT: exclude this route from the middleware")

    def problem(self) -> Problem:
        problem = Problem(500, "The response cannot be sent. The log of the server has the reason.", code="streamed")
        problem.__cause__ = self
        return problem
