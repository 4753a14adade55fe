"""A request with its key, from the claim to the response that may be sent: docs/http.md."""

from __future__ import annotations

import hashlib
import logging
import time
from typing import Any

from ..pool import Pool
from . import leased, transactional
from .flow import Handler, Result
from .options import Outcome, Settings
from .request import Keyed
from .response import Problem, Response
from .streaming import StreamingError


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler, raw: Any = None) -> Response:
    """The response to send. Whatever it says has been committed or rolled back. The handler's exception is raised after the
    rollback. `raw` is the framework's request, for `on_error`."""
    since = time.monotonic()
    result = None
    try:
        flow = transactional.serve if settings.lease is None else leased.serve
        result = await flow(pool, settings, request, handler)
        if result.outcome == "reject" and settings.on_error is not None:
            result = Result("reject", _own(settings, result, raw), code=result.code)
    except (Problem, StreamingError) as error:
        problem = error.problem() if isinstance(error, StreamingError) else error
        _log_cause(settings, request, problem)
        result = Result("reject", settings.own_response(problem, raw))
    finally:
        _report(settings, request, result, (time.monotonic() - since) * 1000)
    return result.response


def _own(settings: Settings, result: Result, raw: Any) -> Response:
    """A rejection of the database, if `on_error` says it otherwise."""
    headers = {name: value for name, value in result.response.headers if name.lower() not in ("content-type", "content-length")}
    problem = Problem(result.response.status, code=result.code, headers=headers)
    assert settings.on_error is not None
    try:
        own = settings.on_error(problem, raw)
    except Exception:
        settings.logger.exception("on_error failed")
        own = None
    return result.response if own is None else Response(problem.status, own.headers, own.body)


def _report(settings: Settings, request: Keyed, result: Result | None, ms: float) -> None:
    outcome = Outcome(
        request.scope,
        request.header,
        None if request.header is None else hashlib.sha256(request.header.encode()).hexdigest()[:16],
        request.method,
        request.route,
        result.outcome if result else "run",
        result is not None and result.outcome == "replay",
        result.response.status if result else None,
        ms,
        result.fence if result else None,
        result.attempt if result else None,
    )
    if request.header is not None:
        request_text = f"{outcome.method} {outcome.route} key={outcome.key} scope={outcome.scope}"
        settings.logger.info("%s", _one_line(f"{request_text} {outcome.outcome} {outcome.status or 'raised'} in {ms:.1f} ms"))
        _trace(outcome)
    if settings.on_outcome is not None:
        try:
            settings.on_outcome(outcome)
        except Exception:
            settings.logger.exception("on_outcome failed")


def _trace(outcome: Outcome) -> None:
    """Attributes of the active span, where OpenTelemetry's API is installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        return
    values = {"key_hash": outcome.key_hash, "outcome": outcome.outcome, "attempt": outcome.attempt, "replayed": outcome.replayed}
    span = trace.get_current_span()
    for name, value in values.items():
        if value is not None:
            span.set_attribute(f"idempotency.{name}", value)


def _log_cause(settings: Settings, request: Keyed, problem: Problem) -> None:
    """One line for an answer in the place of the handler's; with a traceback where a statement of idem's own failed."""
    cause = problem.__cause__
    if cause is None:
        return
    request_text = f"{request.method} {request.route} key={request.header} scope={request.scope}"
    cause_text = str(cause).partition("\nCONTEXT:")[0]  # not the call stack of idem's own functions
    settings.logger.log(
        logging.ERROR if problem.status == 500 else logging.WARNING,
        "%s",
        _one_line(f"{request_text} answered {problem.status} {problem.code}: {type(cause).__name__}: {cause_text}"),
        exc_info=cause if problem.code == "internal" else None,
    )


def _one_line(text: str) -> str:
    """A path that a client sends, and an error of the database, may have line breaks."""
    return " ".join(text.split())
