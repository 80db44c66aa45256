"""Reads and writes users' own sources and sinks on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow.connectors import CustomSink
from windrow.connectors.custom_sink import takes_arrow
from windrow.connectors.custom_source import reads_arrow
from windrow.plan import Step
from windrow_runtime.connectors.custom.reader import CustomReader
from windrow_runtime.connectors.custom.writer import CustomOutput, CustomWriter
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.outputs.output import Identity
from windrow_spark.exchange.picklable import check_picklable, make_picklable
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask
from windrow_spark.sources.ranges import check_sent
from windrow_spark.sources.scan import Scan, ScanContext
from windrow_spark.sources.scanner import SparkScanner
from windrow_spark.worker import current_partition

# Any in this module: elements of every type, and pyarrow has no types.


class CustomScanner(SparkScanner[CustomReader]):
    """Scans the partitions of a user's own source, which has to be picklable."""

    is_divided = False

    def scan(self, context: ScanContext) -> Scan:
        self.check_sent()
        return super().scan(context)

    def check_sent(self) -> None:
        check_sent(self.source, self.step, "the source")

    def check_columns(self) -> None:
        if not reads_arrow(self.reader.source):
            raise DeclinedError(f"{self.source.describe()} gives records one by one: it has no read_arrow")

    @property
    def has_several_partitions(self) -> bool:
        return len(self.reader.reads().partitions()) > 1


class CustomSparkWriter(SparkWriter[CustomWriter]):
    """Writes a user's own sink, on the driver or in workers."""

    is_opened_by_server = True

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.WORKERS if self.writer.is_on_workers else WrittenBy.OUTPUT

    @property
    def takes_columns(self) -> bool:
        return takes_arrow(self.writer.sink)

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        assert identity is not None, "it has a target"
        sink = self.writer.sink
        make_picklable(type(sink))
        check_picklable(self.step, [sink], "the sink", "make connections and files in open(), which each worker calls")
        return CustomWorkerSink(sink_alone(self.step), sink, identity)


@dataclass(frozen=True, slots=True)
class CustomWorkerSink(WorkerSink):
    """A user's own sink that workers write; the sink itself publishes its elements."""

    step: Step
    sink: CustomSink[Any]
    identity: Identity
    needs_division = True
    keeps_order = True

    def task(self, batch: int) -> WorkerTask:
        output = CustomOutput(self.step, self.sink, self.identity, current_partition())
        output.open()
        return _CustomTask(output, batch)


@dataclass(slots=True)
class _CustomTask(WorkerTask):
    """Hands the elements of one task to a user's own sink."""

    output: CustomOutput
    batch: int

    def write(self, values: Sequence[Any]) -> int:
        if values:
            # The user's sink gets copies, since it may change objects that other sinks get, too.
            self.output.write(self.batch, values if self.output.takes_arrow else list(map(own, values)))
        return 0

    def write_rows(self, rows: Any) -> int:
        self.output.write_portions(self.batch, [rows])
        return 0

    def close(self) -> None:
        self.output.close()
