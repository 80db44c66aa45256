"""Writes the packed rows of a batch to the sinks."""

from __future__ import annotations

import atexit
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.addresses.paths import local_path
from windrow.connectors import CustomSink
from windrow.errors import Location, WindrowError
from windrow.kafka import KafkaSink
from windrow.plan import SinkNode, Step
from windrow.sinks import (
    CollectSink,
    CsvFileSink,
    FileSink,
    JsonFileSink,
    Sink,
    TextFileSink,
    WriterSink,
)
from windrow_runtime.codecs.arrow.batches import arrow_schema, encode_batch
from windrow_runtime.codecs.class_names import UserClass
from windrow_runtime.codecs.line_encoder import line_encoder
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.spark_schema import spark_ddl
from windrow_runtime.columnar.state.chunks import load_rows
from windrow_runtime.inputs.checks import warn_of_header
from windrow_runtime.operators.errors import sink_unwritable, with_field
from windrow_runtime.outputs import Output, closing_outputs, open_outputs
from windrow_runtime.outputs.batch_folder import BatchFolder
from windrow_runtime.outputs.sink_folders import check_owner, other_run
from windrow_runtime.spark.batch_number import BatchNote, batch_tag
from windrow_runtime.spark.clock.keeper import ClockKeeper, Report
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.payload import load_values
from windrow_runtime.spark.exchange.rows import PackedRow, RowKind
from windrow_runtime.spark.faults.marked import failures_marked
from windrow_runtime.spark.faults.spark_errors import causes_of, engine_failure, secrets_hidden, unwritable
from windrow_runtime.spark.kafka import kafka_rows, write_kafka
from windrow_runtime.spark.paths import as_read_path, as_spark_path, exists_for_spark
from windrow_runtime.spark.run.facts import Count
from windrow_runtime.spark.run.progress_keeper import ProgressKeeper
from windrow_runtime.spark.sinks.dataframe import ColumnsSink
from windrow_runtime.spark.sinks.parts import WorkerSinks, is_json_of_spark
from windrow_runtime.spark.sinks.results import Results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BatchSetup",
    "BatchWriter",
    "ConnectWriter",
    "driver_sinks",
    "refuse_written",
    "takes_columns",
    "unpacked",
]

# Any in this module: elements of every type, and pyarrow has no types.

