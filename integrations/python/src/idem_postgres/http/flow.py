"""What the two flows of a request share: its transaction, the question to idem, and the answers to errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..calls.http import HttpAnswer, http_begin
from ..errors import is_connection_loss, is_retryable
from ..pool import Pool, rollback
from ..run import AsyncRun, Run
from ..sessions import AsyncSession
from .options import Settings
from .request import Keyed
from .response import Problem, Response, internal_error, retry_later, stored

Handler = Callable[[Run | AsyncRun], Awaitable[Response]]


@dataclass(frozen=True)
class Result:
    """`outcome` is run, replay or reject."""

    outcome: str
    response: Response
    fence: int | None = None


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
        raise await failed(session, error)
    if answer.action == "run":
        request.added.update((name, str(value)) for name, value in answer.headers.items())
    else:
        await rollback(session)
    return answer


def answered(answer: HttpAnswer) -> Result:
    return Result(answer.action, stored(answer))


async def undone(session: AsyncSession, error: BaseException) -> BaseException:
    """Rolls back. What is to be raised: 503 where the request may be sent again, else the error."""
    problem = transient(session, error)  # before the rollback, after which Django has another connection
    await rollback(session)
    return problem or error


async def failed(session: AsyncSession, error: Exception) -> Problem:
    """Rolls back. The answer to an error of a statement of idem's own."""
    problem = await undone(session, error)
    return problem if isinstance(problem, Problem) else internal_error(error)


def transient(session: AsyncSession, error: BaseException) -> Problem | None:
    """503 for what may succeed when the client sends the request again, and has not been committed."""
    if is_lost(session, error):
        return retry_later("unavailable", "The connection to the database was lost. Nothing was done.", error)
    if is_retryable(error):
        return retry_later("serialization_failure", "The request met another one. Nothing was done.", error)
    return None


def is_lost(session: AsyncSession, error: BaseException) -> bool:
    return session.is_lost() or is_connection_loss(error)
