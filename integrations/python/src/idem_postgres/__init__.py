"""idem, idempotency in PostgreSQL: middleware for web frameworks, tasks, locks, and idem's functions with types."""

from .asgi import IdemMiddleware as AsgiMiddleware
from .calls.keys import KeyInfo, Ticket
from .calls.outbox import Message
from .calls.requests import Allowance, Webhook
from .calls.rows import Adjusted, RowResult, Transition, VersionedResult
from .errors import (
    CommitUnknown,
    DoneBefore,
    IdemError,
    InDoubt,
    InFlight,
    LeaseLost,
    LockBusy,
    Mismatch,
    NotInstalled,
    ResultNotStored,
    StaleFence,
    StaleVersion,
    TransactionOver,
    TransitionNotAllowed,
)
from .http.multipart import multipart_fingerprint
from .http.options import Options, Outcome
from .http.response import Problem, Response
from .run import AsyncRun, Run, current, current_async
from .idem import AsyncIdem, Idem
from .installation import Installation, install, script, status, uninstall, verify
from .leased import AsyncWork, Fate, Gate, Work, async_leased, fate, leased
from .lock import HeldLock, async_lock, lock
from .once import Aborted, Done, async_once, once
from .wsgi import IdemMiddleware as WsgiMiddleware

__all__ = [
    "Aborted",
    "Adjusted",
    "Allowance",
    "AsgiMiddleware",
    "AsyncIdem",
    "AsyncRun",
    "AsyncWork",
    "CommitUnknown",
    "Done",
    "DoneBefore",
    "Fate",
    "Gate",
    "HeldLock",
    "Idem",
    "IdemError",
    "InDoubt",
    "InFlight",
    "Installation",
    "KeyInfo",
    "LeaseLost",
    "LockBusy",
    "Message",
    "Mismatch",
    "NotInstalled",
    "Options",
    "Outcome",
    "Problem",
    "Response",
    "ResultNotStored",
    "RowResult",
    "Run",
    "StaleFence",
    "StaleVersion",
    "Ticket",
    "TransactionOver",
    "Transition",
    "TransitionNotAllowed",
    "VersionedResult",
    "Webhook",
    "Work",
    "WsgiMiddleware",
    "async_leased",
    "async_lock",
    "async_once",
    "current",
    "current_async",
    "fate",
    "install",
    "leased",
    "lock",
    "multipart_fingerprint",
    "once",
    "script",
    "status",
    "uninstall",
    "verify",
]
