"""Reads ranges of offsets that windrow plans, through Spark's Python data sources.

Spark asks the source for offsets and keeps them in its checkpoint. Its scan has a row for each partition with new
elements, or for each part of one: the range to read. The next stage reads that range in the same task: no element
passes through the JVM.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from windrow.plan import Step
from windrow_runtime.inputs.batches import OpenPartitions, PartitionMark, elements_of
from windrow_runtime.inputs.offsets import Range, Reads
from windrow_runtime.metrics.reports import Backlog
from windrow_spark.clock import Alignment
from windrow_spark.exchange.picklable import check_picklable, make_picklable
from windrow_spark.faults import failures_marked
from windrow_spark.sources.scan import Scan, ScanContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# Any in this module: offsets and elements of every type, and pyarrow has no types.


def check_sent(part: object, step: Step, what: str) -> None:
    """Refuse a user's own source, or what makes it, that cannot be sent to workers."""
    make_picklable(type(part))
    check_picklable(step, [part], what, "open files, connections and locks in read(), where a worker needs them")


def scan_reads(reads: Reads, context: ScanContext) -> Scan:
    """Scans what windrow itself plans and reads, by offsets that Spark keeps."""
    reads = reads.shared_by(context.tasks, divided=context.divides_partitions)
    return Scan(range_frame(context, reads), elements_of, partial(_read_ranges, reads), reads.record_type)


class StreamPlanner(Protocol):
    """Plans the batches of a stream, as :class:`Reads` does; offsets and ranges are what JSON can hold."""

    def latest(self) -> Any:
        """Returns what there is to read now."""

    def advance_but(self, held: Collection[str], start: dict[str, Any], latest: Any) -> dict[str, Any]:
        """Returns the offset at which the next batch ends, which is ``start`` if there is nothing to read.

        Partitions that are ``held`` back stay where they are.
        """

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """Returns the ranges between two offsets, one for each task."""

    def check_end(self, done: dict[str, Any], latest: Any) -> None:
        """Refuses an end of the stream before everything was read."""

    def open_partitions(self, reached: dict[str, Any], latest: Any) -> OpenPartitions:
        """Returns the partitions that may have elements after an offset, which workers report to the driver."""

    def backlog(self, reached: dict[str, Any], latest: Any) -> Backlog | None:
        """Returns how much there is to read after an offset; None: it cannot be counted."""

    def commit(self, offsets: dict[str, Any]) -> None:
        """Takes note that a batch is done."""


def range_frame(context: ScanContext, planner: StreamPlanner) -> DataFrame:
    """Returns a DataFrame with a row for each range of a batch: a text in JSON."""
    name = f"windrow-{uuid.uuid4().hex}"
    # A class made here is pickled by value for other processes, together with the source.
    body = {
        "planner": planner,
        "name": classmethod(lambda _: name),
        "marks_partitions": context.marks_partitions,
        "alignment": context.alignment,
        "tells_waiting": context.tells_arrivals,
    }
    context.spark.dataSource.register(type("WindrowSource", (_RangeSource,), body))
    frame: DataFrame = context.reader.format(name).load()
    return frame


def _read_ranges(reads: Reads, batches: Iterator[Any]) -> Iterator[Any]:
    """Reads, in a worker, the elements of the ranges in Arrow batches, which may tell the open partitions."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            partition, start, end, incarnation, *partitions = json.loads(text)
            open_partitions = OpenPartitions(*partitions[0]) if partitions else None
            yield PartitionMark(partition, open_partitions, is_read=start != end)
            if start != end:
                yield from reads.read(Range(partition, start, end, incarnation))


class _RangeSource(DataSource):
    planner: StreamPlanner
    marks_partitions: bool
    alignment: Alignment | None
    tells_waiting: bool

    def schema(self) -> str:
        return "range string"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _JobReader(cast(Reads, self.planner))  # files are no such source in a batch job

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        return _StreamReader(
            self.planner,
            marks_partitions=self.marks_partitions,
            alignment=self.alignment,
            tells_waiting=self.tells_waiting,
        )


def _as_partitions(ranges: Sequence[Any]) -> list[InputPartition]:
    return [InputPartition(json.dumps(each)) for each in ranges]


class _JobReader(DataSourceReader):
    """Reads a source from its beginning to its end in a batch job."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def partitions(self) -> Sequence[InputPartition]:
        with failures_marked():
            return _as_partitions([each for ranges, _, _ in self._reads.to_the_end() for each in ranges])

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        # If there are no partitions, Spark passes one without a value.
        yield from () if partition.value is None else ((partition.value,),)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a stream, in a process beside the driver."""

    def __init__(
        self,
        planner: StreamPlanner,
        *,
        marks_partitions: bool = False,
        alignment: Alignment | None = None,
        tells_waiting: bool = False,
    ) -> None:
        self._tells_waiting = tells_waiting or alignment is not None
        self._planner = planner
        self._alignment = alignment
        self._marks_partitions = marks_partitions
        self._latest: Any = None
        self._newest: Any = None  # what the last batch was planned with
        self._planned: dict[str, Any] | None = None  # where that batch ends

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names, here and below
        return {}  # the first offset that has a partition contains its initial offset

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with failures_marked():
            self._latest = self._planner.latest()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        with failures_marked():
            latest = self._newest = self._planner.latest() if self._latest is None else self._latest
            held = () if self._alignment is None else self._alignment.held()
            planned = self._planned = self._planner.advance_but(held, start, latest)
            if self._latest is not None and not held and not self._planner.ranges(start, planned):
                # Spark takes an offset that does not move for the end, and the run would succeed.
                self._planner.check_end(planned, latest)
            return planned

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Returns what waits behind the batch that was planned last; Spark's progress has it as the latest offset."""
        if self._planned is None:
            return None
        with failures_marked():
            backlog = self._planner.backlog(self._planned, self._newest)
            return None if backlog is None else backlog._asdict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with failures_marked():
            ranges = list(self._planner.ranges(start, end))
            if self._marks_partitions and end:
                # A batch that runs again was planned by an earlier run.
                newest = self._latest if self._newest is None else self._newest
                latest = self._planner.latest() if newest is None else newest
                first = ranges[0] if ranges else Range(next(iter(end)), None, None)
                partitions = self._planner.open_partitions(end, latest)
                ranges[:1] = [(*first, (partitions.open, partitions.waiting if self._tells_waiting else ()))]
            return _as_partitions(ranges)

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (partition.value,)

    def commit(self, end: dict[str, Any]) -> None:
        with failures_marked():
            self._planner.commit(end)

    def stop(self) -> None:
        if isinstance(sys.exception(), (EOFError, ConnectionError)):
            # The query stops and closes the pipe of this process, which would print a traceback.
            os._exit(0)
