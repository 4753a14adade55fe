"""What the two flows of a request share: its transaction, the question to idem, and the answers to errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..calls.http import HttpAnswer, http_begin
from ..errors import ConnectionLost, RolledBack, is_connection_loss, is_retryable, is_unavailable
from ..pool import Pool, rollback
from ..run import AsyncRun, Run
from ..sessions import AsyncSession, is_hung_up
from .options import Settings
from .request import Keyed
from .response import Problem, Response, internal_error, response_encoded, response_too_large, retry_later, stored

Handler = Callable[[Run | AsyncRun], Awaitable[Response]]
_WATCH = 1.0
"""Seconds between two looks at the connection of a handler that is silent."""


@dataclass(frozen=True)
class Result:
    """`outcome` is run, replay or reject."""

    outcome: str
    response: Response
    fence: int | None = None
    attempt: int | None = None
    code: str | None = None


@asynccontextmanager
async def transaction(pool: Pool, settings: Settings) -> AsyncIterator[AsyncSession]:
    """A session whose transaction was begun. The caller ends it. Raises 503 when there is no connection."""
    try:
        manager = pool.session()
        session = await manager.__aenter__()
    except TypeError as error:  # no pool that idem knows
        raise internal_error(error)
    except Exception as error:
        raise retry_later("unavailable", "The database cannot be reached. Nothing was done.", error)
    try:
        try:
            await session.begin()
        except Exception as error:
            raise transient(session, error) or internal_error(error)
        yield session
    finally:
        await manager.__aexit__(None, None, None)


async def ask(session: AsyncSession, settings: Settings, request: Keyed) -> HttpAnswer:
    """What is to be done with the request? The transaction is over after a replay or a rejection: that of a key in doubt is
    committed, as it records the doubt."""
    if request.header is None and settings.key_required is False:
        return HttpAnswer("run", None, {}, b"", None, "unkeyed")
    wait = None if settings.lease is not None else settings.wait  # with a lease the client waits, without a connection
    try:
        answer = await session.run(
            http_begin(
                request.scope, request.method, request.route, request.header, request.body,
                lease=settings.lease, wait=wait, ttl=settings.ttl, fingerprint=request.fingerprint,
                content_type=request.content_type,
            )  # fmt: skip
        )
    except Exception as error:
        raise await failed(session, error)
    if answer.action == "run":
        request.added.update((name, str(value)) for name, value in answer.headers.items())
    elif answer.code == "in_doubt":
        await commit(session)
    else:
        await rollback(session)
    return answer


async def commit(session: AsyncSession) -> None:
    """Of a transaction in which the handler has done nothing."""
    try:
        await session.commit()
    except Exception as error:
        raise transient(session, error) or internal_error(error)


def answered(answer: HttpAnswer, request: Keyed) -> Result:
    return Result(answer.action, stored(answer, request.method), code=answer.code)


async def watched(pool: Pool, session: AsyncSession, work: Awaitable[Response]) -> Response:
    """The response of a handler, which is cancelled when the connection of its transaction is lost: it may be silent
    without end. A blocking handler cannot be cancelled."""
    if not pool.in_loop:
        return await work
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_WATCH))[0]:
            if session.is_lost() or is_hung_up(session.connection):
                raise ConnectionLost("the connection was lost while the handler worked")
        return task.result()
    finally:
        task.cancel()


def unstorable(settings: Settings, response: Response) -> Problem | None:
    """Why the work of this response is to be undone."""
    if encoding := response.encoding():
        return response_encoded(encoding)
    if response.is_large and settings.oversize == "rollback":
        return response_too_large(f"max_response, which is {settings.max_response} bytes")
    return None


def is_thrown(settings: Settings, response: Response) -> bool:
    """A thrown error rolls back, a returned response is stored."""
    return response.error is not None and response.status not in settings.store_errors


def warn_of_omission(settings: Settings, request: Keyed) -> None:
    settings.logger.warning(
        "%s %s: the response is too large to be stored; a repetition gets its status without a body", request.method, request.route
    )


async def undone(session: AsyncSession, error: BaseException) -> BaseException:
    """Rolls back. What is to be raised: 503 where the request may be sent again, else the error."""
    problem = transient(session, error)  # before the rollback, after which Django has another connection
    await rollback(session)
    return problem or error


async def failed(session: AsyncSession, error: Exception) -> Problem:
    """Rolls back. The answer to an error of a statement of idem's own."""
    problem = transient(session, error, is_own=True)
    await rollback(session)
    return problem or internal_error(error)


def transient(session: AsyncSession, error: BaseException, is_own: bool = False) -> Problem | None:
    """503 for what may succeed when the client sends the request again, and has not been committed. `is_own`: of a statement
    of idem's own, whose errors of a full or read-only server are those of the database and not of the handler."""
    if is_lost(session, error) or is_own and is_unavailable(error):
        return retry_later("unavailable", "The database is not available. Nothing was done.", error)
    if is_retryable(error):
        return retry_later("serialization_failure", "The request met another one. Nothing was done.", error)
    if isinstance(error, RolledBack):
        problem = Problem(500, "COMMIT has rolled back. Nothing was done.", code="rolled_back")
        problem.__cause__ = error
        return problem
    return None


def is_lost(session: AsyncSession, error: BaseException) -> bool:
    return session.is_lost() or is_connection_loss(error)
