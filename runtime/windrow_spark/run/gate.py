"""Keeps new batches from beginning while a query stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from windrow.errors import UnsupportedOperationError
from windrow_spark.quiet import QuietFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Interrupted(QuietFailure):
    """Raised in ``foreachBatch`` when the query is stopped in the middle of a batch.

    Spark recognises by this text that the batch ended because its query was stopped, and not because it failed. The
    error of an interrupted action has it too, so deep that Spark's regular expression overflows the stack.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling an action: java.lang.InterruptedException"
        )


class BatchGate:
    """Stops batches before ``foreachBatch`` writes them. Each start of a query has a separate gate.

    Spark computes a batch when it is written, so a batch that does not pass the gate does nothing: no function is
    called and no state is touched. Spark has planned the batch, and runs it at the next start, under the same number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = -1
        self._last: int | None = None
        self._thread: int | None = None
        self._held = threading.Event()
        self._stopping = threading.Event()

    @property
    def holds(self) -> bool:
        """Whether a batch waits at the gate."""
        return self._held.is_set()

    @property
    def begun(self) -> int:
        """The number of the newest batch that has begun; -1: none."""
        return self._begun

    @property
    def is_stopping(self) -> bool:
        """Whether the query is being stopped."""
        return self._stopping.is_set()

    @property
    def is_entered_here(self) -> bool:
        """Whether this thread is writing a batch."""
        return self._thread == threading.get_ident()

    def enter(self, batch: int, spark: SparkSession) -> None:
        """Returns if a batch may begin; otherwise waits until the query is stopped and raises :class:`Interrupted`."""
        with self._lock:
            passes = self._last is None or batch <= self._last
            if passes:
                self._begun = max(self._begun, batch)
                self._thread = threading.get_ident()
        if passes:
            return
        self._held.set()
        self._stopping.wait()
        try:
            while True:
                spark.range(1).collect()
        except Exception:  # Spark has interrupted the query's thread, in which this runs, so the action fails
            raise Interrupted from None

    def leave(self) -> None:
        """Notes that a batch has finished or failed."""
        with self._lock:
            self._thread = None

    def close(self, planned: Callable[[], int]) -> int:
        """Close the gate for new batches; returns the number of the last one that may pass, -1: none.

        A running batch goes on, and must not call this: it cannot wait for its own end. ``planned`` returns the number
        of the last batch that Spark has planned; -1: none.
        """
        with self._lock:
            if self.is_entered_here:
                raise UnsupportedOperationError(
                    "a sink cannot wait for the end of the batch that it writes",
                    given=f"a graceful stop or a drain within batch {self._begun}",
                    expected="a call from another thread",
                    hint="set a threading.Event in the sink, and stop where you wait for it",
                )
            if self._last is None:
                self._last = max(self._begun, planned())
            return self._last

    def release(self) -> None:
        """Release a waiting batch, which is then interrupted, as its query is stopped."""
        self._stopping.set()
