"""Begins a batch of a running query at a time, without elements."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from windrow.time import now_millis

_LONGEST_SECONDS: Final = 60.0
"""The longest wait before the clock is read again, which somebody may set."""


class Waker:
    """Waits in a thread of its own, and does nothing meanwhile. A later time replaces an earlier one.

    Args:
        wake: Lets the query run a batch.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed = threading.Condition()
        self._at: int | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="windrow-waker", daemon=True)
        self._thread.start()

    def set(self, at: int | None) -> None:
        """Set the time of the next batch by the machine's clock, in milliseconds; None: there is none."""
        with self._changed:
            self._at = at
            self._changed.notify()

    def close(self) -> None:
        """End the thread; a batch that was to come does not."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while self._wait():
            self._wake()

    def _wait(self) -> bool:
        """Waits until the time has come; returns False if there is nothing more to wait for."""
        with self._changed:
            while not self._is_closed:
                left = None if self._at is None else (self._at - now_millis()) / 1000
                if left is not None and left <= 0:
                    self._at = None
                    return True
                self._changed.wait(None if left is None else min(left, _LONGEST_SECONDS))
        return False
