"""A response as bytes, and errors as problems of RFC 9457."""

from __future__ import annotations

import dataclasses
import http
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..calls.http import HttpAnswer

_BODILESS = (204, 304)


@dataclass(frozen=True)
class Response:
    """Headers are as they are sent, in order; a name may come twice."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes
    error: BaseException | None = None
    """The response is what the framework has made of this error, which was thrown."""
    is_large: bool = False
    """`body` is the beginning; the rest follows after COMMIT, and is not stored."""

    def encoding(self) -> str | None:
        values = [value for name, value in self.headers if name.lower() == "content-encoding" and value.lower() != "identity"]
        return values[0] if values else None

    def header_object(self) -> dict[str, str | list[str]]:
        """As idem stores them: an array where a name comes twice."""
        names: dict[str, tuple[str, list[str]]] = {}
        for name, value in self.headers:
            names.setdefault(name.lower(), (name, []))[1].append(value)
        return {name: values[0] if len(values) == 1 else values for name, values in names.values()}


class Problem(Exception):
    """An answer in the place of the handler's, such as `raise Problem(401)` in a scope function. Nothing is stored."""

    def __init__(
        self, status: int, detail: str | None = None, *, code: str | None = None, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(detail or http.HTTPStatus(status).phrase)
        self.status = status
        self.detail = detail
        self.code = code
        self.headers = headers

    def response(self) -> Response:
        members = {
            "type": "about:blank",
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        body = json.dumps({name: value for name, value in members.items() if value is not None}).encode()
        return with_length(Response(self.status, [("Content-Type", "application/problem+json"), *self.headers.items()], body))


def retry_later(code: str, detail: str, cause: BaseException) -> Problem:
    """503: the client is to send the same request again."""
    problem = Problem(503, detail, code=code, headers={"Retry-After": "1"})
    problem.__cause__ = cause
    return problem


def internal_error(
    cause: BaseException | None = None, detail: str = "The request was not processed. The log of the server has the reason."
) -> Problem:
    """500: a statement of idem's own failed, or an option is wrong."""
    problem = Problem(500, detail, code="internal")
    problem.__cause__ = cause
    return problem


def response_too_large(limit: str) -> Problem:
    return Problem(500, f"The response is larger than {limit}. Nothing was done.", code="response_too_large")


def response_encoded(encoding: str) -> Problem:
    """Stored bytes would be replayed to a client that does not take the encoding."""
    detail = f"The response has Content-Encoding: {encoding}: compression belongs outside of the middleware."
    problem = Problem(500, detail, code="response_encoded")
    problem.__cause__ = RuntimeError(detail)
    return problem


def stored(answer: HttpAnswer, method: str = "") -> Response:
    """A replay or a rejection."""
    assert answer.status is not None
    headers = [
        (name, str(value))
        for name, values in answer.headers.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    response = Response(answer.status, headers, answer.body)
    return response if method == "HEAD" else with_length(response)


def with_added(response: Response, added: Mapping[str, str]) -> Response:
    """The response with the header fields that idem adds, as far as it does not have them."""
    names = {name.lower() for name, _ in response.headers}
    more = [(name, value) for name, value in added.items() if name.lower() not in names]
    return dataclasses.replace(response, headers=[*response.headers, *more])


def with_length(response: Response) -> Response:
    if response.status in _BODILESS or any(name.lower() == "content-length" for name, _ in response.headers):
        return response
    return Response(response.status, [*response.headers, ("Content-Length", str(len(response.body)))], response.body)
