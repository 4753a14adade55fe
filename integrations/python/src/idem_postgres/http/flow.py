"""A request with its key, from the claim to the response that may be sent: docs/http.md."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..calls.http import HttpAnswer, http_begin
from ..errors import is_connection_loss, is_retryable
from ..pool import Pool, rollback
from ..run import AsyncRun, Run
from ..sessions import AsyncSession
from .options import Outcome, Settings
from .request import Keyed
from .response import Problem, Response, stored, unavailable

Handler = Callable[[Run | AsyncRun], Awaitable[Response]]


@dataclass(frozen=True)
class Result:
    """`outcome` is run, replay or reject."""

    outcome: str
    response: Response
    fence: int | None = None


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler) -> Response:
    """The response to send. Whatever it says has been committed or rolled back. The handler's exception is raised after the
    rollback."""
    from . import leased, transactional

    since = time.monotonic()
    result = None
    try:
        flow = transactional.serve if settings.lease is None else leased.serve
        result = await flow(pool, settings, request, handler)
    except Problem as problem:
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
        settings.logger.info(
            "%s %s key=%s scope=%s %s %s in %.1f ms",
            outcome.method, outcome.route, outcome.key, outcome.scope, outcome.outcome, outcome.status or "raised", ms,
        )  # fmt: skip
    if settings.on_outcome is not None:
        try:
            settings.on_outcome(outcome)
        except Exception:
            settings.logger.exception("on_outcome failed")


@asynccontextmanager
async def transaction(pool: Pool, settings: Settings) -> AsyncIterator[AsyncSession]:
    """A session whose transaction was begun. The caller ends it. Without a connection the client is to come again."""
    try:
        manager = pool.session()
        session = await manager.__aenter__()
    except Exception as error:
        settings.logger.error("could not get a connection", exc_info=True)
        raise unavailable("The database cannot be reached.") from error
    try:
        try:
            await session.begin()
        except Exception as error:
            raise retry_later(session, error) or error
        yield session
    finally:
        await manager.__aexit__(None, None, None)


async def ask(session: AsyncSession, settings: Settings, request: Keyed) -> HttpAnswer:
    """What is to be done with the request? After a replay or a rejection the transaction is rolled back."""
    if request.header is None and settings.key_required is False:
        return HttpAnswer("run", None, {}, b"", None)
    try:
        answer = await session.run(
            http_begin(
                request.scope, request.method, request.route, request.header, request.body,
                lease=settings.lease, wait=settings.wait, ttl=settings.ttl,
            )  # fmt: skip
        )
    except Exception as error:
        raise await undone(session, error)
    if answer.action != "run":
        await rollback(session)
    return answer


def answered(answer: HttpAnswer) -> Result:
    return Result(answer.action, stored(answer))


async def undone(session: AsyncSession, error: BaseException) -> BaseException:
    """Rolls back. What is to be raised: 503 where the request may be sent again, else the error."""
    retry = retry_later(session, error)  # before the rollback, after which Django has another connection
    await rollback(session)
    return retry or error


def retry_later(session: AsyncSession, error: BaseException) -> Problem | None:
    """503 for what may succeed when the client sends the request again, and has not been committed."""
    if is_lost(session, error):
        problem = unavailable("The connection to the database was lost.")
    elif is_retryable(error):
        problem = unavailable("The request met another one. Nothing was changed.")
    else:
        return None
    problem.__cause__ = error
    return problem


def is_lost(session: AsyncSession, error: BaseException) -> bool:
    return session.is_lost() or is_connection_loss(error)
