"""Celery: a task whose effect happens once per task id, however often its message is delivered."""

from __future__ import annotations

import datetime
import functools
import logging
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from celery import current_task

from .calls import keys
from .heartbeat import Term
from .interval import Interval, check_timedelta, interval_text
from .lease import renewed
from .pool import Pool, blocking_pool, finish, rollback
from .run import as_current, make_run

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger("idem_postgres")


def once(
    pool: Any,
    *,
    scope: str = "celery",
    ttl: Interval | None = None,
    lease: datetime.timedelta | None = None,
    countdown: float = 5,
    schema: str = "idem",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`@app.task(acks_late=True, reject_on_worker_lost=True)` and below it `@once(pool)`. The pool is one of a blocking driver.

    The task runs in a transaction with the claim of its id; what it returns, JSON, is stored there and committed with its rows.
    A repeated delivery returns the stored result. While another worker runs the task, it is retried after `countdown` seconds.
    An exception, `Retry` included, rolls back, and the id is free. `current()` has the connection.

    With `lease` the claim is committed first, the task runs outside of a transaction under a fence, and notes its steps by
    `current().step`.

    A task that is called as a function has no id, and runs in a plain transaction (with `lease`: in none).
    """
    source = blocking_pool(pool, schema, "a task needs a pool of a blocking driver", may_nest=lease is None)
    if ttl is not None:
        interval_text("ttl", ttl)
    if lease is not None:
        check_timedelta("lease", lease)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            task_id = current_task.request.id if current_task else None
            work = functools.partial(function, *args, **kwargs)
            if lease is None:
                flow = _transactional(source, task_id, work, scope, ttl, countdown)
            else:
                flow = _leased(source, task_id, work, scope, ttl, countdown, lease)
            return finish(flow)  # type: ignore[no-any-return]

        return wrapper

    return decorate


async def _transactional(
    pool: Pool, task_id: str | None, work: Callable[[], Any], scope: str, ttl: Interval | None, countdown: float
) -> Any:
    ticket = None
    async with pool.session() as session:
        await session.begin()
        try:
            if task_id is not None:
                ticket = await session.run(keys.begin(task_id, ttl=ttl, scope=scope))
            if ticket is None or ticket.is_mine:
                with as_current(make_run(pool, scope=scope, key=task_id, connection=session.connection)):
                    result = work()
            if task_id is not None and ticket is not None and ticket.is_mine:
                await session.run(keys.complete(task_id, _wrapped(result), scope=scope))
        except BaseException:
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
    lease: datetime.timedelta,
) -> Any:
    if task_id is None:
        return work()
    term = Term(lease.total_seconds(), time.monotonic())
    ticket = await pool.run(keys.begin(task_id, ttl=ttl, lease=lease, scope=scope))
    if not ticket.is_mine:
        return _known(ticket, countdown)
    run = make_run(pool, scope=scope, key=task_id, fence=ticket.fence, steps=ticket.steps or {}, term=term)
    with as_current(run):
        async with renewed(pool, run, lease, _log):
            result = work()
    await pool.run(keys.complete(task_id, _wrapped(result), fence=ticket.fence, scope=scope))
    return result


def _known(ticket: keys.Ticket, countdown: float) -> Any:
    """The result of an earlier delivery; or the task is retried."""
    if ticket.outcome == "completed":
        return ticket.response["result"] if ticket.response else None
    if ticket.outcome == "in_flight":
        if ticket.retry_after_ms is not None:
            countdown = max(ticket.retry_after_ms / 1000, 1)
        raise current_task.retry(countdown=countdown, max_retries=None)
    raise RuntimeError(f"the task cannot run: its id is {ticket.outcome}")


def _wrapped(result: Any) -> dict[str, Any]:
    """None is a result, too."""
    return {"result": result}
