"""The claim is committed first, under a fence; the handler works outside of a transaction; its response is stored under the
fence."""

from __future__ import annotations

from ..call import Call
from ..calls import keys
from ..calls.http import HttpAnswer, http_complete, http_key
from ..errors import LeaseLost, StaleFence, is_connection_loss, is_retryable, is_unavailable
from ..flight import claimed
from ..held import Holder
from ..interval import interval_seconds
from ..pool import LOOKUPS, Pool, rollback
from ..run import AsyncRun, Run, make_run
from .flow import Handler, Result, answered, ask, commit, failed, is_thrown, transaction, unstorable, warn_of_omission
from .options import Settings
from .request import Keyed
from .response import Problem, Response, internal_error, retry_later


async def serve(pool: Pool, settings: Settings, request: Keyed, handler: Handler) -> Result:
    assert settings.lease is not None
    run = make_run(pool, scope=request.scope, header=request.header)
    holder = Holder(pool, run, settings.lease, settings.logger)
    wait = 0 if settings.wait is None else interval_seconds("wait", settings.wait)
    answer = await claimed(
        pool,
        ("key", request.scope, request.header),
        wait,
        lambda: _claim(pool, settings, request, run, holder),
        _is_in_flight,
    )
    if answer.action != "run":
        return answered(answer, request)
    if run.fence is None:
        response = await handler(run)
        run.life.is_committed = not is_thrown(settings, response)
        return Result("run", response)
    return Result("run", await _work(pool, settings, request, handler, run, holder), run.fence, run.attempt)


def _is_in_flight(answer: HttpAnswer) -> bool:
    return answer.action == "reject" and answer.code == "in_flight"


async def _claim(pool: Pool, settings: Settings, request: Keyed, run: Run | AsyncRun, holder: Holder) -> HttpAnswer:
    async with transaction(pool, settings) as session:
        holder.beat.claim()
        answer = await ask(session, settings, request)
        if answer.action != "run":
            return answer
        try:
            if answer.fence is not None:
                assert request.header is not None
                run.fence = answer.fence
                run.key = await session.run(http_key(request.header, scope=request.scope))
                assert run.key is not None
                known = await session.run(keys.lookup(run.key, scope=request.scope))
                run.steps = dict(known.steps or {}) if known else {}
                run.attempt = known.attempt if known else None
        except Exception as error:
            raise await failed(session, error)
        await commit(session)
    return answer


async def _work(
    pool: Pool, settings: Settings, request: Keyed, handler: Handler, run: Run | AsyncRun, holder: Holder
) -> Response:
    try:
        await holder.begin()
    except LeaseLost as error:
        raise _lease_lost(error)
    try:
        response = await handler(run)
    except StaleFence as error:
        await holder.release()
        raise _lease_lost(error) if run.is_lost else error
    except BaseException:
        await holder.release()
        raise
    if is_thrown(settings, response):
        await holder.release()
        if run.is_lost and isinstance(response.error, StaleFence):
            raise _lease_lost(response.error)
        return response
    if not holder.beat.returned():
        raise _lease_lost(LeaseLost("the lease was lost while the handler worked"))
    if reason := unstorable(settings, response):
        raise reason  # the work has run: the key is kept until the lease ends
    return await _complete(pool, settings, request, response, run, holder)


async def _complete(
    pool: Pool, settings: Settings, request: Keyed, response: Response, run: Run | AsyncRun, holder: Holder
) -> Response:
    """Tries again when the connection is lost: the same completion twice is one."""
    complete = http_complete(
        request.scope, request.header, response.status, response.header_object(), b"" if response.is_large else response.body,
        fence=run.fence, omit=response.is_large,
    )  # fmt: skip
    for pause in LOOKUPS:
        await pool.sleep(pause)
        try:
            what = await _completed(pool, complete)
        except StaleFence as error:
            raise _lease_lost(error)
        except Exception as error:
            last = error
            if not is_unavailable(error) and not is_retryable(error) and not is_connection_loss(error):
                raise internal_error(error, "The response could not be stored. The log of the server has the reason.")
            continue
        if what == "released":
            await holder.release()
            return response
        if what == "omitted":
            warn_of_omission(settings, request)
        run.life.is_committed = True
        return response
    raise retry_later(
        "unavailable", "The response could not be stored. The same request is answered when the lease has ended.", last
    )


async def _completed(pool: Pool, complete: Call[str]) -> str:
    """Commits what is stored. A response whose status is not is released with the key by the caller."""
    async with pool.session() as session:
        try:
            await session.begin()
            try:
                what = await session.run(complete)
            except BaseException:
                await rollback(session)
                raise
            if what == "released":
                await rollback(session)
            else:
                await session.commit()
        except Exception as error:
            raise pool.lost(session, error)
    return what


def _lease_lost(error: StaleFence) -> Problem:
    return retry_later("lease_lost", "Another request has, or may have, taken over the work.", error)
