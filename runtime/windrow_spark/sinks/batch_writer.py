"""Writes the packed rows of a batch to the sinks."""

from __future__ import annotations

import atexit
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from windrow.errors import Location
from windrow.functions import Distribution
from windrow.plan import Step
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.reader import warn_of_header
from windrow_runtime.metrics.step_metrics import GaugeValue, StepMetrics, is_loss
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.registry import check_owners, closing_outputs, open_outputs
from windrow_spark.checkpoint.batch_notes import CounterNotes
from windrow_spark.checkpoint.lease import RunLock
from windrow_spark.checkpoint.newest_batch import BatchNote
from windrow_spark.checkpoint.stored_file import StoredFile
from windrow_spark.clock import SeenTimestamps
from windrow_spark.clock_keeper import ClockKeeper
from windrow_spark.division import Division
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.facts import RECORDS_IN, ROWS_READ, Count, Fact, earliest_timers
from windrow_spark.exchange.rows import PackedRow, RowKind, load_values
from windrow_spark.faults import failures_marked, secrets_hidden
from windrow_spark.progress import ProgressKeeper
from windrow_spark.session import is_connect
from windrow_spark.sinks.batch_reports import Results
from windrow_spark.sinks.parts import WorkerSinks, columns_in
from windrow_spark.sinks.spark_writer import WrittenBy, spark_writer_of, written_by
from windrow_spark.sinks.unpacking import are_of
from windrow_spark.worker import PARTITIONS, batch_tag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from windrow_spark.run.background import JobCalls

T = TypeVar("T")

# Any in this module: elements of every type.


def driver_sinks(sinks: Iterable[Step]) -> list[Step]:
    """Returns the sinks that :func:`~windrow_runtime.outputs.registry.open_outputs` opens on the driver."""
    return [step for step in sinks if written_by(step) is WrittenBy.OUTPUT]


