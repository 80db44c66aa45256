"""Runs a columnar step on one key group after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final

from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.results import RowAggregate, fire_late, fire_late_sessions, record_batch, values_of
from windrow_runtime.columnar.state import (
    Chunks,
    KeyedRows,
    RowContents,
    RowPages,
    concatenated,
    dump_rows,
    load_rows,
    no_rows,
)
from windrow_runtime.columnar.windows.counted import CountOperator
from windrow_runtime.columnar.windows.geometry import Fired, Panes
from windrow_runtime.columnar.windows.lanes import late
from windrow_runtime.columnar.windows.panes import PaneOperator, panes_in
from windrow_runtime.columnar.windows.sessions import SessionOperator
from windrow_runtime.columnar.windows.timed import TimedOperator
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_runtime.spark.clock import BatchTimes
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import Arrived, ColumnElements, PackedRow
from windrow_runtime.spark.keyed.level import KeyedStep, StepRunner
from windrow_runtime.spark.run.facts import OPEN_WINDOWS, RECORDS_IN, RECORDS_OUT, Count
from windrow_runtime.storage.group_record import PageStore, StepRecord
from windrow_runtime.storage.tuning import StateTuning

# Any in this module: results are of every type, and pyarrow has no types.

_ROWS_IN_A_PAYLOAD: Final = 100_000
_VALUES_AT_ONCE: Final = 50_000


class ColumnRunner(StepRunner):
    """Runs one columnar step in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, form: ColumnarForm, tuning: StateTuning) -> None:
        super().__init__(step)
        self._tuning = tuning
        self._form = form
        self._operator = form.operator
        self._to_sinks: Counter[str] = Counter()
        fires_late = form.windows.lateness and isinstance(form.operator, (PaneOperator, SessionOperator))
        self._on_rows = RowAggregate(form) if fires_late else None

    def take_counts(self) -> list[Count]:
        counts = super().take_counts()
        counts += ((sink, RECORDS_IN, records) for sink, records in self._to_sinks.items())
        self._to_sinks.clear()
        return counts

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
        # Columns come from sources alone, and so behind the watermark.
        elements = [part for part in arrived[1] if isinstance(part, ColumnElements)]
        _, current = self.times(times)
        watermark = max(current.watermark, record.watermark)
        operator = self._operator
        with errors_at(self._form.step.where):
            if not isinstance(operator, PaneOperator):
                now = max(current.now, record.now)
                yield from self._run_pages(operator, record, store, (watermark, now), elements, packers)
            else:
                measure, tuning = partial(operator.measure, watermark), self._tuning.row_chunks
                chunks = Chunks(record, operator.schema, store, measure, operator.merged, tuning)
                if watermark > record.watermark:
                    for fired in operator.advance(chunks, record.watermark, watermark):
                        yield from self._emit(fired, packers[0])
                        del fired  # frees its memory before the next ones are made
                if elements:
                    yield from self._add(operator, chunks, elements, watermark, packers[1])
                chunks.end_batch()
        record.watermark, record.now = watermark, max(current.now, record.now)

    def _run_pages(
        self,
        operator: SessionOperator | CountOperator | TimedOperator,
        record: StepRecord,
        store: PageStore,
        times: tuple[int, int],
        elements: Sequence[ColumnElements],
        packers: tuple[Packer, Packer],
    ) -> Iterator[PackedRow]:
        by_clock = operator.windows.by_clock
        before, time = (record.now, times[1]) if by_clock else (record.watermark, times[0])
        arrived = self._rows_of(elements)
        contents = RowContents(operator.schema, partial(operator.next_time, time), operator.check, by_clock)
        pages = RowPages(record, contents, store, self._tuning.row_pages)
        for part, mask in pages.shares(arrived.column(0), *times):
            inside = arrived if mask is None else arrived.filter(_mask(mask))
            rows = pages.load(part).rows
            self.facts[OPEN_WINDOWS] -= rows.num_rows
            if isinstance(operator, CountOperator):
                rows = operator.advance(rows, time)
                if inside.num_rows:
                    rows = yield from self._count(operator, rows, inside, time, packers[1])
            elif isinstance(operator, TimedOperator):
                firings, rows = operator.advance(rows, before, time)
                for some in firings:
                    yield from self._emit(some, packers[0])
                if inside.num_rows:
                    rows = yield from self._add_timed(operator, rows, inside, time, packers[1])
            else:
                fired, rows = operator.advance(rows, before, time)
                if fired is not None:
                    yield from self._emit(fired, packers[0])
                if inside.num_rows:
                    rows = self._add_to_sessions(operator, rows, inside, time)
                    yield from self._drain(packers[1])
            self.facts[OPEN_WINDOWS] += rows.num_rows
            pages.save(part, KeyedRows(rows))
        pages.end_batch()

    def _count(
        self, operator: CountOperator, rows: Any, arrived: Any, time: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Counts the elements that arrived in their windows; returns the rows of state."""
        arrived = yield from self._without_late(operator.windows.panes, arrived, time, packer)
        return (yield from self._emit_each(operator.add(rows, *self._inputs_of(arrived), time), rows, packer))

    def _add_timed(
        self, operator: TimedOperator, rows: Any, arrived: Any, time: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Adds elements to windows that fire by time; returns the rows of state."""
        panes = operator.windows.panes
        arrived = yield from self._without_late(panes, arrived, time, packer)
        if self._form.folds_first:
            return operator.add(rows, arrived, time)
        ended = panes.last_times(panes.last_windows(panes.panes_of(arrived.column(1).to_numpy()))) <= time
        if ended.any():
            fired = operator.each(rows, *self._inputs_of(arrived.filter(_mask(ended))), time)
            rows = yield from self._emit_each(fired, rows, packer)
            arrived = arrived.filter(_mask(~ended))
        return operator.add(rows, operator.fold(*self._inputs_of(arrived)), time)

    def _without_late(self, panes: Panes, arrived: Any, time: int, packer: Packer) -> Generator[PackedRow, None, Any]:
        """Takes away the elements that are late; returns the others."""
        behind = late(panes, arrived.column(1).to_numpy(), time)
        if not behind.any():
            return arrived
        self._take_late(arrived.filter(_mask(behind)))
        yield from self._drain(packer)
        return arrived.filter(_mask(~behind))

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

    def _add_to_sessions(self, operator: SessionOperator, rows: Any, arrived: Any, watermark: int) -> Any:
        """Returns the sessions with the elements that arrived for their keys."""
        keys, stamps, inputs = self._inputs_of(arrived)
        placed = operator.place(rows, keys, stamps, watermark)
        late = ~placed.kept[placed.known :]
        if late.any():
            self._take_late(arrived.filter(_mask(late)))
        if self._on_rows is not None:
            for result in fire_late_sessions(self._on_rows, rows, placed, inputs, watermark):
                self._collector.collect(*result)
        return operator.add(rows, placed, inputs)

    def _rows_of(self, elements: Sequence[ColumnElements]) -> Any:
        schema = self._form.exchange_schema
        return concatenated([no_rows(schema), *(load_rows(part.stream, schema) for part in elements)])

    def _add(
        self, operator: PaneOperator, chunks: Chunks, elements: Sequence[ColumnElements], watermark: int, packer: Packer
    ) -> Iterator[PackedRow]:
        form, windows = self._form, operator.windows
        rows = self._rows_of(elements)
        if form.folds_first:
            gone = windows.gone(panes_in(rows), watermark)
            if gone.any():
                self._take_late(rows.filter(_mask(gone)))
                rows = rows.filter(_mask(~gone))
            operator.add(chunks, [rows.select(operator.schema.names)])
            return
        panes = windows.panes_of(rows.column(1).to_numpy())
        gone = windows.gone(panes, watermark)
        if gone.any():
            self._take_late(rows.filter(_mask(gone)))
            yield from self._drain(packer)
            rows, panes = rows.filter(_mask(~gone)), panes[~gone]
        if not rows.num_rows:
            return
        inputs = form.inputs_in(rows)
        if self._on_rows is not None:
            keys = rows.column(0)
            results = fire_late(operator, self._on_rows, chunks, keys, panes, inputs, watermark)
            for number, result in enumerate(results, 1):
                self._collector.collect(*result)
                if number % FIRINGS_AT_ONCE == 0:
                    yield from self._drain(packer)
            yield from self._drain(packer)
        operator.add_elements(chunks, rows.column(0), rows.column(1).to_numpy(), inputs)

    def _take_late(self, rows: Any) -> None:
        count = int(rows.columns[-1].to_numpy().sum()) if self._form.folds_first else rows.num_rows
        self._metrics.late += count
        tag = self._form.late_tag
        if tag is None:
            self._metrics.count("late_records_dropped", count)
            return
        _, stamps, *columns = rows.columns
        elements = self._form.elements_of(columns[len(self._form.inputs) :])
        for element, stamp in zip(elements, stamps.to_pylist(), strict=True):
            self._collector.side_output(tag, element, stamp)

    def _emit(self, fired: Fired, packer: Packer) -> Iterator[PackedRow]:
        direct = self.step.direct_sinks
        batches = {sink: record_batch(self._form, fired, kind) for sink, (_, kind) in direct.items()}
        if batches and all(batch is not None for batch in batches.values()):
            self.facts[RECORDS_OUT] += len(fired)
            self._to_sinks.update(dict.fromkeys((step for step, _ in direct.values()), len(fired)))
            for sink, batch in batches.items():
                for start in range(0, len(fired), _ROWS_IN_A_PAYLOAD):
                    part = batch.slice(start, _ROWS_IN_A_PAYLOAD)
                    if packer.writes(sink):
                        yield from packer.write_columns(sink, part)
                    else:
                        yield packer.row_of_columns(sink, dump_rows(part, compress=False))
            return
        for start in range(0, len(fired), _VALUES_AT_ONCE):
            some = fired.slice(start, _VALUES_AT_ONCE)
            for value, stamp in zip(values_of(self._form, some), some.stamps.tolist(), strict=True):
                self._collector.collect(value, stamp)
            yield from self._drain(packer)


def _mask(chosen: Any) -> Any:
    import pyarrow as pa

    return pa.array(chosen)
