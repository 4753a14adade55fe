"""Responses without an end, which cannot be sent after COMMIT."""

from __future__ import annotations

from .response import Problem


class StreamingError(RuntimeError):
    """The handler sends server-sent events."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} sends events, which cannot wait for COMMIT: skip this route of the middleware")

    def problem(self) -> Problem:
        problem = Problem(500, "The response cannot be sent. The log of the server has the reason.", code="streamed")
        problem.__cause__ = self
        return problem
