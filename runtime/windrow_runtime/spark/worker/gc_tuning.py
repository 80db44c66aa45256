"""Makes Python's cyclic garbage collector run seldom while a task makes many small objects, which form no cycles."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_RARE = (500_000, 20, 100)
_entered = 0


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Makes the garbage collector run seldom.

    By default it looks at all young objects whenever 700 more have been made than freed. While a task turns a batch of
    records into objects, all of them live, that doubles the time. Cycles that the user's functions make are still
    collected, only later.
    """
    _leave_out_what_stays()
    thresholds = gc.get_threshold()
    gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _leave_out_what_stays() -> None:
    """Have the collector pass over the modules of a worker.

    Spark's worker collects all garbage after each task, before it takes the next one, and some 50,000 objects of
    imported modules take most of that time. When the second piece of work begins, all are imported, and the garbage of
    the task before is gone. Not at every one: the functions that a task brings along are garbage behind it.
    """
    global _entered  # noqa: PLW0603  the collector is the process's
    # Spark sets the variable for its workers. Other processes may be the user's, whose objects are not ours to keep.
    if _entered < 2 and "SPARK_REUSE_WORKER" in os.environ:
        _entered += 1
        if _entered == 2:
            gc.freeze()
