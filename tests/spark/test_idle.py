"""What a run costs Spark while it waits for the first batch that reads nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from windrow_spark.clock import BatchClock, ClockFiles
from windrow_spark.run.idle import IdleBatches

# Any in this module: a query that stands in for Spark's.


def report(batch: int, *offsets: tuple[str, str]) -> Any:
    return SimpleNamespace(batchId=batch, sources=[SimpleNamespace(startOffset=a, endOffset=b) for a, b in offsets])


def reading(batch: int) -> Any:
    return report(batch, (f"{batch}", f"{batch + 1}"), ("9", "9"))


def idle(batch: int) -> Any:
    return report(batch, ("9", "9"), ("9", "9"))


@dataclass
class Query:
    """Counts the reports that it renders."""

    reports: list[Any] = field(default_factory=list)
    rendered: int = 0

    @property
    def lastProgress(self) -> Any:  # noqa: N802  Spark's names
        self.rendered += bool(self.reports)
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        self.rendered += len(self.reports)
        return list(self.reports)


def newest(batches: IdleBatches, query: Any) -> int:
    return batches.newest(query)


def test_a_poll_renders_one_report_however_many_batches_there_were() -> None:
    query, batches = Query(), IdleBatches(None)
    assert newest(batches, query) == -1
    polls = 0
    for batch in range(12):
        query.reports.append(reading(batch))
        for _ in range(7):  # as often as in a batch of a third of a second
            assert newest(batches, query) == -1
            polls += 1
    # All reports at each poll were 546 of them, seven times as many as now: Spark rendered these beside the batches.
    assert query.rendered == polls == 84


def test_batches_between_two_polls_are_all_looked_at() -> None:
    query, batches = Query([reading(4), idle(5), reading(6), reading(7)]), IdleBatches(None)
    assert newest(batches, query) == 5
    rendered = query.rendered
    query.reports.append(idle(8))
    assert newest(batches, query) == 8
    assert newest(batches, query) == 8
    assert query.rendered == rendered + 2


def test_a_batch_that_moved_a_watermark_or_left_elements_is_not_idle(tmp_path: Path) -> None:
    files = ClockFiles(tmp_path)
    files.write(0, BatchClock())
    files.write(1, BatchClock(watermarks={"step": 5}))  # timers are due in batch 1
    files.write(2, BatchClock(watermarks={"step": 5}, previous={"step": 5}, waiting={"source": ["0"]}))
    files.write(3, BatchClock(watermarks={"step": 5}, previous={"step": 5}))
    files.write(4, BatchClock(watermarks={"step": 5}, previous={"step": 5}))
    query, batches = Query([idle(0)]), IdleBatches(files)
    assert newest(batches, query) == -1
    idle_after = []
    for batch in range(1, 5):
        query.reports.append(idle(batch))
        idle_after.append(newest(batches, query))
    # Batch 2 left elements of a partition that had waited; the time of batch 5 is not known.
    assert idle_after == [1, 1, 3, 3]
