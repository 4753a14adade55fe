"""idem, idempotency in PostgreSQL: middleware for web frameworks, tasks, locks, and idem's functions with types."""

from .asgi import IdemMiddleware as AsgiMiddleware
from .calls.keys import KeyInfo, Ticket
from .calls.outbox import Message
from .calls.rows import Adjusted, RowResult, Transition, VersionedResult
from .errors import DoneBefore, IdemError, InFlight, LockBusy, StaleFence, StaleVersion, TransitionNotAllowed
from .http.options import Options, Outcome
from .http.response import Problem
from .run import AsyncRun, Run, current, current_async
from .idem import AsyncIdem, Idem
from .lock import HeldLock, async_lock, lock
from .wsgi import IdemMiddleware as WsgiMiddleware

__all__ = [
    "Adjusted",
    "AsgiMiddleware",
    "AsyncIdem",
    "AsyncRun",
    "DoneBefore",
    "HeldLock",
    "Idem",
    "IdemError",
    "InFlight",
    "KeyInfo",
    "LockBusy",
    "Message",
    "Options",
    "Outcome",
    "Problem",
    "RowResult",
    "Run",
    "StaleFence",
    "StaleVersion",
    "Ticket",
    "Transition",
    "TransitionNotAllowed",
    "VersionedResult",
    "WsgiMiddleware",
    "async_lock",
    "current",
    "current_async",
    "lock",
]
