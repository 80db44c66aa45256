"""Tells a Python worker which batch its task belongs to, and reduces the runs of its garbage collector."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from windrow.time import now_millis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB_BATCH: Final = 0
"""The number of a batch job's only batch."""

PARTITIONS: Final = "windrow.partitions"
"""The property of tasks that says how their batch is divided: into how many partitions, and what decides that."""

_NOW: Final = "windrow.now"
_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_TAGS_PROPERTY: Final = "spark.job.tags"
_TAG: Final = "windrow-batch-"
_SELDOM: Final = (500_000, 20, 100)
_entered = 0


def batch_tag(batch: int) -> str:
    """Returns the tag of a batch's jobs over Spark Connect, whose tasks do not get the batch number otherwise."""
    return f"{_TAG}{batch}"


def current_partition() -> int:
    """Returns the number of the partition that this task computes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "Spark has one in every task"
    return context.partitionId()


def current_batch() -> int | None:
    """Returns the number of the batch that this task belongs to; None outside of a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    number = context.getLocalProperty(_BATCH_PROPERTY)
    if number is not None:
        return int(number)
    # Spark makes the tag part of a longer one.
    tagged = re.search(rf"{_TAG}(\d+)", context.getLocalProperty(_TAGS_PROPERTY) or "")
    return None if tagged is None else int(tagged[1])


def division_told() -> str:
    """Returns how the batch of this task is divided; "" if nobody has told."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(PARTITIONS) or ""


def tell_now(spark: SparkSession) -> None:
    """Tells the tasks of a batch, whose jobs this thread starts, the driver's clock: those of workers may differ."""
    context = getattr(spark, "sparkContext", None)  # a server of Spark Connect tells nobody
    if context is not None:
        context.setLocalProperty(_NOW, str(now_millis()))


def batch_millis() -> int:
    """Returns the processing time of this task's batch by the driver's clock; this machine's if nobody has told."""
    from pyspark import TaskContext

    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty(_NOW)
    return now_millis() if told is None else int(told)


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Makes the cyclic garbage collector run seldom while a task makes many small objects, which form no cycles.

    By default it scans all young objects whenever 700 more have been made than freed. While a task turns a batch of
    records into objects that all live, that doubles the time. Cycles that users' functions make are still collected,
    only later.
    """
    global _entered  # noqa: PLW0603  the collector is the process's
    # Spark's worker collects all garbage between tasks, and some 50,000 objects of imported modules take most of that
    # time, so they are frozen: the collector ignores them. It is done when the second task begins, since all modules
    # are imported then, and the garbage of the first task is gone; and only once, since the functions of each task
    # become garbage after it. Spark sets the variable for its workers; other processes may be the user's, whose
    # objects must not be frozen.
    if _entered < 2 and "SPARK_REUSE_WORKER" in os.environ:
        _entered += 1
        if _entered == 2:
            gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
