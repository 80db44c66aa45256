"""Runs a step whose windows are on columns, on one key group after another."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.late_rows import RowAggregate, fire_late_rows, fire_late_sessions
from windrow_runtime.columnar.results import record_batch, values_of
from windrow_runtime.columnar.state import Chunks, concatenated
from windrow_runtime.columnar.windows.column_operator import KINDS, Fired, Times
from windrow_runtime.columnar.windows.counted import CountOperator
from windrow_runtime.columnar.windows.geometry import Slices
from windrow_runtime.columnar.windows.keyed_windows import late
from windrow_runtime.columnar.windows.late import fire_late
from windrow_runtime.columnar.windows.panes import PanedOperator
from windrow_runtime.columnar.windows.sessions import SessionOperator
from windrow_runtime.columnar.windows.slices import SliceOperator, slices_in
from windrow_runtime.columnar.windows.timed import TimedOperator
from windrow_runtime.operators.changes import as_change
from windrow_runtime.operators.errors import folded_behind
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_runtime.operators.windows.pane_operator import CLOSED
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import PackedRow
from windrow_runtime.spark.keyed.column_step import ColumnRunner, Phase, mask_array
from windrow_runtime.spark.keyed.level import KeyedStep
from windrow_runtime.storage.group_record import PageStore, StepRecord
from windrow_runtime.storage.tuning import StateTuning

# Any in this module: results are of every type, and pyarrow has no types.

_OnPages: TypeAlias = SessionOperator | CountOperator | TimedOperator | PanedOperator
"""The operators whose state lies in pages by key."""


class WindowRunner(ColumnRunner[Fired]):
    """Runs one step of windows in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, form: ColumnarForm, tuning: StateTuning) -> None:
        super().__init__(step, form, tuning)
        self._form = form
        self._operator = form.operator
        self._on_rows = RowAggregate(form) if form.windows.lateness and form.operator.adds_late_rows else None

    def _run_phases(
        self, record: StepRecord, store: PageStore, phases: Sequence[Phase], now: int, fires: Packer
    ) -> Iterator[PackedRow]:
        operator = self._operator
        if not isinstance(operator, SliceOperator):
            return self._run_pages(operator, record, store, phases, now, fires)
        return self._run_slices(operator, record, store, phases, fires)

    def _run_slices(
        self, operator: SliceOperator, record: StepRecord, store: PageStore, phases: Sequence[Phase], fires: Packer
    ) -> Iterator[PackedRow]:
        measure = partial(operator.measure, record.watermark)
        chunks = Chunks(record, operator.schema, store, measure, operator.merged, self._tuning.row_chunks)
        before = record.watermark
        for watermark, partial_rows, elements, _, packer in phases:
            chunks.measure = partial(operator.measure, watermark)
            if watermark > before:
                for fired in operator.advance(chunks, before, watermark):
                    yield from self._emit(fired, fires)
                    del fired  # frees its memory before the next ones are made
                before = watermark
            fresh: list[Any] = []
            if partial_rows.num_rows:
                fresh.append((yield from self._add_partial_rows(operator, partial_rows, watermark, packer)))
            if elements.num_rows:
                fresh.append((yield from self._folded_now(operator, chunks, elements, watermark, packer)))
            if any(rows.num_rows for rows in fresh):
                operator.add(chunks, fresh)
        chunks.end_batch()

    def _add(self, operator: _OnPages, rows: Any, arrived: Phase, times: Times) -> Generator[PackedRow, None, Any]:
        """Adds elements; returns the rows of state."""
        time = times.watermark
        if isinstance(operator, PanedOperator):
            return (yield from self._add_to_panes(operator, rows, arrived, times))
        if isinstance(operator, CountOperator):
            return (yield from self._count(operator, rows, arrived.elements, time, arrived.packer))
        if isinstance(operator, TimedOperator):
            some = arrived.partial_rows if self._form.aggregates_all else arrived.elements
            return (yield from self._add_timed(operator, rows, some, time, arrived.packer))
        rows = yield from self._add_to_sessions(operator, rows, arrived, time)
        yield from self._drain(arrived.packer)
        return rows

    def _add_to_panes(
        self, operator: PanedOperator, rows: Any, arrived: Phase, times: Times
    ) -> Generator[PackedRow, None, Any]:
        """Adds elements to windows that fire panes; returns the rows of state."""
        slices, partial_rows, elements = operator.windows.slices, arrived.partial_rows, arrived.elements
        if partial_rows.num_rows:
            on_time = slices.on_time(times.watermark, slices.slices_of(partial_rows.column(1).to_numpy()))
            self._check_on_time(on_time, times.watermark)
            partial_rows, elements = self._aggregated_in_order(operator, arrived, times.watermark)
            rows = operator.add_partial_rows(rows, partial_rows, times)
        elements = yield from self._without_late(slices, elements, times.watermark, arrived.packer)
        dropped = partial(self._metrics.count, CLOSED)
        return (
            yield from self._emit_each(
                operator.add(rows, *self._inputs_of(elements), times, dropped), rows, arrived.packer
            )
        )

    def _aggregated_in_order(self, operator: PanedOperator, arrived: Phase, watermark: int) -> tuple[Any, Any]:
        """Aggregates those on time, in the order in which the first ones came; returns them and the other elements."""
        slices, partial_rows, elements = operator.windows.slices, arrived.partial_rows, arrived.elements
        on_time = slices.on_time(watermark, slices.slices_of(elements.column(1).to_numpy()))
        if not on_time.any():
            return partial_rows, elements
        arrival = arrived.arrival[partial_rows.num_rows :][on_time]
        more, firsts = operator.aggregate(*self._inputs_of(elements.filter(mask_array(on_time))))
        order = np.argsort(np.concatenate([arrived.arrival[: partial_rows.num_rows], arrival[firsts]]))
        return concatenated([partial_rows, more]).take(pa.array(order)), elements.filter(mask_array(~on_time))

    def _count(
        self, operator: CountOperator, rows: Any, arrived: Any, time: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Counts the elements that arrived in their windows; returns the rows of state."""
        arrived = yield from self._without_late(operator.windows.slices, arrived, time, packer)
        return (yield from self._emit_each(operator.add(rows, *self._inputs_of(arrived), time), rows, packer))

    def _add_timed(
        self, operator: TimedOperator, rows: Any, arrived: Any, time: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Adds elements to windows that fire by time; returns the rows of state."""
        slices = operator.windows.slices
        arrived = yield from self._without_late(slices, arrived, time, packer)
        if self._form.aggregates_all:
            return operator.add(rows, arrived, time)
        ended = slices.last_times(slices.last_windows(slices.slices_of(arrived.column(1).to_numpy()))) <= time
        if ended.any():
            fired = operator.each(rows, *self._inputs_of(arrived.filter(mask_array(ended))), time)
            rows = yield from self._emit_each(fired, rows, packer)
            arrived = arrived.filter(mask_array(~ended))
        return operator.add(rows, operator.aggregate(*self._inputs_of(arrived)), time)

    def _without_late(self, slices: Slices, arrived: Any, time: int, packer: Packer) -> Generator[PackedRow, None, Any]:
        """Takes away the elements that are late; returns the others."""
        behind = late(slices, arrived.column(1).to_numpy(), time)
        if not behind.any():
            return arrived
        yield from self._take_late(arrived.filter(mask_array(behind)), time, packer)
        return arrived.filter(mask_array(~behind))

    def _emit_each(
        self, steps: Iterator[tuple[Fired | None, Any]], rows: Any, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Emits what fires step by step; returns the rows of state in the end."""
        for fired, left in steps:
            rows = left
            if fired is not None:
                yield from self._emit(fired, packer)
        return rows

    def _inputs_of(self, arrived: Any) -> tuple[Any, Ints, Sequence[Any]]:
        """The keys of elements, their timestamps, and what the kernel takes from them."""
        return arrived.column(0), arrived.column(1).to_numpy(), self._form.inputs_in(arrived)

    def _add_to_sessions(
        self, operator: SessionOperator, rows: Any, arrived: Phase, watermark: int
    ) -> Generator[PackedRow, None, Any]:
        """Returns the sessions with the elements that arrived for their keys."""
        partial_rows = arrived.partial_rows
        if partial_rows.num_rows:
            # The first element of a session is the first one that is late.
            self._check_on_time(partial_rows.column(1).to_numpy() + (operator.windows.gap - 1) > watermark, watermark)
        keys, stamps, inputs = self._inputs_of(arrived.elements)
        placed = operator.place(rows, partial_rows, keys, stamps, watermark, arrived.arrival)
        behind = ~placed.kept[placed.single :]
        if behind.any():
            yield from self._take_late(arrived.elements.filter(mask_array(behind)), watermark, arrived.packer)
        if self._on_rows is not None:
            results = fire_late_sessions(self._on_rows, rows, placed, inputs, watermark)
            for number, result in enumerate(results, 1):
                self._collector.collect(*result)
                if number % FIRINGS_AT_ONCE == 0:
                    yield from self._drain(arrived.packer)
        return operator.add(rows, partial_rows, placed, inputs)

    def _check_on_time(self, on_time: Mask, watermark: int) -> None:
        """Refuses partial aggregates that are behind the watermark: such have to come one by one."""
        if not on_time.all():
            raise folded_behind(self._form.step, watermark)

    def _folded_now(
        self, operator: SliceOperator, chunks: Chunks, rows: Any, watermark: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Fires windows for elements that are late for them; returns the rows of state of those that are kept."""
        windows = operator.windows
        slices = windows.slices_of(rows.column(1).to_numpy())
        expired = windows.expired(slices, watermark)
        if expired.any():
            yield from self._take_late(rows.filter(mask_array(expired)), watermark, packer)
            rows, slices = rows.filter(mask_array(~expired)), slices[~expired]
        keys, stamps, inputs = self._inputs_of(rows)
        if windows.lateness:
            if self._on_rows is None:
                for fired in fire_late(operator, chunks, keys, slices, inputs, watermark):
                    yield from self._emit(fired, packer)
            else:
                results = fire_late_rows(operator, self._on_rows, chunks, keys, slices, inputs, watermark)
                for number, result in enumerate(results, 1):
                    self._collector.collect(*result)
                    if number % FIRINGS_AT_ONCE == 0:
                        yield from self._drain(packer)
                yield from self._drain(packer)
            dropped = windows.held.expired(slices, watermark)
            if windows.purges and dropped.any():
                keys, stamps, inputs = self._inputs_of(rows.filter(mask_array(~dropped)))
        return operator.aggregate_arrived(chunks, keys, stamps, inputs)

    def _add_partial_rows(
        self, operator: SliceOperator, rows: Any, watermark: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Takes the late rows out of partial aggregates; returns the rows of state."""
        slices = slices_in(rows)
        if not self._form.aggregates_all:
            self._check_on_time(operator.windows.on_time(watermark, slices), watermark)
            return rows.select(operator.schema.names)
        expired = operator.windows.expired(slices, watermark)
        if expired.any():
            yield from self._take_late(rows.filter(mask_array(expired)), watermark, packer)
            rows = rows.filter(mask_array(~expired))
        return rows.select(operator.schema.names)

    def _take_late(self, rows: Any, watermark: int, packer: Packer) -> Iterator[PackedRow]:
        """Passes on late elements or partial aggregates, or drops them."""
        form, tag = self._form, self._form.late_tag
        is_partial = tag is None and rows.schema.equals(form.partial_schema)
        count = int(rows.columns[-1].to_numpy().sum()) if is_partial else rows.num_rows
        self._metrics.late += count
        if tag is None:
            self._metrics.count("late_records_dropped", count)
            return
        stamps, columns = rows.column(1), form.late_elements(rows)
        if len(columns[0]) != count:
            raise folded_behind(form.step, watermark)
        direct = self.step.side_sinks.get(tag, ())
        if direct and all(target.kind == form.element for target in direct):
            batch = form.batch_of(columns)
            for target in direct:
                yield from self._to_sinks.send_batch(target, batch, packer)
            return
        for element, stamp in zip(form.elements_of(columns), stamps.to_pylist(), strict=True):
            self._collector.side_output(tag, element, stamp)
        yield from self._drain(packer)

    def _batch_of(self, results: Fired, kind: RecordType) -> Any | None:
        return record_batch(self._form, results, kind)

    def _values_of(self, results: Fired) -> list[Any]:
        values = values_of(self._form, results)
        if results.kinds is None:
            return values
        return list(map(as_change, map(KINDS.__getitem__, results.kinds.tolist()), values))
