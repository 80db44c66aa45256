"""Runs windows that fire panes early, on time and late, over columns.

State is a row for each keyed window, which is a key and a window: what the aggregate holds, how far the keyed window
has got, and what its next pane waits for. Elements of a batch are aggregated in runs, each of which ends with an
element that fires a pane, or with the last one of its keyed window::

    early=after_count(3)   elements  1 2 3 4 5 6 7
                           runs     |-----|-----|-|
                           panes          3     6      the third run waits for two more elements

The panes of windows that accumulate have all runs up to theirs, and what the keyed window held before; others have
one run.

The order of panes is that in which the general operator outputs them, timer by timer: by time, and at one time in
the order in which the timers were set. By the watermark a keyed window has two timers, its end and its cleanup. The
end of one keyed window meets the cleanup of another with lateness alone, so ``number`` orders keyed windows only where
a cleanup may fire a pane. All timers of the clock up to now fire when the clock reads now, so a keyed window that
is due fires its pane at its earliest timer, ``asked``, which may be that of the other condition; where that one
fires before the keyed window is due, ``asked`` becomes ``due``. ``since`` orders timers of one time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow.windows.spec import Panes
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.operators.windows.pane_operator import CLOSED
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups, is_among
from windrow_spark.columnar.state import concatenated, no_rows
from windrow_spark.columnar.step_operator import ColumnsArrived, Increment, Output, StateRows, Times, check_on_time
from windrow_spark.columnar.windows.column_operator import (
    BY_ARRIVAL,
    Crossing,
    Fired,
    PartialAggregation,
    are_few,
    fired_windows,
    on_time_apart,
)
from windrow_spark.columnar.windows.keyed_windows import KeyedWindowOperator, Runs, States, at, keyed_windows_of
from windrow_spark.columnar.windows.pane_rows import (
    EARLY,
    ENDED,
    FINISHED,
    LATE,
    UNSET,
    WINDOW_COLUMNS,
    ActiveConditions,
    PaneRows,
    fault_in,
    pane_fields,
)
from windrow_spark.storage.tuning import PortionTuning

_T = TypeVar("_T", np.bool_, np.int8, np.int64)
_StatesOf: TypeAlias = Callable[[Groups, Ints | None], States]
"""Computes the states of runs, from the run of each row and the indices of rows in the batch; None: all of them."""

_FEW: Final = 4
"""Elements are few if there are more than this many times as many rows of state."""


class _Timers(NamedTuple):
    """The timers of one kind, of all keyed windows."""

    chosen: Mask  # marks those that fire a pane
    at: Ints
    fresh: Mask  # whether elements have come since the last pane
    are_last: Mask  # whether no pane follows


class PanedOperator(KeyedWindowOperator[Panes]):
    """Runs windows that fire panes, on some keys at a time."""

    window_columns: ClassVar[Sequence[str]] = WINDOW_COLUMNS

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(pane_fields(self.rule, list(super().schema), self.kernel.result_type))

    def describe(self) -> str:
        return ", panes"

    @property
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        windows, rule = self.windows, self.rule
        if rule.elements_fire_panes:
            return PartialAggregation.NONE, "each element may fire a pane"
        if self.needs_arrival:
            return BY_ARRIVAL
        if windows.lateness and windows.slices.windows_each > 1:
            return PartialAggregation.NONE, "elements may be late for some of their windows, and on time for others"
        if windows.lateness and rule.may_close_filled:
            # Partial aggregates are added before late elements, so windows would be numbered in another order.
            return PartialAggregation.NONE, "closing panes come in the order in which windows began"
        if rule.early is not None and self.traits.has_timers:
            # What timers upstream emit comes before the clock fires panes, and the first element of a window that
            # is due does so by itself.
            return PartialAggregation.NONE, "what timers upstream emit may fire a pane"
        return PartialAggregation.ON_TIME, "late elements come one by one"

    def check(self, rows: pa.RecordBatch) -> None:
        super().check(rows)
        fault = fault_in(rows)
        if fault is not None:
            raise damaged_state(fault)

    # Timers

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Output[Fired]]:
        watermark, now = times
        if watermark <= before:
            return
        rules, keyed = self.rule, PaneRows.of(state.rows)
        ends = self.windows.slices.last_times(keyed.starts)
        closing = self._closing(ends)
        closes = closing <= watermark
        ended = (ends > before) & (ends <= watermark) & (keyed.phase == EARLY)
        # Time may leap over the end of a window and over its clean-up at once: the pane at its end is the last one.
        closing = np.where(ended & closes, ends, closing)
        if not ended.any() and not closes.any():
            return
        with_end = closing == ends
        if rules.at_end:
            awaited = rules.always_on_time or (rules.always_closes & (with_end | rules.finishes))
            first = ended & (keyed.fresh | awaited)
            over = (keyed.phase == FINISHED) | (ended & rules.finishes)
            second = closes & ~over & ~(ended & with_end)
        else:
            # The timer for the end looks at the clock, too.
            first = ended & ~with_end & (keyed.due <= now)
            second = closes.copy()
        fresh = keyed.fresh & ~first
        # A window that has fired no pane after its end has its pane on time then.
        second &= fresh | rules.always_closes | (rules.always_on_time & (keyed.phase == EARLY) & ~first)
        at_end = _Timers(first, ends, keyed.fresh, with_end | (rules.at_end and rules.finishes))
        fired = self._on_timers(keyed, at_end, _Timers(second, closing, fresh, closes))
        begins_anew = ended if rules.at_end else first
        if rules.at_end:
            keyed.phase = np.where(ended, np.int8(FINISHED if rules.finishes else ENDED), keyed.phase)
        else:
            keyed.phase = np.where(first, np.int8(LATE), keyed.phase)
        keyed.count = np.where(begins_anew, 0, keyed.count)
        keyed.fresh = fresh
        keyed.wait_for_none(begins_anew)
        state.rows = self._stored(keyed).filter(pa.array(~closes))
        if fired is not None:
            yield fired

    def _on_timers(self, keyed: PaneRows, *timers: _Timers) -> Fired | None:
        """Fires the panes of keyed windows by the times of their timers."""
        firing = [np.flatnonzero(each.chosen) for each in timers]
        windows = np.concatenate(firing)
        if not len(windows):
            return None
        times, fresh, are_last = (
            np.concatenate([column[rows] for rows, column in zip(firing, columns, strict=True)])
            for columns in zip(*((each.at, each.fresh, each.are_last) for each in timers), strict=True)
        )
        order = np.lexsort((keyed.number[windows], times))
        over = np.ones(len(keyed.starts), np.bool_)
        filled = fresh[order] if self.rule.discards else None
        windows = windows[order]
        # All of them come at the end of a window, or when it is cleaned up.
        at_end = np.ones(len(windows), np.bool_)
        return self._fire_panes(keyed, windows, over=over, at_end=at_end, are_last=are_last[order], filled=filled)

    def advance_clock(self, state: StateRows, times: Times) -> Iterator[Fired]:
        rules = self.rule
        keyed = PaneRows.of(state.rows)
        is_due = keyed.due <= times.now
        due = np.flatnonzero(is_due)
        fires_in_vain = (keyed.asked <= times.now) & ~is_due & (keyed.asked < keyed.due)
        if not len(due) and not fires_in_vain.any():
            return
        due = due[np.lexsort((keyed.since[due], keyed.asked[due]))]
        keyed.asked = np.where(fires_in_vain, keyed.due, keyed.asked)
        if not len(due):
            state.rows = self._stored(keyed)
            return
        over = self.windows.slices.last_times(keyed.starts) <= times.watermark
        none = np.zeros(len(due), np.bool_)
        fired = self._fire_panes(keyed, due, over=over, at_end=none, are_last=none)
        is_late = (keyed.phase == ENDED) if rules.at_end else over
        keyed.phase = np.where(is_due & is_late, np.int8(LATE), keyed.phase)
        keyed.fresh = keyed.fresh & ~is_due
        keyed.wait_for_none(is_due)
        state.rows = self._stored(keyed)
        yield fired

    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        keyed = PaneRows.of(rows)
        ends = self.windows.slices.last_times(keyed.starts)
        following = np.where((keyed.phase == EARLY) & (ends > time), ends, self._closing(ends))
        return int(following.min())

    def next_by_clock(self, rows: pa.RecordBatch) -> int:
        return int(rows.column("asked").to_numpy().min())

    def _closing(self, ends: Ints) -> Ints:
        """Returns the times at which windows are cleaned up, by their ends: at the latest, the end of the stream."""
        slices = self.windows.slices
        if slices.is_global:
            return np.full(len(ends), MAX_TIMESTAMP)
        # The lateness may be for ever: then windows that end before 1970 close at the end of the stream one by one.
        return np.minimum(ends, MAX_TIMESTAMP - slices.lateness) + slices.lateness

    # Elements

    def _prepare(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[Crossing]:
        if are_few(rows):
            yield False, rows
            return
        rows = yield from on_time_apart(self.windows.slices, rows, bound)
        if rows.num_rows:
            yield True, self.aggregated(rows, by_arrival=True)[0]

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Fired]]:
        slices, elements = self.windows.slices, arrived.elements
        if arrived.partial_rows.num_rows:
            stamps = arrived.partial_rows.column(1).to_numpy()
            check_on_time(slices.on_time(times.watermark, slices.slices_of(stamps)), times.watermark)
            partial_rows, elements = self._aggregated_in_order(arrived, times.watermark)
            self._add_partial_rows(state, partial_rows, times)
        elements = yield from self.not_late(elements, times.watermark)
        yield from self._add_elements(state, elements, times)

    def _aggregated_in_order(self, arrived: ColumnsArrived, watermark: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Merges elements on time into the partial aggregates of a batch, in order of first arrivals.

        Returns the other elements, too.
        """
        slices, (partial_rows, elements, arrival) = self.windows.slices, arrived
        partial_count = partial_rows.num_rows
        on_time = slices.on_time(watermark, slices.slices_of(elements.column(1).to_numpy()))
        if not on_time.any():
            return partial_rows, elements
        more, firsts = self.aggregated(elements.filter(pa.array(on_time)), by_arrival=True)
        order = np.argsort(np.concatenate([arrival[:partial_count], arrival[partial_count:][on_time][firsts]]))
        both = concatenated([partial_rows, more]).take(pa.array(order))
        return both, elements.filter(pa.array(~on_time))

    def _portion(self, portions: PortionTuning) -> int:
        """Returns how many elements, or partial aggregates, are added at a time."""
        return max(portions.elements, portions.pane_rows // self.windows.slices.windows_each)

    def _add_elements(self, state: StateRows, elements: pa.RecordBatch, times: Times) -> Iterator[Output[Fired]]:
        """Adds elements that are not late in portions, and fires panes in their order."""

        def states_of(runs: Groups, places: Ints | None) -> States:
            return self.kernel.partial(runs, at(inputs, places))

        portion = state.portions.large_elements if self.kernel.is_large else self._portion(state.portions)
        for start in range(0, elements.num_rows, portion):
            keys, stamps, inputs = self.inputs_of(elements.slice(start, portion))
            yield from self._add_portion(state, keys, stamps, states_of, times)

    def _add_partial_rows(self, state: StateRows, partial_rows: pa.RecordBatch, times: Times) -> None:
        """Adds partial aggregates, none of which fires a pane."""

        def states_of(runs: Groups, places: Ints | None) -> States:
            return self.kernel.merge(runs, at(states, places))

        portion = self._portion(state.portions)
        for start in range(0, partial_rows.num_rows, portion):
            keys, stamps, *states, _ = partial_rows.slice(start, portion).columns
            outputs = self._add_portion(state, keys, stamps.to_numpy(), states_of, times)
            assert next(outputs, None) is None, "elements that fire panes come one by one"

    def _add_portion(
        self, state: StateRows, keys: pa.Array, stamps: Ints, states_of: _StatesOf, times: Times
    ) -> Iterator[Output[Fired]]:
        """Adds elements, or partial aggregates, and fires panes."""
        rows, rules, slices = state.rows, self.rule, self.windows.slices
        number, since = (int(rows.column(name).to_numpy().max(initial=0)) + 1 for name in ("number", "since"))
        copied, starts = self.windows_for(stamps, times.watermark)
        rest, rows = self._untouched_apart(rows, keys, starts, times.watermark)
        stored_count = rows.num_rows
        keyed_windows = keyed_windows_of(slices, rows, at([keys], copied)[0], starts)
        keyed = PaneRows.of(rows).by_keyed_window(keyed_windows)
        arrived = Groups(keyed_windows.of_rows[stored_count:], len(keyed_windows.keys))
        is_over = slices.last_times(keyed_windows.starts) <= times.watermark
        ended = (keyed.phase == EARLY) & rules.at_end & is_over & (arrived.sizes > 0)
        work = ActiveConditions(rules, times.now, ended | (keyed.phase != EARLY))
        # Elements for a pane are counted from ``begun`` on; ``ranks`` numbers those of each keyed window in the batch.
        begun = np.where(ended | (keyed.due <= times.now), -1, keyed.count)
        ranks, kept = arrived.ranks, keyed.phase[arrived.ids] != FINISHED
        if rules.finishes:
            kept &= ~ended[arrived.ids] | (ranks == 0)
        if not kept.all():
            yield Increment(CLOSED, int((~kept).sum()))
            arrived, ranks = arrived.where(kept), ranks[kept]
            copied = np.flatnonzero(kept) if copied is None else copied[kept]
            if not len(arrived):
                return
        windows = arrived.ids
        runs = Runs(arrived, (begun[windows] + ranks + 1) % work.every[windows] == 0)
        fresh = states_of(runs.of_elements, copied)
        was_filled = keyed.fresh if rules.discards else np.ones(len(keyed.fresh), np.bool_)
        filled = np.flatnonzero(was_filled & (keyed.rows >= 0) & (arrived.sizes > 0))
        before = at(keyed.states, keyed.rows[filled])
        states = self.continued(runs, fresh, before, filled, accumulates=not rules.discards)
        firing = runs.ended
        counts = np.bincount(runs.keyed_windows[firing], minlength=arrived.count)
        fired: list[Fired] = []
        if len(firing):
            results = self.kernel.results(at(states, firing))
            windows = runs.keyed_windows[firing]
            are_last, none = (ended & rules.finishes)[windows], np.zeros(len(windows), np.bool_)
            fired.append(self._emitted(keyed, windows, results, over=is_over, at_end=none, are_last=are_last))
        self._go_on(keyed, arrived, runs, work, begun, ended, counts, since)
        if not rules.at_end:
            keyed.phase[is_over & (counts > 0)] = LATE
        keyed.in_time = keyed.in_time | (keyed.fresh & ~is_over)
        if self.windows.lateness and rules.may_close_filled:
            is_new = keyed.rows < 0
            keyed.number[is_new] = number + arrived.first_rows[is_new]
        source = keyed.rows.copy()
        source[runs.keyed_windows[runs.are_last]] = stored_count + np.flatnonzero(runs.are_last)
        newest = pa.array(source)
        keyed.states = [pa.concat_arrays(both).take(newest) for both in zip(keyed.states, states, strict=True)]
        state.rows = concatenated([rest, self._stored(keyed)])
        yield from fired

    def _untouched_apart(
        self, rows: pa.RecordBatch, keys: pa.Array, starts: Ints, watermark: int
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Splits rows into those that elements of these keys and windows leave as they are, and the others."""
        last_times = self.windows.slices.last_times
        over = last_times(starts) <= watermark
        if over.any() and not over.all():
            return no_rows(self.schema), rows
        # Keyed windows on the other side of the watermark get no elements, so they need not be laid out anew.
        others = last_times(rows.column(1).to_numpy()) <= watermark
        others ^= over[:1].any()
        if over.all() and _FEW * len(keys) < rows.num_rows and not pa.types.is_null(keys.type):
            # Nor those of other keys. Their order is not that of timers any more, which those set by the end of
            # the window no longer need: the clock and cleanups go by ``since`` and ``number``.
            others |= ~is_among(rows.column(0), keys)
        return rows.filter(pa.array(others)), rows.filter(pa.array(~others))

    def _go_on(
        self,
        keyed: PaneRows,
        arrived: Groups,
        runs: Runs,
        work: ActiveConditions,
        begun: Ints,
        ended: Mask,
        panes: Ints,
        since: int,
    ) -> None:
        """Updates what keyed windows wait for, after elements have come and some have fired panes."""
        rules = self.rule
        keyed.phase[ended] = FINISHED if rules.finishes else ENDED
        keyed.phase[(keyed.phase == ENDED) & (panes > ended)] = LATE
        last = runs.are_last
        keyed_windows, waits = runs.keyed_windows[last], ~runs.are_ended[last]
        keyed.fresh[keyed_windows] = waits
        keyed.count[keyed_windows] = np.where(
            work.counts[keyed_windows], (begun + arrived.sizes)[keyed_windows] % work.every[keyed_windows], 0
        )
        # Where the clock decides, the first element after the last pane sets the time.
        sets = waits & work.is_timed[keyed_windows] & ((panes[keyed_windows] > 0) | (keyed.due[keyed_windows] == UNSET))
        keyed.since[keyed_windows[sets]] = since + runs.first_elements[last][sets]
        keyed.due[keyed_windows[~waits]] = keyed.asked[keyed_windows[~waits]] = UNSET
        keyed.since[keyed_windows[~waits]] = 0
        timed = keyed_windows[sets]
        keyed.due[timed] = work.targets[timed]
        keyed.asked[timed] = np.where(keyed.phase[timed] == LATE, work.targets[timed], work.first_target)

    # Results

    def _fire_panes(
        self, keyed: PaneRows, windows: Ints, *, over: Mask, at_end: Mask, are_last: Mask, filled: Mask | None = None
    ) -> Fired:
        """Fires panes with the states of rows; with the state of no elements where a window is not ``filled``."""
        states, places = keyed.states, windows
        if filled is not None and not filled.all():
            states, places = self._and_empty(states), np.where(filled, windows, len(keyed.starts))
        results = self.kernel.results(at(states, places))
        return self._emitted(keyed, windows, results, over=over, at_end=at_end, are_last=are_last)

    def _stored(self, keyed: PaneRows) -> pa.RecordBatch:
        """Builds rows of state; large accumulators of finished or discarded contents are replaced by empty ones."""
        stale = keyed.phase == FINISHED
        if self.rule.discards:
            stale |= ~keyed.fresh
        if self.kernel.is_large and stale.any():
            source = pa.array(np.where(stale, len(stale), np.arange(len(stale))))
            keyed.states = [column.take(source) for column in self._and_empty(keyed.states)]
        return self.rows(keyed.columns(self.schema))

    def _and_empty(self, states: States) -> list[pa.Array]:
        """Appends the state of no elements to states."""
        nothing = [pa.array([], kind) for kind in self.kernel.state_types]
        empty = self.kernel.merge(Groups(np.zeros(0, np.int64), 1), nothing)
        return [pa.concat_arrays([column, none]) for column, none in zip(states, empty, strict=True)]

    def _emitted(
        self, keyed: PaneRows, windows: Ints, results: pa.Array, *, over: Mask, at_end: Mask, are_last: Mask
    ) -> Fired:
        """Puts the results of panes in order, each after the withdrawal of the one that it replaces, if wanted."""
        panes = keyed.fire_panes(self.rule, windows, results, over=over, at_end=at_end, are_last=are_last)
        starts = keyed.starts[panes.keyed_windows]
        keys = keyed.keys.take(pa.array(panes.keyed_windows))
        return fired_windows(self.windows.slices, keys, starts, panes.results, panes.kinds, panes.panes)
