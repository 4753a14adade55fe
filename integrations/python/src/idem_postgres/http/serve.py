"""A request with its key, from the claim to the response that may be sent: docs/http.md."""

from __future__ import annotations

import logging
import time

from ..pool import Pool
from . import leased, transactional
from .flow import Handler, Result
from .options import Outcome, Settings
from .request import Keyed
from .response import Problem, Response
from .streaming import StreamingError


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler) -> Response:
    """The response to send. Whatever it says has been committed or rolled back. The handler's exception is raised after the
    rollback."""
    since = time.monotonic()
    result = None
    try:
        flow = transactional.serve if settings.lease is None else leased.serve
        result = await flow(pool, settings, request, handler)
    except (Problem, StreamingError) as error:
        problem = error.problem() if isinstance(error, StreamingError) else error
        _log_cause(settings, request, problem)
        result = Result("reject", problem.response())
    finally:
        _report(settings, request, result, (time.monotonic() - since) * 1000)
    return result.response


def _report(settings: Settings, request: Keyed, result: Result | None, ms: float) -> None:
    outcome = Outcome(
        request.scope,
        request.header,
        request.method,
        request.route,
        result.outcome if result else "run",
        result.response.status if result else None,
        ms,
        result.fence if result else None,
    )
    if request.header is not None:
        request_text = f"{outcome.method} {outcome.route} key={outcome.key} scope={outcome.scope}"
        settings.logger.info("%s", _one_line(f"{request_text} {outcome.outcome} {outcome.status or 'raised'} in {ms:.1f} ms"))
    if settings.on_outcome is not None:
        try:
            settings.on_outcome(outcome)
        except Exception:
            settings.logger.exception("on_outcome failed")


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
