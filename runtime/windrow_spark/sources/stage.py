"""Runs the first stage of a query: decodes records, runs the first steps, and packs elements by key group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import Location
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.inputs.batches import OpenPartitions, PartitionMark, SourceBatch
from windrow_runtime.inputs.text_rows import TextRows, without_elements
from windrow_runtime.operators.errors import field_errors
from windrow_spark.checkpoint.newest_batch import BatchNote, ClosedSources, DriverNote
from windrow_spark.clock import NO_TIME, encode_watermark
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.facts import RECORDS_IN, RECORDS_OUT, ROWS_READ, WATERMARK, Count
from windrow_spark.exchange.packer import Packer, Routed
from windrow_spark.exchange.rows import PackedRow, Phase, RowKind, dump_values, notes_number, packed_batch
from windrow_spark.faults import failures_marked
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.level import RunsFragment, SourceFragment
from windrow_spark.progress import WatermarkBounds
from windrow_spark.sources.scan import named
from windrow_spark.worker import current_batch, infrequent_gc

if TYPE_CHECKING:
    from windrow_runtime.codecs.value_type import RecordType
    from windrow_spark.physical.plan import SinkEdge, StepEdge
    from windrow_spark.sinks.parts import WorkerSinks

# Any: elements and keys are of the user's types; pyarrow has no types.

CLOCK_PAYLOAD = dump_values(list(NO_TIME))  # empty: the first level itself stores the previous time
_PARTITION_BITS: Final = 20  # an origin, see sequence_number, has the number of the source above the partition's bits


@dataclass(frozen=True, slots=True)
class MalformedRule:
    """What happens to malformed records of a source: they fail the query, or are counted, and may go to a fragment."""

    step_id: str
    where: str
    fail: bool
    fragment: Callable[[], RunsFragment] | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class SourceStage:
    """The function that Spark runs on each partition of a source, by ``mapInArrow``."""

    decode: Callable[[Any], SourceBatch]  # decodes a batch into elements
    create: Callable[[], SourceFragment]  # makes the fragment, once in each task
    groups: KeyGroups
    levels: int  # the number of levels that the query has
    malformed: MalformedRule
    place: int = 0  # orders the rows of several sources
    classes: tuple[UserClass, ...] = ()
    closed: ClosedSources | None = None  # the first batch that ignores the sources; None: there is no checkpoint
    # Reads the batches to decode, if those of Spark only name files or offsets.
    open: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    names: tuple[str, ...] | None = None  # the names to give to columns of batches; None: they have names
    targets: tuple[StepEdge, ...] = ()  # the keyed steps that take the elements as columns
    sink_targets: tuple[SinkEdge, ...] = ()  # the sinks that take the elements as columns
    record_type: RecordType | None = None  # the type of the elements; required with such steps and sinks
    bounds: WatermarkBounds | None = None  # upper bounds of watermarks; required with such steps and sinks
    # Stores the newest batch, if Spark writes the sink and no other code sees batches.
    note: BatchNote | DriverNote | None = None
    tells_arrivals: bool = False  # whether the driver needs to know from which partitions the batch reads
    sinks: WorkerSinks | None = None  # the sinks that the stage writes itself, if no other stage follows

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Processes Arrow batches of a partition from Spark; yields Arrow batches of packed rows."""
        with failures_marked(), infrequent_gc():
            accepted = batches if self.closed is None else self.closed.before(batches)
            if self.names is not None:
                accepted = named(self.names, accepted)
            register_classes(self.classes)
            if self.note is not None and (number := current_batch()) is not None:
                self.note.note(number)
            with closing(_Task(self)) as task:
                rows = task.counted(accepted)
                yield from task.run(rows if self.open is None else self.open(rows))
                task.finish()


