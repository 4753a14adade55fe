"""Django: the middleware for a whole site, the decorator for a view, and rows that are locked and changed through idem."""

from .middleware import IdemMiddleware, idempotent
from .pool import DjangoPool
from .rows import RowBusy, adjust, insert_once, move, select_for_update, select_many_for_update, update_if, update_version

__all__ = [
    "DjangoPool",
    "IdemMiddleware",
    "RowBusy",
    "adjust",
    "idempotent",
    "insert_once",
    "move",
    "select_for_update",
    "select_many_for_update",
    "update_if",
    "update_version",
]