@dataclass
class BatchWriter:
    """Writes the batches of a query to the sinks of its pipeline; ``foreachBatch`` calls it.

    Each sink is idempotent by the batch number: a batch that runs again keeps its former results, or replaces them.
    """

    sinks: Mapping[int, Step]
    classes: tuple[UserClass, ...]  # classes that may occur in elements
    results: Results
    query: str
    identities: Mapping[str, Identity]  # of the sinks, by step id
    progress: ProgressKeeper
    parts: WorkerSinks | None = None  # the sinks that workers write; their rows have names of files only
    keeper: ClockKeeper | None = None
    note: BatchNote | None = None  # stores the newest batch; None: it is a batch job
    outputs: Mapping[str, Output] = field(default_factory=dict)  # by step id
    counters: CounterNotes | None = None  # None: it is a batch job
    calls: JobCalls | None = None  # runs the actions of a batch job; None: a query, whose thread no signal reaches
    lock: RunLock | None = None  # which another run may take; None: it is a batch job, or Spark Connect's server
    division: Division | None = None  # what divides batches; None: it cannot change, or nobody can tell
    divisions: StoredFile[Division] | None = None  # keeps that of the newest batch

    def __post_init__(self) -> None:
        self._facts: list[Fact] = []
        self._warned: set[tuple[str, Location | None]] = set()
        self._ended = False
        self._computed = 0.0  # when the workers were done with the batch, by the monotonic clock
        self._of_workers = {} if self.parts is None else self.parts.sinks
        self._divided_anew = [] if self.parts is None else self.parts.divided_anew
        # Each batch needs these, and who writes a sink is a question to its package.
        self._kept = [number for number, step in self.sinks.items() if written_by(step) is WrittenBy.RESULTS]
        self._is_first = True
        self._noted: Division | None = None
        # Spark writes these sinks from the workers, in a separate pass over the batch.
        self._by_spark = {
            number: writer
            for number, step in self.sinks.items()
            if (writer := spark_writer_of(step)).written_by is WrittenBy.SPARK
        }

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch."""
        started = time.monotonic()
        register_classes(self.classes)
        check_owners(self.sinks.values(), self.query)
        again = False
        if self.note is not None:
            again = self.note.batch() >= batch
            self._check_marks(frame, batch, again=again)
            self._note_division()
            # Not before: a batch that was refused would be taken for one that runs again.
            self.note.note(batch)
        for sink in self._of_workers.values():
            sink.begin(batch)
        # Workers write their sinks while they compute the batch, in this pass.
        names = (
            self._write_kept(frame, batch, again=again) if self._by_spark else self._write_driver_sinks(frame, batch)[0]
        )
        # Another run may have taken a folder without locks, or the checkpoint, while the batch was computed.
        check_owners(self.sinks.values(), self.query)
        self._check_lock()
        for number, sink in self._of_workers.items():
            sink.publish(batch, names.get(number, []))
        parts = {"compute": self._computed - started, "write": time.monotonic() - self._computed}
        self.results.report(self.progress.end_batch(batch, self._facts, ended=self._ended, parts=parts))

    def _check_marks(self, frame: DataFrame, batch: int, *, again: bool) -> None:
        """Refuses a run whose sinks were written further, or divided differently; tells workers the division."""
        division = ""
        if self._divided_anew:
            division = _tell_division(frame, self.division)
        if not self._is_first:
            return
        for output in self.outputs.values():
            output.check(batch, again=again)
        for sink in self._of_workers.values():
            sink.check(batch, division if sink in self._divided_anew else "", again=again)
        for writer in self._by_spark.values():
            writer.check_batch(frame.sparkSession, batch, query=self.query, again=again)
        self._is_first = False

    def _note_division(self) -> None:
        """Notes what divides the batch, before a task writes any of it."""
        if self.divisions is not None and self.division is not None and self.division != self._noted:
            self.divisions.write(self.division)
            self._noted = self.division

    def _check_lock(self) -> None:
        if self.lock is not None:
            self.lock.check()

    def _run(self, action: Callable[[], T]) -> T:
        return action() if self.calls is None else self.calls.run(action)

    def _write_kept(self, frame: DataFrame, batch: int, *, again: bool) -> dict[int, list[bytes]]:
        """Writes a batch of which Spark writes some sinks; it is persisted, since several actions read it."""
        persisted = frame.persist()
        try:
            names, present = self._write_driver_sinks(persisted, batch)
            for number, writer in self._by_spark.items():
                write = partial(writer.write_batch, persisted, batch, number, self.classes, query=self.query)
                self._run(partial(write, has_rows=number in present, again=again))
        finally:
            persisted.unpersist()
        return names

    def _write_driver_sinks(self, frame: DataFrame, batch: int) -> tuple[dict[int, list[bytes]], set[int]]:
        """Writes the sinks of the driver, and keeps the counts.

        Returns the names of the parts that workers wrote, by sink, and the sinks of Spark's that have rows.
        """
        from pyspark.sql import functions as f

        # The driver does not collect payloads that Spark writes. Other batches are left as they are, which is faster.
        if self._by_spark:
            payload = f.when(f.expr(f"NOT ({are_of(self._by_spark)})"), f.col("payload"))
            frame = frame.withColumn("payload", payload)
        outputs_of: defaultdict[int, list[PackedRow]] = defaultdict(list)
        names: defaultdict[int, list[bytes]] = defaultdict(list)
        present: set[int] = set()
        values: defaultdict[int, list[Any]] = defaultdict(list)
        for row in sorted(map(PackedRow._make, self._run(frame.collect)), key=attrgetter("number")):
            if row.kind == RowKind.PART:
                names[row.target].append(bytes(row.payload))
            elif row.is_output and row.target in self._by_spark:
                present.add(row.target)
            elif row.is_output:
                outputs_of[row.target].append(row)
            else:
                values[row.kind] += load_values(row.payload)
        self._computed = time.monotonic()
        self._check_lock()  # before anything that another run reads is written
        for unmatched, where, location in values[RowKind.WARNINGS]:
            if (unmatched, location) not in self._warned:
                self._warned.add((unmatched, location))
                warn_of_header(unmatched, where, location)
        collected = {number: _unpacked(outputs_of[number]) for number in self._kept}
        metrics = self._counted(values[RowKind.COUNTERS])
        self.results.put(batch, collected, metrics, self._written())
        if self.counters is not None:
            self.counters.write(batch, metrics.counters)
        for number, step in self.sinks.items():
            if number not in collected and outputs_of[number]:
                _write(self.outputs[step.id], batch, outputs_of[number])
        self._ended = RowKind.END in values
        if self.keeper is not None:
            seen = [SeenTimestamps(*each) for each in values[RowKind.TIMESTAMPS]]
            read = {step for step, name, _ in self._facts if name == ROWS_READ}
            partitions = [(step, OpenPartitions(*each)) for step, each in values[RowKind.PARTITIONS]]
            due = earliest_timers(self._facts)
            self.keeper.end_batch(batch, seen, read=read, ended=self._ended, open_partitions=partitions, due=due)
        return names, present

    def _written(self) -> Counter[str]:
        """Returns how many elements of the batch each sink took, by step id."""
        sinks, written = {step.id for step in self.sinks.values()}, Counter[str]()
        for step, name, count in self._facts:
            if name == RECORDS_IN and step in sinks:
                written[step] += count
        return written

    def _counted(self, counts: Sequence[Count]) -> StepMetrics:
        """Adds up the metrics of tasks; facts, and records that were malformed or dropped, are for the report too."""
        self._facts = [
            (step, name, count)
            for step, name, count in counts
            if not isinstance(count, GaugeValue | Distribution)
            if isinstance(name, int) or name == "records_malformed" or is_loss(name)
        ]
        return StepMetrics.of_workers((step, name, count) for step, name, count in counts if isinstance(name, str))


def _tell_division(frame: DataFrame, division: Division | None) -> str:
    """The driver tells the tasks of a batch how it is divided, and returns that; "": a server runs the tasks."""
    if is_connect(frame.sparkSession):
        return ""
    text = f"{frame.rdd.getNumPartitions()} partitions{'' if division is None else f', {division}'}"
    frame.sparkSession.sparkContext.setLocalProperty(PARTITIONS, text)
    return text


def _unpacked(rows: Iterable[PackedRow]) -> list[Any]:
    return [value for row in rows for value in load_values(bytes(row.payload))]


def _write(output: Output, batch: int, rows: Iterable[PackedRow]) -> None:
    """Writes the elements of one sink; sinks are written one by one, so that only those of one are in memory."""
    if output.takes_arrow:
        output.write_portions(batch, map(_portion, rows))
    elif elements := _unpacked(rows):
        output.write(batch, elements)


def _portion(row: PackedRow) -> Any:
    """Returns the elements for a sink that takes Arrow data, as a list or an Arrow batch."""
    payload = bytes(row.payload)
    return columns_in(payload) if row.kind == RowKind.OUTPUT_COLUMNS else load_values(payload)


class ConnectWriter:
    """Writes batches in a process of a Spark Connect server, to which it is sent.

    ``batches`` has no outputs, since these have connections, which are opened in that process. Its sinks come without
    the steps upstream. Neither the server's log nor an error may show one of the secrets.
    """

    def __init__(self, batches: BatchWriter, secrets: tuple[str, ...]) -> None:
        self._batches, self._secrets = batches, secrets
        self._opened: ExitStack | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch; Spark returns its errors to the user's process as text."""
        with failures_marked(), secrets_hidden(self._secrets):
            if self._opened is None:
                batches = self._batches
                sinks = driver_sinks(batches.sinks.values())
                batches.outputs = open_outputs(sinks, batches.query, batches.identities)
                self._opened = closing_outputs(self._batches.outputs)
                # The only sign that the run is over is that Spark ends this process.
                atexit.register(self._opened.close)
            session = frame.sparkSession
            session.addTag(batch_tag(batch))
            try:
                self._batches(frame, batch)
            except BaseException:
                self._opened.close()  # no other batch follows
                raise
            finally:
                session.removeTag(batch_tag(batch))
