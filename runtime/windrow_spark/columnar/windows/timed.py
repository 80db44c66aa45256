"""Runs windows that fire at their end and at every interval before it, by watermark or clock, over columns.

State is a row for each key and window, with the time at which it fires next, and with what the aggregate holds of its
elements. When time advances over several firings of a window, each of them has the same result::

    interval 10   window   |0---------------------------34|   first element at 7
    time                          12            31       40
    firings                     10            20 30     34

Windows of one key that fire at the same time do so in the order in which their timers were set. ``number`` holds this
order. While one advance fires several times, a timer that is set anew at a firing comes after those set before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow.windows.spec import FARTHEST, UNFIRED, Counts, Intervals
from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.columnar.rows.groups import Groups
from windrow_spark.columnar.state import concatenated
from windrow_spark.columnar.step_operator import ColumnsArrived, Increment, Output, StateRows, Times
from windrow_spark.columnar.windows.column_operator import (
    BY_ARRIVAL,
    Crossing,
    Fired,
    PartialAggregation,
    fired_windows,
    waiting_in,
)
from windrow_spark.columnar.windows.counted import CountOperator
from windrow_spark.columnar.windows.keyed_windows import KeyedWindowOperator, at, keyed_windows_of
from windrow_spark.columnar.windows.step_windows import RuledWindows


class TimedOperator(KeyedWindowOperator[Intervals]):
    """Runs windows that fire by time, on some keys at a time; time is that of the watermark or of the clock."""

    window_columns: ClassVar[Sequence[str]] = ("start", "next", "filled", "number")

    @property
    def _is_numbered(self) -> bool:
        """Returns whether several windows of a key may fire at one time."""
        return self.windows.slices.windows_each > 1 and self.rule.interval is not None

    def describe(self) -> str:
        return "" if self.rule.interval is None else ", firings at intervals"

    @property
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        slices = self.windows.slices
        if self.kernel.is_numbered:
            return BY_ARRIVAL
        if self.why_late_cross:
            return PartialAggregation.NONE, self.why_late_cross
        if slices.is_global and not slices.by_clock:
            return PartialAggregation.NONE, "each element fires at the end of the stream"
        if self.kernel.ordered and slices.windows_each > 1 and not slices.by_clock:
            return PartialAggregation.NONE, "the slices of a window would not keep the order of arrival"
        return PartialAggregation.ALL, ""

    def check(self, rows: pa.RecordBatch) -> None:
        super().check(rows)
        starts, following, filled = (rows.column(index).to_numpy() for index in (1, 2, 3))
        ends = self.windows.slices.last_times(starts)
        far = (starts > 2 * FARTHEST) | (starts < -2 * FARTHEST) | (following < -FARTHEST)
        if (far | (following > ends)).any():
            raise damaged_state("a window that fires next after its end, or too far away")
        if ((filled != 0) & (filled != 1)).any():
            raise damaged_state("a window that is neither filled nor empty")

    def _prepare(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[Crossing]:
        yield True, self._aggregated(rows)

    def _aggregated(self, elements: pa.RecordBatch) -> pa.RecordBatch:
        """Makes one row of all elements of a key and a slice, whether they are late or not.

        Windows that hold several slices have a row for each element where results depend on the order of these.
        """
        one_by_one = self._is_numbered and self.kernel.ordered and not self.windows.by_clock
        # Windows begin in the order in which their first elements come.
        return self.aggregated(elements, by_arrival=self._is_numbered, one_by_one=one_by_one)[0]

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Output[Fired]]:
        """Fires what is due, in order of firings.

        Even if the clock stands still, windows fire whose timers elements of the batch before have set.
        """
        rows, windows, slices, time = state.rows, self.windows, self.windows.slices, times.watermark
        if time <= before and not slices.by_clock:
            return
        starts, following, filled, numbers = (rows.column(index).to_numpy() for index in (1, 2, 3, 4))
        ends = slices.last_times(starts)
        due, ended = following <= time, ends <= time
        if not slices.by_clock:
            due &= ends > before
        are_cleaned = self.cleaned(starts, time)
        if not due.any() and not are_cleaned.any():
            return
        firing = rows.filter(pa.array(due & (filled > 0)))
        following, filled, numbers = following.copy(), filled.copy(), numbers.copy()
        interval, goes_on = windows.rule.interval, due & ~ended
        if self._is_numbered:
            # Windows set their timers anew at their last firing, in order of firings, after all other timers.
            again = np.flatnonzero(goes_on)
            again = again[np.lexsort((numbers[again], -following[again]))]
            numbers[again] = numbers.max(initial=0) + 1 + np.arange(len(again))
        if interval is not None:
            passed = following[goes_on]
            passed += ((time - passed) // interval + 1) * interval
            following[goes_on] = np.minimum(passed, ends[goes_on])
        if windows.rule.purges:
            filled[due] = 0
        kept = ~are_cleaned & ~(ended & (filled == 0))
        columns = [*rows.columns[:2], *map(pa.array, (following, filled, numbers)), *rows.columns[5:]]
        if slices.by_clock:
            columns[-1] = pa.array(np.where(due, 0, rows.column(-1).to_numpy()))
        state.rows = self.rows(columns).filter(pa.array(kept))
        portion = state.portions.large_elements if self.kernel.is_large else state.portions.firings
        yield from self._firings(firing, time, portion)

    def end_stream(self, state: StateRows) -> Iterable[Increment]:
        return (Increment(UNFIRED, waiting_in(state.rows)),)

    def _firings(self, rows: pa.RecordBatch, time: int, portion: int) -> Iterator[Fired]:
        """Yields the firings of windows up to a time, about as many at a time as a portion has."""
        windows, slices = self.windows, self.windows.slices
        keys, starts, at = rows.column(0), rows.column(1).to_numpy(), rows.column(2).to_numpy()
        # The rank of each row among those that fire at one time: the later its first firing here, the sooner.
        ranks = np.empty(len(at), np.int64)
        ranks[np.lexsort((rows.column(4).to_numpy(), -at))] = np.arange(len(at))
        ends = slices.last_times(starts)
        if slices.is_global and not slices.by_clock and time == MAX_TIMESTAMP:
            at = ends  # the stream is at its end, and no interval is left
        results = self.kernel.results(rows.columns[5:])
        # Windows that purge have something to show at the first firing alone.
        interval = 0 if windows.rule.purges else windows.rule.interval or 0
        while len(at):
            until = min(time, int(at.min()) + max(1, portion // len(at)) * interval) if interval else time
            ended, counts = ends <= until, (at <= until).astype(np.int64)
            if interval:
                # The last firing is at the end of the window, however near that is to the one before.
                counts *= np.where(ended, -(-(ends - at) // interval), (until - at) // interval) + 1
            places = np.repeat(np.arange(len(at)), counts)
            steps = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
            ordered = places[np.lexsort((ranks[places], np.minimum(at[places] + steps * interval, ends[places])))]
            rows_fired = pa.array(ordered)
            yield fired_windows(slices, keys.take(rows_fired), starts[ordered], results.take(rows_fired))
            if until == time:
                return
            goes_on = ~ended
            at, ends = np.minimum(at + counts * interval, ends)[goes_on], ends[goes_on]
            left = pa.array(goes_on)
            keys, starts, ranks, results = keys.filter(left), starts[goes_on], ranks[goes_on], results.filter(left)

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Fired]]:
        slices, time = self.windows.slices, times.watermark
        partial_rows = yield from self.not_late(arrived.partial_rows, time, are_partial=True)
        self._add_partial_rows(state, partial_rows, time)
        elements = yield from self.not_late(arrived.elements, time)
        if elements.num_rows:
            stamps = elements.column(1).to_numpy()
            ended = slices.last_times(slices.last_windows(slices.slices_of(stamps))) <= time
            if ended.any():
                yield from self._fire_each(state, elements.filter(pa.array(ended)), time)
                elements = elements.filter(pa.array(~ended))
            self._add_partial_rows(state, self._aggregated(elements), time)

    def _fire_each(self, state: StateRows, elements: pa.RecordBatch, time: int) -> Iterator[Fired]:
        """Adds elements of windows that have ended, each of which fires."""
        ended = self.windows.slices.last_times(state.rows.column(1).to_numpy()) <= time
        others, rows = state.rows.filter(pa.array(~ended)), state.rows.filter(pa.array(ended))
        counted = RuledWindows(self.windows.slices, Counts(1, 1 if self.rule.purges else None))
        operator = CountOperator(counted, self.kernel, self.key_type)
        ones = pa.array(np.ones(rows.num_rows, np.int64))
        ended_state = StateRows(operator.rows([*rows.columns[:2], ones, *rows.columns[5:]]), state.portions)
        yield from operator.count(ended_state, elements, time)
        keys, starts, _, *states = ended_state.rows.columns
        ends = self.windows.slices.last_times(starts.to_numpy())
        facts = [ends, np.ones(len(ends), np.int64), np.zeros(len(ends), np.int64)]  # next, filled, number
        state.rows = concatenated([others, self.rows([keys, starts, *map(pa.array, facts), *states])])

    def _add_partial_rows(self, state: StateRows, partial_rows: pa.RecordBatch, time: int) -> None:
        """Adds partial aggregates to windows that have not ended."""
        portion = max(1, state.portions.window_rows // self.windows.slices.windows_each)
        for start in range(0, partial_rows.num_rows, portion):
            state.rows = self._with_portion(state.rows, partial_rows.slice(start, portion), time)

    def _with_portion(self, rows: pa.RecordBatch, partial_rows: pa.RecordBatch, time: int) -> pa.RecordBatch:
        """Adds partial aggregates to rows of state, each to every window that it is in."""
        windows, slices, stored_count = self.windows, self.windows.slices, rows.num_rows
        copied, starts = self.windows_for(partial_rows.column(1).to_numpy(), time)
        keys, stamps, *states = at(partial_rows.columns[:-1], copied)
        keyed_windows = keyed_windows_of(slices, rows, keys, starts)
        count = len(keyed_windows.keys)
        was_filled = np.concatenate([rows.column(3).to_numpy() > 0, np.ones(len(starts), np.bool_)])
        groups = Groups(keyed_windows.of_rows, count)
        has_new = groups.where(np.arange(stored_count, len(was_filled))).sizes > 0
        both = [pa.concat_arrays([old, new]) for old, new in zip(rows.columns[5:], states, strict=True)]
        # Purged states are left out; where nothing has come since, they are kept, but mean nothing.
        counts = was_filled | ~has_new[keyed_windows.of_rows]
        if not counts.all():
            both = [column.filter(pa.array(counts)) for column in both]
        merged = self.kernel.merge(groups.where(counts), both)
        first = groups.first_rows
        ends = slices.last_times(keyed_windows.starts)
        following = ends.copy()
        is_stored = first < stored_count
        following[is_stored] = rows.column(2).to_numpy()[first[is_stored]]
        if windows.rule.interval is not None:
            begun = np.full(len(stamps), time) if slices.by_clock else stamps.to_numpy()
            begun = begun[first[~is_stored] - stored_count]
            next_one = begun - begun % windows.rule.interval + windows.rule.interval
            following[~is_stored] = np.minimum(next_one, ends[~is_stored])
        filled = (was_filled[first] | has_new).astype(np.int64)
        numbers = np.zeros(count, np.int64)
        if self._is_numbered:
            stored = rows.column(4).to_numpy()
            numbers = stored.max(initial=0) + 1 + first - stored_count
            numbers[is_stored] = stored[first[is_stored]]
        columns = [pa.array(column) for column in (keyed_windows.starts, following, filled, numbers)]
        return self.rows([keyed_windows.keys, *columns, *merged])

    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        windows, slices = self.windows, self.windows.slices
        ends = slices.last_times(rows.column(1).to_numpy())
        following = rows.column(2).to_numpy()
        if slices.by_clock or slices.is_global:
            return int(following.min())
        closing = np.full(len(ends), MAX_TIMESTAMP) if windows.lateness >= FARTHEST else ends + windows.lateness
        return int(np.where(ends > time, following, closing).min())
