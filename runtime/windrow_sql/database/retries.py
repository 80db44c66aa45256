"""Tries again what failed because the connection to the database was lost, or because of another transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar

import sqlalchemy as sa
from psycopg import OperationalError

T = TypeVar("T")

_ATTEMPTS: Final = 5
# The SQLSTATE codes of PostgreSQL after which an attempt may succeed: class 08 for lost connections, a server that goes
# down or is not up yet, too many connections, a serialization failure and a deadlock.
_LOST_STATES: Final = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01")


def retried(action: Callable[[], T], first_pause: float, tell: Callable[[Exception], None]) -> T:
    """Calls ``action`` up to five times, until it succeeds or fails with an error that another attempt would not mend.

    Args:
        action: A whole transaction. Whether it was committed by an attempt that failed is not known.
        first_pause: The seconds before the second attempt; each pause is twice the one before.
        tell: Gets each error behind which another attempt follows.
    """
    for attempt in count(1):
        try:
            return action()
        except Exception as error:  # of SQLAlchemy, or of the driver
            if attempt == _ATTEMPTS or not _is_lost(error):
                raise
            tell(error)
        time.sleep(first_pause * 2 ** (attempt - 1))
    raise AssertionError("the last attempt returns or raises")


def _is_lost(error: Exception) -> bool:
    """Returns whether a second attempt may succeed: the connection was lost, or another transaction interfered."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if not isinstance(cause, OperationalError):
        return False
    # The error has no code if the server could not send one any more.
    return cause.sqlstate is None or cause.sqlstate.startswith(_LOST_STATES)
