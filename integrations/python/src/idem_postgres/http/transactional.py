"""The claim, the handler's rows and the response in one transaction."""

from __future__ import annotations

import dataclasses

from ..calls.http import http_complete
from ..errors import StaleFence, is_aborted, sqlstate
from ..pool import Pool, rollback
from ..run import make_run
from .flow import Handler, Result, answered, ask, is_lost, transaction, transient, undone
from .options import Settings
from .request import Keyed
from .response import Problem, Response, internal_error, retry_later


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler) -> Result:
    async with transaction(pool, settings) as session:
        answer = await ask(session, settings, request)
        if answer.action != "run":
            return answered(answer)
        header = None if answer.code == "unkeyed" else request.header
        try:
            response = await handler(
                make_run(pool, scope=request.scope, header=request.header, connection=session.connection)
            )
        except BaseException as error:
            raise await undone(session, error)
        if settings.rollback_on(response.status):
            await rollback(session)
            return Result("run", response)
        try:
            await session.run(
                http_complete(request.scope, header, response.status, response.header_object(), response.body)
            )
        except Exception as error:
            return Result("run", _without_storing(settings, response, await undone(session, error)))
        try:
            await session.commit()
            return Result("run", response)
        except Exception as error:
            if not is_lost(session, error):
                raise transient(session, error) or error
            loss = error
    return await _what_was_committed(pool, settings, dataclasses.replace(request, header=header), loss)


def _without_storing(settings: Settings, response: Response, error: BaseException) -> Response:
    """After the rollback: a response that says nothing of the work that was undone may be sent, another must not be."""
    if isinstance(error, Problem):
        raise error
    if sqlstate(error) == "25000":  # one of the scope's unstored_statuses
        return response
    if is_aborted(error) and response.status >= 400:
        settings.logger.warning("rolled back: the handler went on after an error of the database")
        return response
    fault = None
    if is_aborted(error):
        fault = RuntimeError("the handler succeeded although its transaction has failed; it was rolled back")
    elif isinstance(error, StaleFence):
        fault = RuntimeError("the handler ended the transaction of its request: leave commit and rollback to idem")
    if fault is not None:
        fault.__cause__ = error
    raise internal_error(fault or error)


async def _what_was_committed(pool: Pool, settings: Settings, request: Keyed, loss: Exception) -> Result:
    """The connection was lost in COMMIT. The stored response, if the key has one, shows that the commit succeeded."""
    if request.header is None:
        raise Problem(
            500, "The connection to the database was lost. The request may or may not have been processed.", code="commit_unknown"
        ) from loss
    for _ in range(3):
        try:
            async with transaction(pool, settings) as session:
                answer = await ask(session, settings, request)
                if answer.action == "run":
                    await rollback(session)
        except Problem:
            continue
        if answer.action == "replay":
            return answered(answer)
        if answer.action == "run":
            raise retry_later("unavailable", "The connection to the database was lost. Nothing was done.", loss)
        break
    raise retry_later(
        "commit_unknown", "The connection to the database was lost. The same request gets the answer when it is known.", loss
    )
