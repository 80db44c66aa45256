"""The first stage of a query: records become elements, the first steps run, and elements are packed by key group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.errors import Location
from windrow.sources import MalformedRecord
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.class_names import UserClass
from windrow_runtime.codecs.malformed import malformed_error
from windrow_runtime.inputs.batch import SourceBatch
from windrow_runtime.spark.batch_number import BatchNote
from windrow_runtime.spark.clock.event_clock import encode_watermark
from windrow_runtime.spark.clock.files import current_batch
from windrow_runtime.spark.clock.times import NO_TIME
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.payload import Phase, pack_elements, sequence_number
from windrow_runtime.spark.exchange.rows import CLOCK, COUNTERS, REPORTS, WARNINGS, PackedRow, packed_batch
from windrow_runtime.spark.faults.marked import failures_marked
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.keyed.level import Fragment, SourceFragment
from windrow_runtime.spark.run.end_of_stream import EndMark
from windrow_runtime.spark.run.facts import RECORDS_IN, RECORDS_OUT, WATERMARK, Count
from windrow_runtime.spark.worker.gc_tuning import infrequent_gc

if TYPE_CHECKING:
    from windrow_runtime.spark.clock.keeper import Report
    from windrow_runtime.spark.sources.column_scan import ColumnScan, ColumnTarget

__all__ = ["CLOCK_PAYLOAD", "ColumnWay", "MalformedRule", "SourceStage"]

# Any: elements and keys are of the user's types; pyarrow has no types.

CLOCK_PAYLOAD = pack_elements(list(NO_TIME), [None, None])  # what it says is known to the first level itself
_LAST_ROW = (1 << 30) - 1
_REPORT_ROW = _LAST_ROW - 1
_WARNINGS_ROW = _LAST_ROW - 2


@dataclass(frozen=True, slots=True)
class MalformedRule:
    """What becomes of records that do not fit.

    Attributes:
        step_id: The source, in errors and counters.
        where: The source and its line in the user's program.
        fail: Whether such a record fails the query; else it is counted.
        fragment: Where it goes besides, if anywhere.
        location: That line, for warnings.
    """

    step_id: str
    where: str
    fail: bool
    fragment: Callable[[], Fragment] | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class ColumnWay:
    """How the elements of a source get to columnar steps.

    Attributes:
        columns: The columns of an Arrow batch whose records are all well-formed; None: they have to be decoded.
        encode: The columns of elements that were decoded.
        targets: Where elements go.
    """

    columns: Callable[[Any], Any]
    encode: Callable[[Sequence[Any]], Any]
    targets: tuple[ColumnTarget, ...]


@dataclass(frozen=True, slots=True)
class SourceStage:
    """What Spark runs on each partition of a source, by ``mapInArrow``.

    Attributes:
        decode: Makes the elements of an Arrow batch.
        create: Makes the fragment, once in each task.
        groups: The key groups of the query.
        hash_key: Hashes keys alike in every process.
        levels: How many levels the query has.
        malformed: What becomes of records that do not fit.
        place: Orders the rows of several sources.
        classes: The user's classes that may occur in elements.
        end: Where it stands which batch ends the stream; None: it never ends.
        way: How elements get to columnar steps, if there are any.
        open: Makes the Arrow batches to decode, where those of Spark only name files.
        note: Notes the newest batch, where Spark writes the sink by itself and nobody else can.
    """

    decode: Callable[[Any], SourceBatch]
    create: Callable[[], SourceFragment]
    groups: KeyGroups
    hash_key: Callable[[Any], int]
    levels: int
    malformed: MalformedRule
    place: int = 0
    classes: tuple[UserClass, ...] = ()
    end: EndMark | None = None
    way: ColumnWay | None = None
    open: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    note: BatchNote | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Called by Spark with the Arrow batches of a partition; gives Arrow batches of packed rows."""
        with failures_marked(), infrequent_gc():
            given = batches if self.end is None else self.end.before_end(batches)
            yield from self._run(given if self.open is None else self.open(given))

    def _run(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        register_classes(self.classes)
        number = None if self.note is None else current_batch()
        if self.note is not None and number is not None:
            self.note.note(number)
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        origin = (self.place << 20) + partition
        # A row for sinks needs no place of its own in the exchange: any partition will pass it on.
        service_label = self.groups.service_labels[partition % self.groups.partitions]
        packer = Packer(self.groups, self.hash_key, Phase.AFTER_WATERMARK)
        packer.start(origin, service_label)
        fragment = self.create()
        rule = self.malformed
        aside = rule.fragment() if rule.fragment is not None else None
        try:
            yield from self._pack(batches, fragment, aside, packer, (origin, service_label))
        finally:
            fragment.close()
            if aside is not None:
                aside.close()

    def _pack(
        self,
        batches: Iterator[Any],
        fragment: SourceFragment,
        aside: Fragment | None,
        packer: Packer,
        place: tuple[int, int],
    ) -> Iterator[Any]:
        counted = 0
        unmatched: dict[str, str] = {}
        records = total = 0
        scan = self._scan(place[0], fragment)
        for batch in batches:
            columns = None if self.way is None else self.way.columns(batch)
            if columns is not None:
                records += columns.num_rows
            if columns is None or not fragment.is_idle:
                decoded = self.decode(batch)
                unmatched.update(decoded.unmatched)
                if columns is None:
                    records += len(decoded.values) + len(decoded.malformed)
                if decoded.malformed:
                    counted += len(decoded.malformed)
                    self._set_aside(decoded.malformed, aside, packer)
                if self.way is not None and columns is None:
                    # Before functions get the elements, which they may change.
                    columns = self.way.encode(decoded.values)
                self._run_objects(decoded.values, fragment, packer)
            rows = [*([] if scan is None else scan.add(columns)), *packer.full()]
            if rows:
                yield packed_batch(rows, encode_watermark(fragment.watermark), records)
                total += records
                records = 0
        rows = [] if scan is None else list(scan.flush())
        rows += packer.flush()
        fragment.end_batch()
        watermark = encode_watermark(fragment.watermark)
        counts = self._counts(fragment, aside, scan, total + records, counted)
        needed = not rows and (records > 0 or watermark is not None)
        rows += self._warnings(unmatched, place)
        rows += self._service_rows(fragment.take_reports(), counts, place, needed=needed)
        if rows:
            yield packed_batch(rows, watermark, records)

    def _counts(
        self,
        fragment: SourceFragment,
        aside: Fragment | None,
        scan: ColumnScan | None,
        records: int,
        malformed: int,
    ) -> list[Count]:
        """What was counted in the partition, with its facts."""
        step = self.malformed.step_id
        counts = [
            count for part in (fragment, aside, scan) if part is not None for count in part.take_counts()
        ]
        if records:
            counts += ((step, RECORDS_IN, records), (step, RECORDS_OUT, records - malformed))
        if malformed:
            counts.append((step, "records_malformed", malformed))
        if fragment.watermark != MIN_TIMESTAMP:
            counts.append((step, WATERMARK, fragment.watermark))
        return counts

    def _warnings(self, unmatched: Mapping[str, str], place: tuple[int, int]) -> list[PackedRow]:
        """The row that has the driver warn of headers, if there are any."""
        if not unmatched:
            return []
        rule = self.malformed
        found = [(header, f"{rule.where}, {file}", rule.location) for header, file in unmatched.items()]
        number = sequence_number(Phase.AFTER_WATERMARK, place[0], _WARNINGS_ROW)
        return [PackedRow(place[1], WARNINGS, number, pack_elements(found, [None] * len(found)))]

    def _service_rows(
        self,
        reports: Sequence[Report],
        counts: list[Count],
        place: tuple[int, int],
        *,
        needed: bool,
    ) -> list[PackedRow]:
        """Rows without elements; if they are needed, at least one."""
        origin, service_label = place
        rows: list[PackedRow] = []
        if reports:
            number = sequence_number(Phase.AFTER_WATERMARK, origin, _REPORT_ROW)
            payload = pack_elements(list(map(tuple, reports)), [None] * len(reports))
            rows.append(PackedRow(service_label, REPORTS, number, payload))
        if counts:
            payload = pack_elements(counts, [None] * len(counts))
            number = sequence_number(Phase.AFTER_WATERMARK, origin, _LAST_ROW)
            rows.append(PackedRow(service_label, COUNTERS, number, payload))
        if self.levels > 1:
            rows += [PackedRow(label, CLOCK, 0, CLOCK_PAYLOAD) for label in self.groups.service_labels]
        elif needed and not rows:
            rows.append(PackedRow(service_label, CLOCK, 0, CLOCK_PAYLOAD))
        return rows

    def _run_objects(self, values: Sequence[Any], fragment: SourceFragment, packer: Packer) -> None:
        """Runs elements one by one, where something takes them so."""
        if values and not fragment.is_idle:
            for target, out_values, out_timestamps in fragment.run(values, [None] * len(values)):
                packer.add(target, out_values, out_timestamps)

    def _scan(self, origin: int, fragment: SourceFragment) -> ColumnScan | None:
        if self.way is None:
            return None
        from windrow_runtime.spark.sources.column_scan import ColumnScan

        return ColumnScan(self.way.targets, self.groups, origin, fragment.observe)

    def _set_aside(self, records: Sequence[MalformedRecord], aside: Fragment | None, packer: Packer) -> None:
        if self.malformed.fail:
            raise malformed_error(records[0]).at(f"{self.malformed.where}, {records[0].origin}")
        if aside is not None:
            for target, values, timestamps in aside.run(list(records), [None] * len(records)):
                packer.add(target, values, timestamps)
