"""The claim, the handler's rows and the response in one transaction."""

from __future__ import annotations

import dataclasses
import time

from ..calls.http import http_complete
from ..errors import StaleFence, is_aborted, sqlstate
from ..pool import LOOKUPS, Pool, rollback
from ..run import make_run
from ..sessions import AsyncSession
from .flow import (
    Handler,
    Result,
    answered,
    ask,
    is_lost,
    is_thrown,
    transaction,
    transient,
    undone,
    unstorable,
    warn_of_omission,
    watched,
)
from .options import Settings
from .request import Keyed
from .response import Problem, Response, internal_error, response_too_large, retry_later


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler) -> Result:
    async with transaction(pool, settings) as session:
        answer = await ask(session, settings, request)
        if answer.action != "run":
            return answered(answer, request)
        header = None if answer.code == "unkeyed" else request.header
        run = make_run(pool, scope=request.scope, header=request.header, raw_connection=session.connection)
        try:
            response = await watched(pool, session, handler(run))
        except BaseException as error:
            run.life.is_over = True
            raise await undone(session, error)
        run.life.is_over = True
        if is_thrown(settings, response):
            assert response.error is not None
            problem = await undone(session, response.error)
            if isinstance(problem, Problem):
                raise problem
            return Result("run", response)
        if reason := unstorable(settings, response):
            await rollback(session)
            raise reason
        complete = http_complete(
            request.scope, header, response.status, response.header_object(), b"" if response.is_large else response.body,
            omit=response.is_large,
        )  # fmt: skip
        try:
            what = await session.run(complete)
        except Exception as error:
            return Result("run", await _without_storing(settings, session, response, error))
        if what == "omitted":
            if settings.oversize == "rollback":
                await rollback(session)
                raise response_too_large("the scope's max_response_size")
            warn_of_omission(settings, request)
        try:
            await session.commit()
            run.life.is_committed = True
            return Result("run", response)
        except Exception as error:
            if not is_lost(session, error):
                raise transient(session, error) or error
            loss = error
    return await _what_was_committed(pool, settings, dataclasses.replace(request, header=header), loss)


async def _without_storing(settings: Settings, session: AsyncSession, response: Response, error: Exception) -> Response:
    """After the rollback: a response that says nothing of the work that was undone may be sent, another must not be."""
    problem = transient(session, error, is_own=True)
    await rollback(session)
    if problem is not None:
        raise problem
    if sqlstate(error) == "25000":  # one of the scope's unstored_statuses
        return response
    if is_aborted(error) and response.status >= 400:
        settings.logger.warning("rolled back: the handler went on after an error of the database")
        return response
    if isinstance(error, StaleFence):
        fault = RuntimeError("the handler ended the transaction of its request: leave commit and rollback to idem")
        fault.__cause__ = error
        raise internal_error(
            fault, "The transaction was ended before the response was stored: the request may have been processed."
        )
    if is_aborted(error):
        failed = RuntimeError("the handler succeeded although its transaction has failed; it was rolled back")
        failed.__cause__ = error
        raise internal_error(failed)
    raise internal_error(error)


async def _what_was_committed(pool: Pool, settings: Settings, request: Keyed, loss: Exception) -> Result:
    """The connection was lost in COMMIT. The stored response, if the key has one, shows that the commit succeeded."""
    if request.header is None:
        raise Problem(
            500, "The connection to the database was lost. The request may or may not have been processed.", code="commit_unknown"
        ) from loss
    since = time.monotonic()
    for after in LOOKUPS:
        await pool.sleep(since + after - time.monotonic())
        try:
            async with transaction(pool, settings) as session:
                answer = await ask(session, settings, request)
                if answer.action == "run":
                    await rollback(session)
        except Problem:
            continue
        if answer.action == "replay":
            return answered(answer, request)
        if answer.action == "run":
            raise retry_later("not_committed", "The connection to the database was lost. Nothing was done.", loss)
    raise retry_later(
        "commit_unknown", "The connection to the database was lost. The same request gets the answer when it is known.", loss
    )
