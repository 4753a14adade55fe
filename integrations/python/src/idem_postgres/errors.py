"""The errors of idem as exceptions, and what the SQLSTATE of any driver's exception says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class IdemError(Exception):
    """An error that idem raised. `sqlstate` is its SQLSTATE; `__cause__` is the driver's exception. The transaction has
    failed."""

    sqlstate = "ID000"

    @staticmethod
    def of(error: BaseException) -> IdemError | None:
        """The typed form of a driver's exception; None: the error is not idem's."""
        for cls in IdemError.__subclasses__():
            if cls.sqlstate == sqlstate(error):
                return cls(str(error))
        return None


class StaleFence(IdemError):
    """ID001: the key or the lock is not held with this fence. Roll back: another caller may be doing the work."""

    sqlstate = "ID001"


class LeaseLost(StaleFence):
    """Another caller has, or may have, taken the key over. Stop working; nothing is stored."""


class TransitionNotAllowed(IdemError):
    """ID003: the state machine does not have this transition."""

    sqlstate = "ID003"


class StaleVersion(IdemError):
    """ID004: the row has another version than the one that was read."""

    sqlstate = "ID004"


class InFlight(IdemError):
    """ID005: another holder is not done, or the key is in doubt, and the function has no other way to say so."""

    sqlstate = "ID005"

    def __init__(self, message: str = "", retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms
        """When to try again; None: it is not known."""


class DoneBefore(IdemError):
    """ID006: `must_claim` met a key whose work has committed."""

    sqlstate = "ID006"


class NotInstalled(Exception):
    """idem is missing, or older or newer than this package. The message says what to do."""


class Mismatch(Exception):
    """The key was used before with another fingerprint."""


class InDoubt(Exception):
    """It is not known whether a step of the work has happened. The key is kept until an operator decides."""

    def __init__(self, message: str, step: str | None = None) -> None:
        super().__init__(message)
        self.step = step
        """The step that may have happened, if it is known."""


class ResultNotStored(Exception):
    """The act has run, and its result cannot be stored. The key is kept: a retry must not run the act again."""

    def __init__(self, message: str, step: str | None = None) -> None:
        super().__init__(message)
        self.step = step


class CommitUnknown(Exception):
    """The connection was lost in COMMIT, and the database could not be asked what became of it. Call again with the same
    key."""


class RolledBack(Exception):
    """COMMIT has answered ROLLBACK: nothing was done."""


class TransactionOver(RuntimeError):
    """A connection was used after its transaction."""

    def __init__(self) -> None:
        super().__init__("the transaction is over: use your own connection for work after the response")


class LockBusy(Exception):
    """Another holder has the lock, after the wait that was given."""


class ConnectionLost(Exception):
    """The connection to the database is gone. What a transaction of idem's own has done is unknown."""

    sqlstate = "08006"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, what an ORM wrapped in it, and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        original = getattr(error, "orig", None)
        error = original if isinstance(original, BaseException) else error.__cause__ or error.__context__


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of an exception of psycopg, psycopg2, asyncpg, SQLAlchemy or Django, or of one that was raised from it."""
    for link in _chain(error):
        code = getattr(link, "sqlstate", None) or getattr(link, "pgcode", None)
        if isinstance(code, str) and code:
            return code
    return None


def is_retryable(error: BaseException) -> bool:
    """A serialization failure or a deadlock: the same transaction may succeed when it is run again."""
    return sqlstate(error) in ("40001", "40P01")


def is_connection_loss(error: BaseException) -> bool:
    """The server, a pooler or SQLAlchemy said that the session is over."""
    code = sqlstate(error) or ""
    return (
        code.startswith(("08", "57P"))
        or code == "25P03"  # idle_in_transaction_session_timeout
        or any(getattr(link, "connection_invalidated", False) for link in _chain(error))
    )


def is_unavailable(error: BaseException) -> bool:
    """Nothing is wrong with the statement: the server is gone, full, or read only after a failover."""
    code = sqlstate(error) or ""
    return is_connection_loss(error) or code.startswith("53") or code == "25006"


def is_aborted(error: BaseException) -> bool:
    """The transaction has failed before, at a statement whose error the application did not pass on."""
    return sqlstate(error) == "25P02" or type(error).__name__ in ("TransactionManagementError", "PendingRollbackError")


@contextmanager
def typed_errors(schema: str) -> Iterator[None]:
    """For a call of idem, whose schema is named: raises what idem raised as `IdemError`, that idem is not there as `NotInstalled`,
    and everything else as it is."""
    try:
        yield
    except Exception as error:
        if typed := IdemError.of(error):
            raise typed from error
        if _says_missing(error, schema):
            said = str(error).partition("\n")[0]
            how = "run: python3 -m idem_postgres install"
            raise NotInstalled(f"{said}: idem is not installed here, or older than this package; {how}") from error
        raise


def _says_missing(error: BaseException, schema: str) -> bool:
    """The work's own SQL, in idem_execute, may miss another schema or function."""
    code = sqlstate(error)
    return (code == "3F000" and schema in str(error)) or (code == "42883" and "idem_" in str(error))
