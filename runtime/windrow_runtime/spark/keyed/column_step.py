"""Runs a columnar step on one key group after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.late_rows import RowAggregate, fire_late_rows, fire_late_sessions
from windrow_runtime.columnar.results import record_batch, values_of
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
from windrow_runtime.columnar.windows.column_operator import KINDS, Fired, Times
from windrow_runtime.columnar.windows.counted import CountOperator
from windrow_runtime.columnar.windows.geometry import Tiles
from windrow_runtime.columnar.windows.lanes import late
from windrow_runtime.columnar.windows.late import fire_late
from windrow_runtime.columnar.windows.panes import PanedOperator
from windrow_runtime.columnar.windows.sessions import SessionOperator
from windrow_runtime.columnar.windows.tiles import TileOperator, tiles_in
from windrow_runtime.columnar.windows.timed import TimedOperator
from windrow_runtime.operators.changes import as_change
from windrow_runtime.operators.errors import errors_at, folded_behind
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_runtime.operators.windows.pane_operator import CLOSED
from windrow_runtime.spark.clock import BatchTimes
from windrow_runtime.spark.exchange.facts import OPEN_WINDOWS, RECORDS_IN, RECORDS_OUT, Count
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import Arrived, ColumnElements, PackedRow
from windrow_runtime.spark.keyed.level import KeyedStep, StepRunner
from windrow_runtime.storage.group_record import PageStore, StepRecord
from windrow_runtime.storage.tuning import StateTuning

# Any in this module: results are of every type, and pyarrow has no types.

_OnPages: TypeAlias = SessionOperator | CountOperator | TimedOperator | PanedOperator
"""The operators whose state lies in pages by key."""

_ROWS_IN_A_PAYLOAD: Final = 100_000
_VALUES_AT_ONCE: Final = 50_000


class _Phase(NamedTuple):
    """A part of a batch: elements, and the watermark that advances right before them."""

    watermark: int
    folded: Any  # rows of the exchange: those of elements that were folded before it
    elements: Any  # the same for those that came one by one
    arrival: Ints  # numbers the rows of both, folded ones first, in the order in which they came
    packer: Packer  # takes what leaves for the elements

    @property
    def keys(self) -> list[Any]:
        """The columns of keys."""
        return [self.folded.column(0), self.elements.column(0)]

    def where(self, mask: Mask) -> _Phase:
        """Some of the rows, by a mask over both."""
        count = self.folded.num_rows
        folded, elements = self.folded.filter(_mask(mask[:count])), self.elements.filter(_mask(mask[count:]))
        return self._replace(folded=folded, elements=elements, arrival=self.arrival[mask])


class ColumnRunner(StepRunner):
    """Runs one columnar step in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, form: ColumnarForm, tuning: StateTuning) -> None:
        super().__init__(step)
        self._tuning = tuning
        self._form = form
        self._operator = form.operator
        self._to_sinks: Counter[str] = Counter()
        self._on_rows = RowAggregate(form) if form.windows.lateness and form.operator.adds_late_rows else None

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
        previous, current = self.times(times)
        watermark, now = max(current.watermark, record.watermark), max(current.now, record.now)
        # What timers upstream emitted comes under the watermark of the batch before.
        before, after = map(self._elements_of, arrived)
        phases = [_Phase(max(previous.watermark, record.watermark), *before, packers[0])]
        phases.append(_Phase(watermark, *after, packers[1]))
        if not any(arrived[0]):
            del phases[0]
        operator = self._operator
        with errors_at(self._form.step.where):
            if not isinstance(operator, TileOperator):
                yield from self._run_pages(operator, record, store, phases, now, packers[0])
            else:
                yield from self._run_tiles(operator, record, store, phases, packers[0])
        record.watermark, record.now = watermark, now

    def _run_tiles(
        self, operator: TileOperator, record: StepRecord, store: PageStore, phases: Sequence[_Phase], fires: Packer
    ) -> Iterator[PackedRow]:
        measure = partial(operator.measure, record.watermark)
        chunks = Chunks(record, operator.schema, store, measure, operator.merged, self._tuning.row_chunks)
        before = record.watermark
        for watermark, folded, elements, _, packer in phases:
            chunks.measure = partial(operator.measure, watermark)
            if watermark > before:
                for fired in operator.advance(chunks, before, watermark):
                    yield from self._emit(fired, fires)
                    del fired  # frees its memory before the next ones are made
                before = watermark
            fresh: list[Any] = []
            if folded.num_rows:
                fresh.append((yield from self._folded_before(operator, folded, watermark, packer)))
            if elements.num_rows:
                fresh.append((yield from self._folded_now(operator, chunks, elements, watermark, packer)))
            if any(rows.num_rows for rows in fresh):
                operator.add(chunks, fresh)
        chunks.end_batch()

    def _run_pages(
        self,
        operator: _OnPages,
        record: StepRecord,
        store: PageStore,
        phases: Sequence[_Phase],
        now: int,
        fires: Packer,
    ) -> Iterator[PackedRow]:
        by_clock = operator.windows.by_clock
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
                    clock = record.now if is_last else None
                    rows = yield from self._advance(operator, rows, before, Times(time, now), clock, fires)
                    before = time
                end = start + len(phase.arrival)
                inside = phase if mask is None else phase.where(mask[start:end])
                start = end
                if len(inside.arrival):
                    rows = yield from self._add(operator, rows, inside, Times(time, now))
            self.facts[OPEN_WINDOWS] += rows.num_rows
            pages.save(part, KeyedRows(rows))
        pages.end_batch()

    def _advance(
        self, operator: _OnPages, rows: Any, before: int, times: Times, clock: int | None, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Fires what is due, also by the clock since ``clock`` unless that is None; returns the rows that are kept."""
        fired, rows = operator.advance(rows, before, times)
        for some in fired:
            yield from self._emit(some, packer)
        if clock is not None:
            fired, rows = operator.advance_clock(rows, clock, times)
            for some in fired:
                yield from self._emit(some, packer)
        return rows

    def _add(self, operator: _OnPages, rows: Any, arrived: _Phase, times: Times) -> Generator[PackedRow, None, Any]:
        """Adds elements; returns the rows of state."""
        time = times.watermark
        if isinstance(operator, PanedOperator):
            return (yield from self._add_to_panes(operator, rows, arrived, times))
        if isinstance(operator, CountOperator):
            return (yield from self._count(operator, rows, arrived.elements, time, arrived.packer))
        if isinstance(operator, TimedOperator):
            some = arrived.folded if self._form.folds_first else arrived.elements
            return (yield from self._add_timed(operator, rows, some, time, arrived.packer))
        rows = yield from self._add_to_sessions(operator, rows, arrived, time)
        yield from self._drain(arrived.packer)
        return rows

    def _add_to_panes(
        self, operator: PanedOperator, rows: Any, arrived: _Phase, times: Times
    ) -> Generator[PackedRow, None, Any]:
        """Adds elements to windows that let panes out; returns the rows of state."""
        tiles, folded, elements = operator.windows.tiles, arrived.folded, arrived.elements
        if folded.num_rows:
            ahead = tiles.ahead_of(times.watermark, tiles.tiles_of(folded.column(1).to_numpy()))
            self._check_ahead(ahead, times.watermark)
            folded, elements = self._folded_in_order(operator, arrived, times.watermark)
            rows = operator.add_folded(rows, folded, times)
        elements = yield from self._without_late(tiles, elements, times.watermark, arrived.packer)
        dropped = partial(self._metrics.count, CLOSED)
        return (
            yield from self._emit_each(
                operator.add(rows, *self._inputs_of(elements), times, dropped), rows, arrived.packer
            )
        )

    def _folded_in_order(self, operator: PanedOperator, arrived: _Phase, watermark: int) -> tuple[Any, Any]:
        """All elements that are on time, folded, in the order in which the first ones came; and the other elements."""
        tiles, folded, elements = operator.windows.tiles, arrived.folded, arrived.elements
        ahead = tiles.ahead_of(watermark, tiles.tiles_of(elements.column(1).to_numpy()))
        if not ahead.any():
            return folded, elements
        arrival = arrived.arrival[folded.num_rows :][ahead]
        more, firsts = operator.fold(*self._inputs_of(elements.filter(_mask(ahead))))
        order = np.argsort(np.concatenate([arrived.arrival[: folded.num_rows], arrival[firsts]]))
        return concatenated([folded, more]).take(pa.array(order)), elements.filter(_mask(~ahead))

    def _count(
        self, operator: CountOperator, rows: Any, arrived: Any, time: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Counts the elements that arrived in their windows; returns the rows of state."""
        arrived = yield from self._without_late(operator.windows.tiles, arrived, time, packer)
        return (yield from self._emit_each(operator.add(rows, *self._inputs_of(arrived), time), rows, packer))

    def _add_timed(
        self, operator: TimedOperator, rows: Any, arrived: Any, time: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Adds elements to windows that fire by time; returns the rows of state."""
        tiles = operator.windows.tiles
        arrived = yield from self._without_late(tiles, arrived, time, packer)
        if self._form.folds_first:
            return operator.add(rows, arrived, time)
        ended = tiles.last_times(tiles.last_windows(tiles.tiles_of(arrived.column(1).to_numpy()))) <= time
        if ended.any():
            fired = operator.each(rows, *self._inputs_of(arrived.filter(_mask(ended))), time)
            rows = yield from self._emit_each(fired, rows, packer)
            arrived = arrived.filter(_mask(~ended))
        return operator.add(rows, operator.fold(*self._inputs_of(arrived)), time)

    def _without_late(self, tiles: Tiles, arrived: Any, time: int, packer: Packer) -> Generator[PackedRow, None, Any]:
        """Takes away the elements that are late; returns the others."""
        behind = late(tiles, arrived.column(1).to_numpy(), time)
        if not behind.any():
            return arrived
        yield from self._take_late(arrived.filter(_mask(behind)), time, packer)
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

    def _add_to_sessions(
        self, operator: SessionOperator, rows: Any, arrived: _Phase, watermark: int
    ) -> Generator[PackedRow, None, Any]:
        """Returns the sessions with the elements that arrived for their keys."""
        folded = arrived.folded
        if folded.num_rows:
            # The first element of a session is the first one that is late.
            self._check_ahead(folded.column(1).to_numpy() + (operator.windows.gap - 1) > watermark, watermark)
        keys, stamps, inputs = self._inputs_of(arrived.elements)
        placed = operator.place(rows, folded, keys, stamps, watermark, arrived.arrival)
        behind = ~placed.kept[placed.single :]
        if behind.any():
            yield from self._take_late(arrived.elements.filter(_mask(behind)), watermark, arrived.packer)
        if self._on_rows is not None:
            results = fire_late_sessions(self._on_rows, rows, placed, inputs, watermark)
            for number, result in enumerate(results, 1):
                self._collector.collect(*result)
                if number % FIRINGS_AT_ONCE == 0:
                    yield from self._drain(arrived.packer)
        return operator.add(rows, folded, placed, inputs)

    def _check_ahead(self, ahead: Mask, watermark: int) -> None:
        """Refuses folded elements that are behind the watermark: such have to come one by one."""
        if not ahead.all():
            raise folded_behind(self._form.step, watermark)

    def _elements_of(self, arrived: Sequence[Arrived]) -> tuple[Any, Any, Ints]:
        """Returns the rows of folded elements and of others, and the number of each row in the order of arrival."""
        schemas = self._form.crossed_schema, self._form.folded_schema
        found: tuple[list[Any], list[Any]] = [no_rows(schemas[0])], [no_rows(schemas[1])]
        numbers: tuple[list[Ints], list[Ints]] = [], []
        count = 0
        for part in arrived:
            assert isinstance(part, ColumnElements), "no others are sent to a step on columns"
            rows = load_rows(part.stream, schemas[part.is_folded])
            found[part.is_folded].append(rows)
            numbers[part.is_folded].append(np.arange(count, count + rows.num_rows))
            count += rows.num_rows
        arrival = np.concatenate([np.zeros(0, np.int64), *numbers[1], *numbers[0]])
        return concatenated(found[1]), concatenated(found[0]), arrival

    def _folded_now(
        self, operator: TileOperator, chunks: Chunks, rows: Any, watermark: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Fires windows for elements that are late for them; returns the rows of state of those that are kept."""
        windows = operator.windows
        tiles = windows.tiles_of(rows.column(1).to_numpy())
        gone = windows.gone(tiles, watermark)
        if gone.any():
            yield from self._take_late(rows.filter(_mask(gone)), watermark, packer)
            rows, tiles = rows.filter(_mask(~gone)), tiles[~gone]
        keys, stamps, inputs = self._inputs_of(rows)
        if windows.lateness:
            if self._on_rows is None:
                for fired in fire_late(operator, chunks, keys, tiles, inputs, watermark):
                    yield from self._emit(fired, packer)
            else:
                results = fire_late_rows(operator, self._on_rows, chunks, keys, tiles, inputs, watermark)
                for number, result in enumerate(results, 1):
                    self._collector.collect(*result)
                    if number % FIRINGS_AT_ONCE == 0:
                        yield from self._drain(packer)
                yield from self._drain(packer)
            dropped = windows.held.gone(tiles, watermark)
            if windows.purges and dropped.any():
                keys, stamps, inputs = self._inputs_of(rows.filter(_mask(~dropped)))
        return operator.fold_arrived(chunks, keys, stamps, inputs)

    def _folded_before(
        self, operator: TileOperator, rows: Any, watermark: int, packer: Packer
    ) -> Generator[PackedRow, None, Any]:
        """Takes away the late ones of elements that were folded before the exchange; returns the rows of state."""
        tiles = tiles_in(rows)
        if not self._form.folds_first:
            self._check_ahead(operator.windows.ahead_of(watermark, tiles), watermark)
            return rows.select(operator.schema.names)
        gone = operator.windows.gone(tiles, watermark)
        if gone.any():
            yield from self._take_late(rows.filter(_mask(gone)), watermark, packer)
            rows = rows.filter(_mask(~gone))
        return rows.select(operator.schema.names)

    def _take_late(self, rows: Any, watermark: int, packer: Packer) -> Iterator[PackedRow]:
        """Passes on late elements, or drops them, which may be folded."""
        form, tag = self._form, self._form.late_tag
        is_folded = tag is None and rows.schema.equals(form.folded_schema)
        count = int(rows.columns[-1].to_numpy().sum()) if is_folded else rows.num_rows
        self._metrics.late += count
        if tag is None:
            self._metrics.count("late_records_dropped", count)
            return
        stamps, columns = rows.column(1), form.late_elements(rows)
        if len(columns[0]) != count:
            raise folded_behind(form.step, watermark)
        direct = self.step.side_sinks.get(tag, {})
        if direct and all(kind == form.element for _, kind in direct.values()):
            batch = form.batch_of(columns)
            yield from self._write(direct, dict.fromkeys(direct, batch), packer)
            return
        for element, stamp in zip(form.elements_of(columns), stamps.to_pylist(), strict=True):
            self._collector.side_output(tag, element, stamp)
        yield from self._drain(packer)

    def _emit(self, fired: Fired, packer: Packer) -> Iterator[PackedRow]:
        step = self.step
        direct = step.direct_sinks
        if step.targets:
            assert step.results is not None, "columns have a type"
            step.send(record_batch(self._form, fired, step.results), fired.stamps, packer)
            yield from packer.full()
            if step.output is None or step.output.is_idle:
                self.facts[RECORDS_OUT] += len(fired)
                return
        batches = {sink: record_batch(self._form, fired, kind) for sink, (_, kind) in direct.items()}
        if batches and all(batch is not None for batch in batches.values()):
            self.facts[RECORDS_OUT] += len(fired)
            yield from self._write(direct, batches, packer)
            return
        for start in range(0, len(fired), _VALUES_AT_ONCE):
            some = fired.slice(start, _VALUES_AT_ONCE)
            values = values_of(self._form, some)
            if some.kinds is not None:
                values = list(map(as_change, map(KINDS.__getitem__, some.kinds.tolist()), values))
            for value, stamp in zip(values, some.stamps.tolist(), strict=True):
                self._collector.collect(value, stamp)
            self._collector.drain(packer, have_columns=True)
            yield from packer.full()

    def _write(
        self, sinks: Mapping[int, tuple[str, RecordType]], batches: Mapping[int, Any], packer: Packer
    ) -> Iterator[PackedRow]:
        """Writes record batches to sinks that take columns, or packs them for these."""
        for sink, batch in batches.items():
            self._to_sinks[sinks[sink][0]] += batch.num_rows
            for start in range(0, batch.num_rows, _ROWS_IN_A_PAYLOAD):
                part = batch.slice(start, _ROWS_IN_A_PAYLOAD)
                if packer.writes(sink):
                    yield from packer.write_columns(sink, part)
                else:
                    yield packer.row_of_columns(sink, dump_rows(part, compress=False))


def _mask(chosen: Any) -> Any:
    return pa.array(chosen)