class _Task:
    """Packs the elements of one partition of a source."""

    def __init__(self, stage: SourceStage) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        self._stage = stage
        self._sends_time = partition == 0
        self._origin = (stage.place << _PARTITION_BITS) + partition
        # Rows for sinks may go to any partition of the exchange, whose service group passes them on.
        self._label = stage.groups.service_labels[partition % stage.groups.partitions]
        self._writer = None if stage.sinks is None else stage.sinks.writer()
        self._packer = Packer(stage.groups, Phase.AFTER_WATERMARK, self._writer)
        self._packer.start(self._origin, self._label)
        self._fragment = stage.create()
        self._malformed_output = None if stage.malformed.fragment is None else stage.malformed.fragment()
        # The type of the elements, if any are sent as columns.
        self._kind = stage.record_type if stage.targets or stage.sink_targets else None
        if self._kind is not None:
            assert stage.bounds is not None, "there are steps that take columns"
            self._packer.bound_of = stage.bounds.read()
        self._unmatched: dict[str, str] = {}
        self._malformed = 0
        self._rows_read = 0
        self._open_partitions: list[tuple[str, OpenPartitions]] = []  # with the step id of the source

    def finish(self) -> None:
        """Commits what the task has written; not called where it fails, or where Spark gives it up."""
        if self._writer is not None:
            self._writer.finish()

    def close(self) -> None:
        with ExitStack() as stack:
            for opened in (self._writer, self._malformed_output, self._fragment):
                if opened is not None:
                    stack.callback(opened.close)

    def counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Counts the rows of Spark's batches, which are records or name files and ranges."""
        for batch in batches:
            self._rows_read += batch.num_rows
            yield batch

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        fragment, packer = self._fragment, self._packer
        records = total = 0
        for batch in batches:
            if isinstance(batch, PartitionMark):
                self._mark(batch)
                continue
            columns, count = self._take(batch)
            records += count
            rows = [*self._send_columns(columns), *packer.full()]
            if rows:
                yield packed_batch(rows, encode_watermark(fragment.watermark), records)
                total += records
                records = 0
        rows = [*packer.flush()]
        fragment.end_batch()
        watermark = encode_watermark(fragment.watermark)
        needed = not rows and (records > 0 or watermark is not None)
        rows += self._service_rows(total + records, needed=needed)
        if rows:
            yield packed_batch(rows, watermark, records)

    def _mark(self, mark: PartitionMark) -> None:
        self._fragment.begin_partition(mark.name)
        step = self._stage.malformed.step_id
        if mark.open_partitions is not None:
            self._open_partitions.append((step, mark.open_partitions))
        if self._stage.tells_arrivals and mark.is_read:
            self._open_partitions.append((step, OpenPartitions((), read=(mark.name,))))

    def _take(self, batch: Any) -> tuple[Any, int]:
        """Runs the fragment on the elements of a batch; returns them as columns, if needed, and their number."""
        where = self._stage.malformed.where
        with field_errors(where):
            columns = None if self._kind is None else _columns_of(batch, self._kind)
        if columns is not None and self._fragment.is_idle:
            source_batch = without_elements(batch)
            count = columns.num_rows
        else:
            source_batch = self._stage.decode(batch)
            count = len(source_batch.values)
            if self._kind is not None and columns is None:
                # A plan without columns does not import Arrow.
                from windrow_runtime.codecs.arrow.encoding import encode_batch

                # Columns are made before the functions run, since these may change the elements.
                with field_errors(where):
                    columns = encode_batch(source_batch.values, self._kind)
        count += len(source_batch.malformed)
        self._unmatched.update(source_batch.unmatched)
        self._send_malformed(source_batch)
        values = source_batch.values
        if values and not self._fragment.is_idle:
            self._add(self._fragment.run(values, [None] * len(values), source_batch.origin))
        return columns, count

    def _send_columns(self, columns: Any | None) -> Iterator[PackedRow]:
        """Sends well-formed elements to the keyed steps and the sinks that take columns; yields rows for sinks."""
        if columns is None:
            return
        from windrow_spark.exchange.column_sender import columns_for_sink

        observe = self._fragment.observe
        self._packer.add_columns(self._stage.targets, columns, None, observe)
        for target in self._stage.sink_targets:
            yield from self._packer.send_to_sink(target, columns_for_sink(target, columns, None, observe))

    def _send_malformed(self, batch: SourceBatch) -> None:
        rule = self._stage.malformed
        if rule.fail:
            batch.refuse_malformed(rule.where)
        self._malformed += len(batch.malformed)
        if self._malformed_output is not None and batch.malformed:
            self._add(self._malformed_output.run(batch.malformed, [None] * len(batch.malformed)))

    def _add(self, routed: Iterable[Routed]) -> None:
        for target, values, timestamps in routed:
            self._packer.add(target, values, timestamps)

    def _service_rows(self, records: int, *, needed: bool) -> list[PackedRow]:
        """Returns the rows without elements, for the driver and the service groups; at least one if one is needed."""
        rule = self._stage.malformed
        warnings = [(header, f"{rule.where}, {file}", rule.location) for header, file in self._unmatched.items()]
        for_driver: list[tuple[int, list[Any]]] = [
            (RowKind.WARNINGS, warnings),
            (RowKind.TIMESTAMPS, list(map(tuple, self._fragment.take_timestamps()))),
            (RowKind.PARTITIONS, [(step, tuple(partitions)) for step, partitions in self._open_partitions]),
            (RowKind.COUNTERS, self._counts(records)),
        ]
        first = notes_number(self._origin, len(for_driver))
        rows = [
            PackedRow(self._label, kind, 0, number, dump_values(values))
            for number, (kind, values) in enumerate(for_driver, start=first)
            if values
        ]
        # All service groups get the time, since one that never had a row of the first level has no timer. One task
        # sends it: Spark runs the first partition even if it is empty (tests/spark/test_facts.py).
        labels = self._stage.groups.service_labels if self._stage.levels > 1 and self._sends_time else ()
        if needed and not rows and not labels:
            labels = (self._label,)
        return rows + [PackedRow(label, RowKind.CLOCK, 0, 0, CLOCK_PAYLOAD) for label in labels]

    def _counts(self, records: int) -> list[Count]:
        """Returns the counts of the partition, with its facts."""
        step, fragment = self._stage.malformed.step_id, self._fragment
        counting = (fragment, self._malformed_output, self._packer)
        counts = [count for each in counting if each is not None for count in each.take_counts()]
        if records:
            counts += ((step, RECORDS_IN, records), (step, RECORDS_OUT, records - self._malformed))
        if self._malformed:
            counts.append((step, "records_malformed", self._malformed))
        if self._rows_read:
            counts.append((step, ROWS_READ, self._rows_read))
        if fragment.watermark != MIN_TIMESTAMP:
            counts.append((step, WATERMARK, fragment.watermark))
        return counts


def _columns_of(batch: Any, record_type: RecordType) -> Any | None:
    """Returns the elements of a batch of the source as columns; None if a record may be malformed."""
    if isinstance(batch, TextRows):
        return batch.columns()
    # A plan without columns does not import Arrow.
    from windrow_runtime.codecs.arrow.clean import clean_columns

    # Batches that workers read from Parquet files have their Arrow batch in `rows`.
    return clean_columns(getattr(batch, "rows", batch), record_type)
