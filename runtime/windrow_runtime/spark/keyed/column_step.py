"""Runs a columnar step on one key group after another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow.windows.unfired import UNFIRED
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.forms.step_form import OnColumns
from windrow_runtime.columnar.state import KeyedRows, RowContents, RowPages, concatenated, load_rows, no_rows
from windrow_runtime.columnar.windows.column_operator import PagedOperator, Times
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.spark.clock import BatchTimes
from windrow_runtime.spark.exchange.facts import OPEN_WINDOWS, RECORDS_OUT, Count
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import Arrived, ColumnElements, PackedRow
from windrow_runtime.spark.exchange.sink_columns import SinkSender, SinkTarget
from windrow_runtime.spark.keyed.level import KeyedStep, StepRunner
from windrow_runtime.storage.group_record import PageStore, StepRecord
from windrow_runtime.storage.tuning import StateTuning

# Any in this module: results are of every type, and pyarrow has no types.

_VALUES_AT_ONCE: Final = 50_000


class Phase(NamedTuple):
    """A part of a batch: elements, and the watermark that advances right before them."""

    watermark: int
    partial_rows: Any  # rows of the exchange: those of elements that were partially aggregated before it
    elements: Any  # the same for those that came one by one
    arrival: Ints  # numbers the rows of both, partial aggregates first, in the order in which they came
    packer: Packer  # takes what leaves for the elements

    @property
    def keys(self) -> list[Any]:
        """The columns of keys."""
        return [self.partial_rows.column(0), self.elements.column(0)]

    def where(self, mask: Mask) -> Phase:
        """Some of the rows, by a mask over both."""
        count = self.partial_rows.num_rows
        partial_rows, elements = (
            self.partial_rows.filter(mask_array(mask[:count])),
            self.elements.filter(mask_array(mask[count:])),
        )
        return self._replace(partial_rows=partial_rows, elements=elements, arrival=self.arrival[mask])


class Emitted(Protocol):
    """Results as columns side by side."""

    @property
    def stamps(self) -> Ints:
        """The timestamps that they carry, in milliseconds."""
        ...

    def __len__(self) -> int: ...

    def slice(self, start: int, count: int) -> Self:
        """Up to ``count`` of them that follow each other."""
        ...


F = TypeVar("F", bound=Emitted)


class ColumnRunner(StepRunner, Generic[F]):
    """The base of what runs one columnar step in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, form: OnColumns, tuning: StateTuning) -> None:
        super().__init__(step)
        self._tuning = tuning
        self._schemas = form.exchange_schema, form.partial_schema
        self._where = form.step.where
        self._to_sinks = SinkSender()

    def take_counts(self) -> list[Count]:
        return super().take_counts() + self._to_sinks.take_counts()

    def run(
        self,
        record: StepRecord,
        key_group: int,
        store: PageStore,
        times: BatchTimes,
        arrived: tuple[Sequence[Arrived], Sequence[Arrived]],
        packers: tuple[Packer, Packer],
    ) -> Iterator[PackedRow]:
        """Runs one batch of one group; yields rows as soon as they are full."""
        previous, current = self.times(times)
        watermark, now = max(current.watermark, record.watermark), max(current.now, record.now)
        # What timers upstream emitted comes under the watermark of the batch before.
        before, after = map(self._elements_of, arrived)
        phases = [Phase(max(previous.watermark, record.watermark), *before, packers[0])]
        phases.append(Phase(watermark, *after, packers[1]))
        if not any(arrived[0]):
            del phases[0]
        with errors_at(self._where):
            yield from self._run_phases(record, store, phases, now, packers[0])
        record.watermark, record.now = watermark, now

    @abstractmethod
    def _run_phases(
        self, record: StepRecord, store: PageStore, phases: Sequence[Phase], now: int, fires: Packer
    ) -> Iterator[PackedRow]:
        """Runs the phases of a batch; results of what fires as time advances go to ``fires``."""

    @abstractmethod
    def _add(self, operator: Any, rows: Any, arrived: Phase, times: Times) -> Generator[PackedRow, None, Any]:
        """Adds elements to rows in pages; returns the rows of state."""

    @abstractmethod
    def _batch_of(self, results: F, kind: RecordType) -> Any | None:
        """Returns results as a record batch with the columns of a type; None where Python has to make them."""

    @abstractmethod
    def _values_of(self, results: F) -> list[Any]:
        """Returns results as Python values."""

    def _run_pages(
        self,
        operator: PagedOperator[F],
        record: StepRecord,
        store: PageStore,
        phases: Sequence[Phase],
        now: int,
        fires: Packer,
    ) -> Iterator[PackedRow]:
        by_clock = operator.by_clock
        last = phases[-1].watermark
        contents = RowContents(operator.schema, partial(operator.next_times, times=Times(last, now)), operator.check)
        pages = RowPages(record, contents, store, self._tuning.row_pages)
        keys = pa.concat_arrays([column for phase in phases for column in phase.keys])
        for part, mask in pages.shares(keys, last, now):
            rows = pages.load(part).rows
            self.facts[OPEN_WINDOWS] -= rows.num_rows
            before, start = (record.now if by_clock else record.watermark), 0
            for phase in phases:
                time = now if by_clock else phase.watermark
                is_last = phase is phases[-1]
                # The clock fires behind what timers upstream emitted.
                if is_last or not by_clock:
                    rows = yield from self._advance(operator, rows, before, Times(time, now), fires, clock=is_last)
                    before = time
                end = start + len(phase.arrival)
                inside = phase if mask is None else phase.where(mask[start:end])
                start = end
                if len(inside.arrival):
                    rows = yield from self._add(operator, rows, inside, Times(time, now))
            if by_clock and record.watermark < last == MAX_TIMESTAMP:
                operator.count_unfired(rows)
            if operator.unfired:
                self._metrics.count(UNFIRED, operator.unfired)
                operator.unfired = 0
            self.facts[OPEN_WINDOWS] += rows.num_rows
            pages.save(part, KeyedRows(rows))
        pages.end_batch()

    def _advance(
        self, operator: PagedOperator[F], rows: Any, before: int, times: Times, packer: Packer, *, clock: bool
    ) -> Generator[PackedRow, None, Any]:
        """Fires what is due, also by the clock if ``clock`` says so; returns the rows that are kept."""
        fired, rows = operator.advance(rows, before, times)
        for some in fired:
            yield from self._emit(some, packer)
        if clock:
            fired, rows = operator.advance_clock(rows, times)
            for some in fired:
                yield from self._emit(some, packer)
        return rows

    def _elements_of(self, arrived: Sequence[Arrived]) -> tuple[Any, Any, Ints]:
        """Returns the rows of partial aggregates and of others, and the number of each row in the order of arrival."""
        schemas = self._schemas
        found: tuple[list[Any], list[Any]] = [no_rows(schemas[0])], [no_rows(schemas[1])]
        numbers: tuple[list[Ints], list[Ints]] = [], []
        count = 0
        for part in arrived:
            assert isinstance(part, ColumnElements), "no others are sent to a step on columns"
            rows = load_rows(part.stream, schemas[part.is_partial])
            found[part.is_partial].append(rows)
            numbers[part.is_partial].append(np.arange(count, count + rows.num_rows))
            count += rows.num_rows
        arrival = np.concatenate([np.zeros(0, np.int64), *numbers[1], *numbers[0]])
        return concatenated(found[1]), concatenated(found[0]), arrival

    def _emit(self, results: F, packer: Packer) -> Iterator[PackedRow]:
        step = self.step
        direct = step.direct_sinks
        if step.targets:
            assert step.results is not None, "columns have a type"
            step.send(self._batch_of(results, step.results), results.stamps, packer)
            yield from packer.full()
            if step.output is None or step.output.is_idle:
                self.facts[RECORDS_OUT] += len(results)
                return
        batches = [self._batch_for(target, results) for target in direct]
        if batches and all(batch is not None for batch in batches):
            self.facts[RECORDS_OUT] += len(results)
            for target, batch in zip(direct, batches, strict=True):
                yield from self._to_sinks.send_batch(target, batch, packer)
            return
        for start in range(0, len(results), _VALUES_AT_ONCE):
            some = results.slice(start, _VALUES_AT_ONCE)
            for value, stamp in zip(self._values_of(some), some.stamps.tolist(), strict=True):
                self._collector.collect(value, stamp)
            self._collector.drain(packer, have_columns=True)
            yield from packer.full()

    def _batch_for(self, target: SinkTarget, results: F) -> Any | None:
        """The columns of a sink's elements; None where Python has to make them."""
        if target.route is None:
            return self._batch_of(results, target.kind)
        step = self.step
        assert step.results is not None, "columns have a type"
        assert step.output is not None, "somebody reads them"
        return target.columns_of(self._batch_of(results, step.results), results.stamps, step.output.observe)


def mask_array(chosen: Mask) -> Any:
    """A mask as pyarrow takes it."""
    return pa.array(chosen)
