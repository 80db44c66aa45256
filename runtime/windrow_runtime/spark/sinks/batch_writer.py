"""Writes the packed rows of a batch to the sinks."""

from __future__ import annotations

import atexit
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from windrow_runtime.codecs.class_names import UserClass
from windrow_runtime.codecs.line_encoder import line_encoder
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.spark_schema import spark_ddl
from windrow_runtime.inputs.checks import warn_of_header
from windrow_runtime.operators.errors import sink_unwritable
from windrow_runtime.outputs import Output, closing_outputs, open_outputs
from windrow_runtime.outputs.batch_folder import BatchFolder
from windrow_runtime.outputs.sink_folders import check_owner, other_run
from windrow_runtime.spark.batch_number import BatchNote, batch_tag
from windrow_runtime.spark.clock.keeper import ClockKeeper, Report
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.payload import unpack_elements
from windrow_runtime.spark.exchange.rows import COUNTERS, END, FIRST_SINK, REPORTS, WARNINGS
from windrow_runtime.spark.faults.marked import failures_marked
from windrow_runtime.spark.faults.spark_errors import causes_of, engine_failure, secrets_hidden, unwritable
from windrow_runtime.spark.kafka import kafka_rows, write_kafka
from windrow_runtime.spark.paths import as_read_path, as_spark_path, exists_for_spark
from windrow_runtime.spark.run.facts import Count
from windrow_runtime.spark.run.progress_keeper import ProgressKeeper
from windrow_runtime.spark.sinks.dataframe import ColumnsSink
from windrow_runtime.spark.sinks.parts import (
    PART_SCHEMA,
    PartStage,
    WorkerSink,
    is_json_of_spark,
    lines_of,
    rows_of,
    worker_sinks,
)
from windrow_runtime.spark.sinks.results import Results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BatchWriter", "ConnectWriter", "driver_sinks", "refuse_written", "takes_columns", "unpacked"]

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
        with failures_marked():
            for batch in batches:
                for payload in batch.column(0).to_pylist():
                    rows = rows_of(payload, self.kind, self.where)
                    if rows.num_rows:
                        yield rows


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
                for payload in batch.column(0).to_pylist():
                    lines = lines_of(payload, encoder, self.where)
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
    rows = frame.where(f"sink = {number}").select("payload")
    return rows.mapInArrow(_Unpack(kind, step.where, classes), spark_ddl(kind))


def is_written_by_workers(step: Step) -> bool:
    """Whether workers write a sink of the user's own."""
    sink = _sink(step)
    return isinstance(sink, CustomSink) and sink.on_workers


def driver_sinks(sinks: Iterable[Step]) -> list[Step]:
    """The sinks that :func:`windrow_runtime.outputs.open_outputs` opens on the driver, as far as it has outputs."""
    return [step for step in sinks if not is_written_by_workers(step)]


