"""Finds the batches of a running query that read nothing, by Spark's reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windrow_spark.clock import ClockFiles

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


class IdleBatches:
    """Reads each report of a query once, and keeps the number of the newest batch that found nothing to do.

    A runner asks many times a second. Spark keeps a hundred reports and renders each one that it returns as JSON: all
    of them, each time, would slow down the batches. ``clock`` has the times of batches, if windrow keeps them.
    """

    def __init__(self, clock: ClockFiles | None) -> None:
        self._clock = clock
        self._reported = self._idle = -1

    def newest(self, query: StreamingQuery) -> int:
        """Returns the newest batch that read nothing while the next one has no timers to fire; -1: there is none."""
        for report in self._new_reports(query):
            self._reported = max(self._reported, report.batchId)
            read_nothing = all(source.startOffset == source.endOffset for source in report.sources)
            if read_nothing and self._leaves_nothing(report.batchId):
                self._idle = max(self._idle, report.batchId)
        return self._idle

    def _new_reports(self, query: StreamingQuery) -> Sequence[StreamingQueryProgress]:
        last = query.lastProgress
        if last is None or last.batchId <= self._reported:
            return ()
        if last.batchId == self._reported + 1:
            return (last,)
        return [report for report in query.recentProgress if report.batchId > self._reported]

    def _leaves_nothing(self, batch: int) -> bool:
        """Returns whether the next batch fires no timers, and reads nothing that this one has left."""
        if self._clock is None:
            return True
        # If the files of an old batch are deleted, a later batch decides.
        begun, following = self._clock.find(batch), self._clock.find(batch + 1)
        # If partitions waited for one that has nothing to read, the next batch reads them.
        return following is not None and following.settled and not (begun and begun.waiting)
