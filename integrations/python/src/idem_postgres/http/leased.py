"""The claim is committed first, under a fence; the handler works outside of a transaction; its response is stored under the
fence."""

from __future__ import annotations

import time

from ..calls import keys
from ..calls.http import http_complete, http_key
from ..errors import StaleFence, is_connection_loss, is_retryable
from ..heartbeat import Term
from ..lease import release, renewed
from ..pool import Pool
from ..run import AsyncRun, Run, make_run
from .flow import Handler, Result, answered, ask, failed, transaction, transient
from .options import Settings
from .request import Keyed
from .response import Problem, Response, internal_error, retry_later


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler) -> Result:
    run = make_run(pool, scope=request.scope, header=request.header)
    async with transaction(pool, settings) as session:
        began = time.monotonic()
        answer = await ask(session, settings, request)
        if answer.action != "run":
            return answered(answer)
        try:
            if answer.fence is not None:
                assert request.header is not None and settings.lease is not None
                run.fence = answer.fence
                run.term = Term(settings.lease.total_seconds(), began)
                run.key = await session.run(http_key(request.header, scope=request.scope))
                assert run.key is not None
                known = await session.run(keys.lookup(run.key, scope=request.scope))
                run.steps = dict(known.steps or {}) if known else {}
        except Exception as error:
            raise await failed(session, error)
        try:
            await session.commit()
        except Exception as error:
            raise transient(session, error) or internal_error(error)
    if run.fence is None:
        return Result("run", await handler(run))
    return Result("run", await _work(pool, settings, request, handler, run), run.fence)


async def _work(pool: Pool, settings: Settings, request: Keyed, handler: Handler, run: Run | AsyncRun) -> Response:
    assert settings.lease is not None and run.fence is not None
    try:
        async with renewed(pool, run, settings.lease, settings.logger):
            response = await handler(run)
    except StaleFence as error:
        raise _lease_lost(error) if run.is_lost else error
    if settings.rollback_on(response.status):
        await release(pool, run, settings.logger)
        return response
    return await _complete(pool, settings, request, response, run.fence)


async def _complete(pool: Pool, settings: Settings, request: Keyed, response: Response, fence: int) -> Response:
    """Tries again when the connection is lost: the same completion twice is one."""
    complete = http_complete(
        request.scope, request.header, response.status, response.header_object(), response.body, fence=fence
    )
    for _ in range(3):
        try:
            await pool.run(complete)
            return response
        except StaleFence as error:
            raise _lease_lost(error)
        except Exception as error:
            last = error
            if not is_connection_loss(error) and not is_retryable(error):
                raise internal_error(error, "The response could not be stored. The log of the server has the reason.")
    raise retry_later(
        "unavailable", "The response could not be stored. The same request is answered when the lease has ended.", last
    )


def _lease_lost(error: StaleFence) -> Problem:
    return retry_later("lease_lost", "Another request has, or may have, taken over the work.", error)