class BatchWriter:
    """Writes the batches of a query to the sinks of its pipeline; called by ``foreachBatch``.

    Each sink is idempotent by the number of the batch: one that is run again replaces what it wrote before.

    Args:
        sinks: The sink of each number.
        classes: The user's classes that may occur in elements.
        results: Keeps what is collected and counted.
        outputs: What writes for sinks that have an output, by the ids of their steps.
        query: The identity of the query.
        keeper: Tells the time of the next batch, where windrow keeps it.
        parts: The sinks that the last keyed step of the query has written; their rows only name files.
        note: Notes the newest batch; None: there is one only.
        progress: Makes a report of each batch.
    """

    def __init__(
        self,
        sinks: Mapping[int, Step],
        classes: tuple[UserClass, ...],
        results: Results,
        outputs: Mapping[str, Output],
        query: str,
        keeper: ClockKeeper | None = None,
        parts: Mapping[int, WorkerSink] | None = None,
        note: BatchNote | None = None,
        progress: ProgressKeeper | None = None,
    ) -> None:
        self._note = note
        self._sinks = dict(sinks)
        self._progress = progress
        self._facts: list[Count] = []
        self._warned: set[tuple[str, Location | None]] = set()
        self._ended = False
        self._classes = classes
        self._results = results
        self._outputs = outputs
        self._query = query
        self._keeper = keeper
        # What workers write; the other sinks are written by the driver.
        self._on_workers = {
            number: step
            for number, step in sinks.items()
            if is_written_by_workers(step) or isinstance(_sink(step), (FileSink, KafkaSink))
        }
        self._needs_stage = not parts
        self._parts = dict(parts or worker_sinks(sinks, lambda: query))

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch."""
        if self._note is not None:
            self._note.note(batch)
        started = time.monotonic()
        register_classes(self._classes)
        check_owner(self._sinks.values(), self._query)
        # Workers write parts in the same pass over the batch as all else, as the rows come, and tell where.
        for part in self._parts.values():
            part.begin(batch)
        if self._parts and self._needs_stage:
            stage = PartStage(batch, self._parts, self._classes)
            frame = frame.mapInArrow(stage, PART_SCHEMA)
        if self._on_workers.keys() == self._parts.keys():
            rows_of_sinks = self._write_driver_sinks(frame, batch)
        else:
            rows_of_sinks = self._write_kept(frame, batch)
        for number, part in self._parts.items():
            part.publish(batch, rows_of_sinks.get(number, []))
        if self._progress is not None:
            self._results.report(
                self._progress.end_batch(
                    batch, self._facts, ended=self._ended, seconds=time.monotonic() - started
                )
            )

    def _write_kept(self, frame: DataFrame, batch: int) -> dict[int, list[bytes]]:
        """Writes sinks that Spark writes for us: several actions read the batch, so that it is kept."""
        by_spark = {number: step for number, step in self._on_workers.items() if number not in self._parts}
        kept = frame.persist()
        try:
            present = self._write_driver_sinks(kept, batch, by_spark)
            for number, step in by_spark.items():
                if isinstance(_sink(step), FileSink):
                    self._write_files(kept, batch, number, step, number in present)
                elif number in present:
                    payloads = kept.where(f"sink = {number}").select("payload")
                    write_kafka(kafka_rows(payloads, step, self._classes), step)
        finally:
            kept.unpersist()
        return present

    def _write_driver_sinks(
        self, frame: DataFrame, batch: int, staying: Collection[int] = ()
    ) -> dict[int, list[bytes]]:
        """Writes the sinks of the driver, and the counters.

        Args:
            frame: The rows of the batch.
            batch: Its number.
            staying: The sinks whose rows stay on the workers.

        Returns:
            The rows for sinks of the workers, by their numbers: names of parts, or empty where rows stay there.
        """
        from pyspark.sql import functions as f

        # The payloads of files and topics stay on the workers. Each step of a plan takes time, so none is idle.
        if staying:
            on_driver = f.expr(f"sink NOT IN ({', '.join(map(str, staying))})")
            frame = frame.select("sink", "number", f.when(on_driver, f.col("payload")).alias("payload"))
        rows = frame.collect()
        taken: defaultdict[int, list[bytes]] = defaultdict(list)
        present: dict[int, list[bytes]] = {}
        counted: Counter[tuple[str, str]] = Counter()
        reports: list[Report] = []
        self._facts = []
        ended = False
        for row in sorted(rows, key=_place):
            sink: int = row["sink"]
            if sink in self._on_workers:
                present.setdefault(sink, []).append(bytes(row["payload"] or b""))
            elif sink == COUNTERS:
                self._count(row["payload"], counted)
            elif sink == WARNINGS:
                self._warn(row["payload"])
            elif sink == REPORTS:
                reports += (Report(*report) for report in unpack_elements(row["payload"]).values)
            elif sink == END:
                ended = True
            elif sink >= FIRST_SINK:
                taken[sink].append(bytes(row["payload"]))
        collected = {
            number: taken[number]
            for number, step in self._sinks.items()
            if isinstance(_sink(step), CollectSink)
        }
        self._results.put(batch, collected, counted)
        for number, step in self._sinks.items():
            if number not in self._on_workers and number not in collected:
                values = [value for payload in taken[number] for value in unpack_elements(payload).values]
                if values:
                    self._outputs[step.id].write(batch, values)
        self._ended = ended
        if self._keeper is not None:
            self._keeper.end_batch(batch, reports, ended=ended)
        return present

    def _count(self, payload: bytes, counted: Counter[tuple[str, str]]) -> None:
        """Take note of what a task counted; what tells of the batch alone is kept for the report."""
        for step, name, count in unpack_elements(payload).values:
            if isinstance(name, str):
                counted[step, name] += count
            if isinstance(name, int) or name == "records_malformed":
                self._facts.append((step, name, count))

    def _warn(self, payload: bytes) -> None:
        """Warn once of each header that a task found."""
        for unmatched, where, location in unpack_elements(payload).values:
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
            rows = frame.where(f"sink = {number}").select("payload")
            lines = rows.mapInArrow(_Lines(sink, kind, step.where, self._classes), "value string")
            lines.write.mode("overwrite").text(path)
            return
        writer = unpacked(frame, number, step, self._classes).write.mode("overwrite")
        if isinstance(sink, JsonFileSink):
            # Spark's default cuts timestamps to milliseconds.
            writer.option("ignoreNullFields", "false").option("timestampFormat", _TIMESTAMP).json(path)
        else:
            writer.parquet(path)


class ConnectWriter:
    """Writes batches in a process of a Spark Connect server, to which it is sent.

    The outputs of sinks hold connections, so they are opened there.

    Args:
        sinks: The sink of each number, without the steps in front of it.
        classes: The user's classes that may occur in elements.
        results: Keeps what is collected and counted where the runner finds it.
        query: The identity of the query.
        keeper: Tells the time of the next batch, where windrow keeps it.
        secrets: What neither the server's log nor an error may show.
        parts: As of :class:`BatchWriter`.
        note: As of :class:`BatchWriter`.
        progress: As of :class:`BatchWriter`.
    """

    def __init__(
        self,
        sinks: Mapping[int, Step],
        classes: tuple[UserClass, ...],
        results: Results,
        query: str,
        keeper: ClockKeeper | None,
        secrets: tuple[str, ...] = (),
        parts: Mapping[int, WorkerSink] | None = None,
        note: BatchNote | None = None,
        progress: ProgressKeeper | None = None,
    ) -> None:
        self._given = (
            dict(sinks),
            classes,
            results,
            query,
            keeper,
            secrets,
            dict(parts or {}),
            note,
            progress,
        )
        self._batches: BatchWriter | None = None

    def __getstate__(self) -> Any:
        return self._given

    def __setstate__(self, given: Any) -> None:
        self.__init__(*given)  # type: ignore[misc]  # unpickling begins the object anew

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch; what it raises gets back to the user's process as text."""
        sinks, classes, results, query, keeper, secrets, parts, note, progress = self._given
        with failures_marked(), secrets_hidden(secrets):
            if self._batches is None:
                outputs = open_outputs(driver_sinks(sinks.values()), query)
                # Nothing tells this process that the run is over, but that Spark ends it.
                atexit.register(closing_outputs(outputs).close)
                self._batches = BatchWriter(
                    sinks, classes, results, outputs, query, keeper, parts, note, progress
                )
            session = frame.sparkSession
            session.addTag(batch_tag(batch))
            try:
                self._batches(frame, batch)
            finally:
                session.removeTag(batch_tag(batch))


def _sink(step: Step) -> Sink[Any]:
    assert isinstance(step.node, SinkNode)
    return step.node.sink


def _place(row: Any) -> int:
    number: int = row["number"]
    return number