_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True)
class _Unpack:
    """Makes typed columns of packed rows, in a worker."""

    kind: RecordType
    where: str
    classes: tuple[UserClass, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        register_classes(self.classes)
        schema = arrow_schema(self.kind)
        with failures_marked():
            for batch in batches:
                kinds, payloads = (column.to_pylist() for column in batch.columns)
                for kind, payload in zip(kinds, payloads, strict=True):
                    rows = (
                        load_rows(payload, schema)
                        if kind == RowKind.OUTPUT_COLUMNS
                        else self._encoded(payload)
                    )
                    if rows.num_rows:
                        yield rows

    def _encoded(self, payload: bytes) -> Any:
        try:
            return encode_batch(load_values(payload), self.kind)
        except WindrowError as error:
            raise with_field(self.where, error) from error.__cause__


@dataclass(frozen=True)
class _Lines:
    """Makes the lines of files of packed rows, in a worker."""

    sink: FileSink[Any]
    kind: RecordType
    where: str
    classes: tuple[UserClass, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        register_classes(self.classes)
        encoder = line_encoder(self.sink, self.kind)
        assert encoder is not None, "the sink was asked"
        header = [] if encoder.header is None else [encoder.header]
        with failures_marked():
            for batch in batches:
                for payload in batch.column(1).to_pylist():
                    try:
                        lines = list(map(encoder.encode, load_values(payload)))
                    except WindrowError as error:
                        raise with_field(self.where, error) from error.__cause__
                    yield pa.record_batch([pa.array([*header, *lines], pa.string())], names=["value"])
                    header = []


def refuse_written(spark: SparkSession, sinks: Iterable[Step]) -> None:
    """Refuse file sinks in other file systems whose folders have batches; called by runs that begin anew.

    Raises:
        SinkError: If one has.
    """
    for step in sinks:
        sink = _sink(step)
        if not isinstance(sink, FileSink) or local_path(sink.path) is not None:
            continue
        try:
            written = exists_for_spark(spark, f"{as_read_path(sink.path)}/batch-*")
        except WindrowError as error:
            raise error.at(step.where) from None
        except Exception as error:
            failure = engine_failure(error, step.where, sink.secrets)
            raise failure from failure.__cause__
        if written:
            raise other_run(step, sink.shown_path)


def takes_columns(step: Step) -> bool:
    """Whether the rows of a sink are unpacked by :func:`unpacked`, which takes columns as well as values."""
    sink = _sink(step)
    if isinstance(sink, JsonFileSink):
        return is_json_of_spark(record_type(step.node.element_type))
    if isinstance(sink, (CsvFileSink, TextFileSink)):
        return False
    return isinstance(sink, (FileSink, WriterSink, ColumnsSink))


def unpacked(frame: DataFrame, number: int, step: Step, classes: tuple[UserClass, ...]) -> DataFrame:
    """The elements of one sink as typed columns."""
    kind = record_type(step.node.element_type)
    return rows_of(frame, number).mapInArrow(_Unpack(kind, step.where, classes), spark_ddl(kind))


def rows_of(frame: DataFrame, number: int) -> DataFrame:
    """The kind and the payload of the rows of one sink."""
    return frame.where(_are_of([number])).select("kind", "payload")


def _are_of(numbers: Iterable[int]) -> str:
    """The condition, in SQL, for rows of sinks."""
    kinds = f"{RowKind.OUTPUT}, {RowKind.OUTPUT_COLUMNS}"
    return f"target IN ({', '.join(map(str, numbers))}) AND kind IN ({kinds})"


def is_written_by_workers(step: Step) -> bool:
    """Whether workers write a sink of the user's own."""
    sink = _sink(step)
    return isinstance(sink, CustomSink) and sink.on_workers


def driver_sinks(sinks: Iterable[Step]) -> list[Step]:
    """The sinks that :func:`windrow_runtime.outputs.open_outputs` opens on the driver, as far as it has outputs."""
    return [step for step in sinks if not is_written_by_workers(step)]


@dataclass(frozen=True)
class BatchSetup:
    """What has to be known to write the batches of a query, but the outputs, which a process opens for itself.

    Attributes:
        sinks: The sink of each number.
        classes: The user's classes that may occur in elements.
        results: Keeps what is collected and counted.
        query: The identity of the query.
        parts: The sinks that the last stage of the query writes; of these the rows bring names alone.
        keeper: Computes the time of the next batch, where windrow keeps it.
        note: Notes the newest batch; None: there is one only.
        progress: Makes a report of each batch.
    """

    sinks: Mapping[int, Step]
    classes: tuple[UserClass, ...]
    results: Results
    query: str
    parts: WorkerSinks | None = None
    keeper: ClockKeeper | None = None
    note: BatchNote | None = None
    progress: ProgressKeeper | None = None


class BatchWriter:
    """Writes the batches of a query to the sinks of its pipeline; called by ``foreachBatch``.

    Each sink is idempotent by the number of the batch: one that is run again replaces what it wrote before.

    Args:
        setup: What is written, and where to.
        outputs: What writes for sinks that have an output, by the ids of their steps.
    """

    def __init__(self, setup: BatchSetup, outputs: Mapping[str, Output]) -> None:
        self._setup = setup
        self._outputs = outputs
        self._facts: list[Count] = []
        self._warned: set[tuple[str, Location | None]] = set()
        self._ended = False
        self._parts = {} if setup.parts is None else setup.parts.sinks
        # What Spark writes from the workers, in a pass of its own over the batch.
        self._by_spark = {
            number: step
            for number, step in setup.sinks.items()
            if number not in self._parts and isinstance(_sink(step), (FileSink, KafkaSink))
        }

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch."""
        setup = self._setup
        if setup.note is not None:
            setup.note.note(batch)
        started = time.monotonic()
        register_classes(setup.classes)
        check_owner(setup.sinks.values(), setup.query)
        for part in self._parts.values():
            part.begin(batch)
        # Workers write their sinks in the same pass over the batch as all else, as the rows come.
        names = (
            self._write_kept(frame, batch) if self._by_spark else self._write_driver_sinks(frame, batch)[0]
        )
        for number, part in self._parts.items():
            part.publish(batch, names.get(number, []))
        if setup.progress is not None:
            setup.results.report(
                setup.progress.end_batch(
                    batch, self._facts, ended=self._ended, seconds=time.monotonic() - started
                )
            )

    def _write_kept(self, frame: DataFrame, batch: int) -> dict[int, list[bytes]]:
        """Writes the sinks that Spark writes, too: several actions read the batch, so that it is kept."""
        kept = frame.persist()
        try:
            names, present = self._write_driver_sinks(kept, batch)
            for number, step in self._by_spark.items():
                if isinstance(_sink(step), FileSink):
                    self._write_files(kept, batch, number, step, number in present)
                elif number in present:
                    write_kafka(kafka_rows(rows_of(kept, number), step, self._setup.classes), step)
        finally:
            kept.unpersist()
        return names

    def _write_driver_sinks(self, frame: DataFrame, batch: int) -> tuple[dict[int, list[bytes]], set[int]]:
        """Writes the sinks of the driver, and the counters.

        Args:
            frame: The rows of the batch.
            batch: Its number.

        Returns:
            The names of the parts that workers wrote, by sink, and the sinks of Spark's that have rows.
        """
        from pyspark.sql import functions as f

        # The payloads of files and topics stay on the workers. Each step of a plan takes time, so none is idle.
        if self._by_spark:
            payload = f.when(f.expr(f"NOT ({_are_of(self._by_spark)})"), f.col("payload"))
            frame = frame.withColumn("payload", payload)
        taken: defaultdict[int, list[bytes]] = defaultdict(list)
        names: defaultdict[int, list[bytes]] = defaultdict(list)
        present: set[int] = set()
        counted: Counter[tuple[str, str]] = Counter()
        reports: list[Report] = []
        self._facts = []
        self._ended = False
        for row in sorted(map(PackedRow._make, frame.collect()), key=attrgetter("number")):
            if row.kind == RowKind.PART:
                names[row.target].append(bytes(row.payload))
            elif row.is_output and row.target in self._by_spark:
                present.add(row.target)
            elif row.is_output:
                taken[row.target].append(bytes(row.payload))
            elif row.kind == RowKind.COUNTERS:
                self._count(row.payload, counted)
            elif row.kind == RowKind.WARNINGS:
                self._warn(row.payload)
            elif row.kind == RowKind.REPORTS:
                reports += (Report(*report) for report in load_values(row.payload))
            elif row.kind == RowKind.END:
                self._ended = True
        self._put(batch, taken, counted)
        if self._setup.keeper is not None:
            self._setup.keeper.end_batch(batch, reports, ended=self._ended)
        return names, present

    def _put(self, batch: int, taken: Mapping[int, list[bytes]], counted: Counter[tuple[str, str]]) -> None:
        """Keeps what is collected and counted, and hands the other sinks of the driver their elements."""
        on_driver = {
            number: step
            for number, step in self._setup.sinks.items()
            if number not in self._parts and number not in self._by_spark
        }
        collected = {number for number, step in on_driver.items() if isinstance(_sink(step), CollectSink)}
        self._setup.results.put(batch, {number: taken.get(number, []) for number in collected}, counted)
        for number, step in on_driver.items():
            if number in taken and number not in collected:
                values = [value for payload in taken[number] for value in load_values(payload)]
                if values:
                    self._outputs[step.id].write(batch, values)

    def _count(self, payload: bytes, counted: Counter[tuple[str, str]]) -> None:
        """Take note of what a task counted; what tells of the batch alone is kept for the report."""
        for step, name, count in load_values(payload):
            if isinstance(name, str):
                counted[step, name] += count
            if isinstance(name, int) or name == "records_malformed":
                self._facts.append((step, name, count))

    def _warn(self, payload: bytes) -> None:
        """Warn once of each header that a task found."""
        for unmatched, where, location in load_values(payload):
            if (unmatched, location) not in self._warned:
                self._warned.add((unmatched, location))
                warn_of_header(unmatched, where, location)

    def _write_files(self, frame: DataFrame, batch: int, number: int, step: Step, has_rows: bool) -> None:
        sink = _sink(step)
        assert isinstance(sink, FileSink)
        try:
            self._write_batch_folder(frame, batch, number, step, sink, has_rows)
        except WindrowError:
            raise
        except Exception as error:
            # The rows may have to be computed again, so it need not be the sink that failed.
            reason = unwritable(error, sink.secrets)
            if reason is None:
                raise
            raise sink_unwritable(step, sink.path, reason) from causes_of(error, sink.secrets)

    def _write_batch_folder(
        self,
        frame: DataFrame,
        batch: int,
        number: int,
        step: Step,
        sink: FileSink[Any],
        has_rows: bool,
    ) -> None:
        local = local_path(sink.path)
        if local is None:
            place = f"{sink.path}/batch-{batch}"
            # Spark gives no program a way to rename or to delete there, so it writes in place.
            if has_rows or exists_for_spark(frame.sparkSession, as_read_path(place)):
                self._write_folder(frame, number, step, place)
            return
        folder = BatchFolder(Path(local), batch)
        if not has_rows:
            # A batch that is run again may have nothing where it had something before.
            folder.withdraw()
            return
        folder.begin()
        self._write_folder(frame, number, step, folder.aside)
        folder.publish()

    def _write_folder(self, frame: DataFrame, number: int, step: Step, place: str | Path) -> None:
        sink = _sink(step)
        assert isinstance(sink, FileSink)
        path = as_spark_path(place)
        kind = record_type(step.node.element_type)
        if not takes_columns(step):
            to_lines = _Lines(sink, kind, step.where, self._setup.classes)
            lines = rows_of(frame, number).mapInArrow(to_lines, "value string")
            lines.write.mode("overwrite").text(path)
            return
        writer = unpacked(frame, number, step, self._setup.classes).write.mode("overwrite")
        if isinstance(sink, JsonFileSink):
            # Spark's default cuts timestamps to milliseconds.
            writer.option("ignoreNullFields", "false").option("timestampFormat", _TIMESTAMP).json(path)
        else:
            writer.parquet(path)


class ConnectWriter:
    """Writes batches in a process of a Spark Connect server, to which it is sent.

    The outputs of sinks hold connections, so they are opened there.

    Args:
        setup: What is written; the steps of sinks are without the steps in front of them.
        secrets: What neither the server's log nor an error may show.
    """

    def __init__(self, setup: BatchSetup, secrets: tuple[str, ...]) -> None:
        self._setup, self._secrets = setup, secrets
        self._batches: BatchWriter | None = None

    def __getstate__(self) -> Any:
        return self._setup, self._secrets

    def __setstate__(self, given: Any) -> None:
        self.__init__(*given)  # type: ignore[misc]  # unpickling begins the object anew

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch; what it raises gets back to the user's process as text."""
        with failures_marked(), secrets_hidden(self._secrets):
            if self._batches is None:
                outputs = open_outputs(driver_sinks(self._setup.sinks.values()), self._setup.query)
                # Nothing tells this process that the run is over, but that Spark ends it.
                atexit.register(closing_outputs(outputs).close)
                self._batches = BatchWriter(self._setup, outputs)
            session = frame.sparkSession
            session.addTag(batch_tag(batch))
            try:
                self._batches(frame, batch)
            finally:
                session.removeTag(batch_tag(batch))


def _sink(step: Step) -> Sink[Any]:
    assert isinstance(step.node, SinkNode)
    return step.node.sink
