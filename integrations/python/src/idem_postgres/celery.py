"""Celery: a task whose effect happens once per task id, however often its message is delivered."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from celery import current_task
from celery.exceptions import Ignore, Reject

from .calls import keys
from .errors import InDoubt, InFlight, LeaseLost, Mismatch, StaleFence, is_retryable, is_unavailable
from .held import Holder
from .interval import Interval, interval_seconds, interval_text, lease_seconds
from .pool import LOOKUPS, Pool, blocking_pool, finish, rollback
from .result import decoded, encoded
from .run import as_current, make_run

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger("idem_postgres")


def once(
    pool: Any,
    *,
    scope: str = "celery",
    ttl: Interval | None = None,
    lease: Interval | None = None,
    countdown: Interval = "5 s",
    schema: str = "idem",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`@app.task(acks_late=True, reject_on_worker_lost=True)` and below it `@once(pool)`. The pool is one of a blocking driver.

    The task runs in a transaction with the claim of its id; what it returns, JSON, is stored there and committed with its rows.
    A repeated delivery returns the stored result. While another worker runs the task, the message is sent again after
    `countdown`, which is no retry of the task's: it has no limit, and changes no state. An exception, `Retry` included, rolls
    back, and the id is free. `current()` has the connection.

    With `lease` the claim is committed first, the task runs outside of a transaction under a fence, and notes its steps by
    `current().step`.

    A task that is called as a function has no id, and runs in a plain transaction (with `lease`: in none).
    """
    source = blocking_pool(pool, schema, "a task needs a pool of a blocking driver", may_nest=lease is None)
    if ttl is not None:
        interval_text("ttl", ttl)
    if lease is not None:
        lease_seconds("lease", lease)
    pause = interval_seconds("countdown", countdown)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            task_id = current_task.request.id if current_task else None
            work = functools.partial(function, *args, **kwargs)
            if lease is None:
                flow = _transactional(source, task_id, work, scope, ttl, pause)
            else:
                flow = _leased(source, task_id, work, scope, ttl, pause, lease)
            return finish(flow)  # type: ignore[no-any-return]

        return wrapper

    return decorate


async def _transactional(
    pool: Pool, task_id: str | None, work: Callable[[], Any], scope: str, ttl: Interval | None, countdown: float
) -> Any:
    ticket = None
    async with pool.session() as session:
        await session.begin()
        run = make_run(pool, scope=scope, key=task_id, raw_connection=session.connection)
        try:
            if task_id is not None:
                ticket = await session.run(keys.begin(task_id, ttl=ttl, scope=scope))
            if ticket is None or ticket.is_mine:
                with as_current(run):
                    result = work()
            run.life.is_over = True
            if task_id is not None and ticket is not None and ticket.is_mine:
                _warn(task_id, await session.run(keys.complete(task_id, encoded({"result": result}), scope=scope)))
        except BaseException:
            run.life.is_over = True
            await rollback(session)
            raise
        await session.commit()
    return result if ticket is None or ticket.is_mine else _known(ticket, countdown)


async def _leased(
    pool: Pool,
    task_id: str | None,
    work: Callable[[], Any],
    scope: str,
    ttl: Interval | None,
    countdown: float,
    lease: Interval,
) -> Any:
    if task_id is None:
        return work()
    run = make_run(pool, scope=scope, key=task_id)
    holder = Holder(pool, run, lease, _log)
    holder.beat.claim()
    ticket = await pool.run(keys.begin(task_id, ttl=ttl, lease=lease, owner=str(uuid.uuid4()), scope=scope))
    if not ticket.is_mine:
        return _known(ticket, countdown)
    run.fence, run.attempt, run.steps = ticket.fence, ticket.attempt, ticket.steps or {}
    try:
        await holder.begin()
    except LeaseLost:
        _later(countdown)
    try:
        with as_current(run):
            result = work()
    except StaleFence:
        await holder.release()
        if run.is_lost:
            _later(countdown)
        raise
    except BaseException:
        await holder.release()
        raise
    if not holder.beat.returned():
        _later(countdown)
    await _complete(pool, task_id, result, ticket, scope, countdown)
    return result


async def _complete(pool: Pool, task_id: str, result: Any, ticket: keys.Ticket, scope: str, countdown: float) -> None:
    """The same completion twice is one. A stale fence: another worker has taken over, whose result counts."""
    complete = keys.complete(task_id, encoded({"result": result}), fence=ticket.fence, scope=scope)
    for pause in LOOKUPS:
        await pool.sleep(pause)
        try:
            return _warn(task_id, await pool.run(complete))
        except StaleFence:
            _later(countdown)
        except Exception as error:
            if pause == LOOKUPS[-1] or not is_unavailable(error) and not is_retryable(error):
                raise


def _known(ticket: keys.Ticket, countdown: float) -> Any:
    """The result of an earlier delivery; or the message comes again later."""
    task_id = current_task.request.id
    match ticket.outcome:
        case "completed" if ticket.response_omitted:
            # None would replace the result that the first delivery has given to Celery.
            _log.warning("task %s was done before, and its result was too large to be stored: this delivery is ignored", task_id)
            raise Ignore()
        case "completed":
            return decoded(ticket.response)["result"] if ticket.response else None
        case "in_flight":
            _later(countdown if ticket.retry_after_ms is None else max(ticket.retry_after_ms / 1000, 1), ticket.retry_after_ms)
        case "mismatch":
            raise Mismatch(f"task {task_id} was called before with another fingerprint")
    raise InDoubt(f"task {task_id} is in doubt: an operator must decide")


def _later(countdown: float, retry_after_ms: int | None = None) -> None:
    """Sends the message again, and acknowledges this delivery. Not by `Task.retry`: it fails the task after `max_retries`, and
    counts what are no attempts of the task."""
    request = current_task.request
    if request.is_eager or request.called_directly:
        raise InFlight(f"another worker runs task {request.id}", retry_after_ms)
    again = current_task.signature_from_request(request, countdown=countdown, retries=request.retries)
    try:
        again.apply_async()
    except Exception as error:
        raise Reject(error, requeue=True) from error
    raise Ignore()


def _warn(task_id: str, is_stored: bool) -> None:
    if not is_stored:
        _log.warning("the result of task %s is too large to be stored: a repeated delivery has none", task_id)
