"""Windows that fire panes early, on time and late, over columns.

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

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow.triggers.composable import AfterCount, AfterProcessingTime
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.rows.groups import Groups, cells_of, encode_keys, is_among
from windrow_runtime.columnar.state import concatenated, no_rows
from windrow_runtime.columnar.windows.column_operator import BY_ARRIVAL, Fired, PartialAggregation, Times
from windrow_runtime.columnar.windows.keyed_windows import KeyedWindowOperator, keyed_windows_of, windows_for
from windrow_runtime.columnar.windows.pane_rows import (
    EARLY,
    ENDED,
    FINISHED,
    LATE,
    UNSET,
    WINDOW_COLUMNS,
    PaneRows,
    fault_in,
    pane_fields,
)
from windrow_runtime.columnar.windows.pane_rules import Condition, Paned

_T = TypeVar("_T", np.bool_, np.int8, np.int64)
_States: TypeAlias = Sequence[pa.Array]
_StatesOf: TypeAlias = Callable[[Groups, Ints | None], _States]
"""Gives the states of runs, from the run of each row, and the places of rows among those that came; None: all."""

_FAR: Final = 1 << 62
"""No keyed window gets this many elements."""

_FEW: Final = 4
"""Elements are few among rows of state that are more than this many times as many."""

_LEAST_AT_ONCE: Final = 4_096
_LARGE_AT_ONCE: Final = 1_024  # where a pane copies a state of many values
_ROWS_AT_ONCE: Final = 1 << 18


class _Timers(NamedTuple):
    """The timers of one kind, of all keyed_windows."""

    chosen: Mask  # marks those that fire a pane
    at: Ints
    fresh: Mask  # whether elements have come since the last pane
    are_last: Mask  # whether no pane follows


class PanedOperator(KeyedWindowOperator[Paned]):
    """Runs a step on some keys at a time."""

    window_columns: ClassVar[Sequence[str]] = WINDOW_COLUMNS

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(pane_fields(self.windows, list(super().schema), self.kernel.result_type))

    def describe(self) -> str:
        return ", panes"

    def partial_aggregation(self, late: str, *, has_timers: bool) -> tuple[PartialAggregation, str]:
        windows = self.windows
        if windows.elements_let_panes_out:
            return PartialAggregation.NONE, "each element may fire a pane"
        if self.needs_arrival:
            return BY_ARRIVAL
        if windows.lateness and windows.slices.windows_each > 1:
            return PartialAggregation.NONE, "elements may be late for some of their windows, and on time for others"
        if windows.may_close_filled:
            # Folded elements are added before late ones, so windows would be numbered in another order.
            return PartialAggregation.NONE, "closing panes come in the order in which windows began"
        if windows.early is not None and has_timers:
            # What timers in front emit comes before the clock fires panes, and the first element of a window that
            # is due does so by itself.
            return PartialAggregation.NONE, "what timers in front emit may fire a pane"
        return PartialAggregation.ON_TIME, "late elements come one by one"

    def check(self, rows: pa.RecordBatch) -> None:
        super().check(rows)
        fault = fault_in(rows)
        if fault is not None:
            raise damaged_state(fault)

    # Timers

    def advance(self, rows: pa.RecordBatch, before: int, times: Times) -> tuple[Iterable[Fired], pa.RecordBatch]:
        """The panes that the watermark fires where it advances, in order, and the rows that are kept."""
        watermark, now = times
        if watermark <= before:
            return (), rows
        rules, held = self.windows, PaneRows.of(rows, self.windows)
        ends = rules.slices.last_times(held.starts)
        closing = self._closing(ends)
        closes = closing <= watermark
        ended = (ends > before) & (ends <= watermark) & (held.phases == EARLY)
        # Time may leap over the end of a window and over its clean-up at once: the pane at its end is the last one.
        closing = np.where(ended & closes, ends, closing)
        if not ended.any() and not closes.any():
            return (), rows
        with_end = closing == ends
        if rules.at_end:
            awaited = rules.always_on_time or (rules.always_closes & (with_end | rules.finishes))
            first = ended & (held.fresh | awaited)
            over = (held.phases == FINISHED) | (ended & rules.finishes)
            second = closes & ~over & ~(ended & with_end)
        else:
            # The timer for the end looks at the clock, too.
            first = ended & ~with_end & (held.due <= now)
            second = closes.copy()
        fresh = held.fresh & ~first
        # A window that has fired no pane behind its end has its pane on time then.
        second &= fresh | rules.always_closes | (rules.always_on_time & (held.phases == EARLY) & ~first)
        at_end = _Timers(first, ends, held.fresh, with_end | (rules.at_end and rules.finishes))
        fired = self._on_timers(held, at_end, _Timers(second, closing, fresh, closes))
        begins_anew = ended if rules.at_end else first
        if rules.at_end:
            held.phases = np.where(ended, np.int8(FINISHED if rules.finishes else ENDED), held.phases)
        else:
            held.phases = np.where(first, np.int8(LATE), held.phases)
        held.counts = np.where(begins_anew, 0, held.counts)
        held.fresh = fresh
        held.wait_for_none(begins_anew)
        return () if fired is None else (fired,), self._stored(held).filter(pa.array(~closes))

    def _on_timers(self, held: PaneRows, *timers: _Timers) -> Fired | None:
        """The panes of keyed windows by the times of their timers."""
        found = [np.flatnonzero(each.chosen) for each in timers]
        own = np.concatenate(found)
        if not len(own):
            return None
        times, fresh, are_last = (
            np.concatenate([column[rows] for rows, column in zip(found, columns, strict=True)])
            for columns in zip(*((each.at, each.fresh, each.are_last) for each in timers), strict=True)
        )
        order = np.lexsort((held.numbers[own], times))
        over = np.ones(len(held.starts), np.bool_)
        filled = fresh[order] if self.windows.discards else None
        own = own[order]
        # All of them come at the end of a window, or when it is cleaned up.
        at_end = np.ones(len(own), np.bool_)
        return self._fire_panes(held, own, over=over, at_end=at_end, are_last=are_last[order], filled=filled)

    def advance_clock(self, rows: pa.RecordBatch, times: Times) -> tuple[Iterable[Fired], pa.RecordBatch]:
        """The panes that the clock fires up to now, in order, and the rows of state then."""
        rules = self.windows
        held = PaneRows.of(rows, rules)
        is_due = held.due <= times.now
        due = np.flatnonzero(is_due)
        fires_in_vain = (held.asked <= times.now) & ~is_due & (held.asked < held.due)
        if not len(due) and not fires_in_vain.any():
            return (), rows
        due = due[np.lexsort((held.since[due], held.asked[due]))]
        held.asked = np.where(fires_in_vain, held.due, held.asked)
        if not len(due):
            return (), self._stored(held)
        over = self.windows.slices.last_times(held.starts) <= times.watermark
        none = np.zeros(len(due), np.bool_)
        fired = self._fire_panes(held, due, over=over, at_end=none, are_last=none)
        is_behind = (held.phases == ENDED) if rules.at_end else over
        held.phases = np.where(is_due & is_behind, np.int8(LATE), held.phases)
        held.fresh = held.fresh & ~is_due
        held.wait_for_none(is_due)
        return (fired,), self._stored(held)

    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        held = PaneRows.of(rows, self.windows)
        ends = self.windows.slices.last_times(held.starts)
        following = np.where((held.phases == EARLY) & (ends > time), ends, self._closing(ends))
        return int(following.min())

    def next_by_clock(self, rows: pa.RecordBatch) -> int:
        return int(rows.column("asked").to_numpy().min())

    def _closing(self, ends: Ints) -> Ints:
        """The times at which windows are cleaned up, by their last timestamps: at the latest, the end of the stream."""
        slices = self.windows.slices
        if slices.is_global:
            return np.full(len(ends), MAX_TIMESTAMP)
        # The lateness may be for ever: then windows that end before 1970 close at the end of the stream one by one.
        return np.minimum(ends, MAX_TIMESTAMP - slices.lateness) + slices.lateness

    # Elements

    def aggregate(self, keys: pa.Array, stamps: Ints, inputs: _States) -> tuple[pa.RecordBatch, Ints]:
        """One row for all elements of a key and a slice, in the order of the first ones, and the places of these."""
        encoded = encode_keys(keys)
        cells = cells_of(encoded, self.windows.slices.numbers_of(stamps))
        partial_rows = self.aggregated(encoded, cells, stamps, inputs, by_arrival=True)
        return partial_rows, np.sort(cells.groups.first_rows)

    def add(
        self,
        rows: pa.RecordBatch,
        keys: pa.Array,
        stamps: Ints,
        inputs: _States,
        times: Times,
        dropped: Callable[[int], None],
    ) -> Iterator[tuple[Fired | None, pa.RecordBatch]]:
        """Takes elements that are not late, some at a time: yields the panes, in order, and the rows of state then.

        ``dropped`` is called with the number of those that come to windows that have finished.
        """

        def states_of(runs: Groups, taken: Ints | None) -> _States:
            return self.kernel.partial(runs, _taken(some, taken))

        at_once = max(_LEAST_AT_ONCE, _ROWS_AT_ONCE // self.windows.slices.windows_each)
        if self.kernel.is_large:
            at_once = _LARGE_AT_ONCE
        for start in range(0, len(keys), at_once):
            part = slice(start, start + at_once)
            some = [column[part] for column in inputs]
            fired, rows = self._add(rows, keys[part], stamps[part], states_of, times, dropped)
            yield fired, rows

    def add_partial_rows(self, rows: pa.RecordBatch, partial_rows: pa.RecordBatch, times: Times) -> pa.RecordBatch:
        """The rows with partial aggregates, none of which fires a pane."""

        def states_of(runs: Groups, taken: Ints | None) -> _States:
            return self.kernel.merge(runs, _taken(some.columns[2:-1], taken))

        at_once = max(_LEAST_AT_ONCE, _ROWS_AT_ONCE // self.windows.slices.windows_each)
        for start in range(0, partial_rows.num_rows, at_once):
            some = partial_rows.slice(start, at_once)
            stamps = some.column(1).to_numpy()
            fired, rows = self._add(rows, some.column(0), stamps, states_of, times, lambda count: None)
            assert fired is None, "elements that fire panes come one by one"
        return rows

    def _add(
        self,
        rows: pa.RecordBatch,
        keys: pa.Array,
        stamps: Ints,
        states_of: _StatesOf,
        times: Times,
        dropped: Callable[[int], None],
    ) -> tuple[Fired | None, pa.RecordBatch]:
        rules = self.windows
        number, since = (int(rows.column(name).to_numpy().max(initial=0)) + 1 for name in ("number", "since"))
        places, starts = windows_for(rules.slices, stamps, times.watermark)
        rest, rows = self._set_aside(rows, keys, starts, times.watermark)
        known = rows.num_rows
        # A window each, and the elements are in order.
        taken = None if len(places) == len(keys) and rules.slices.windows_each == 1 else places
        keyed_windows = keyed_windows_of(rules.slices, rows, _taken([keys], taken)[0], starts)
        held = PaneRows.of(rows, rules).by_keyed_window(keyed_windows)
        arrived = Groups(keyed_windows.of_rows[known:], len(keyed_windows.keys))
        is_over = rules.slices.last_times(keyed_windows.starts) <= times.watermark
        ended = (held.phases == EARLY) & rules.at_end & is_over & (arrived.sizes > 0)
        work = _ActiveConditions(rules, times.now, ended | (held.phases != EARLY))
        # The place of each element among those for which its keyed window fires panes.
        begun = np.where(ended | (held.due <= times.now), -1, held.counts)
        ranks = np.empty(len(arrived), np.int64)
        ranks[arrived.order] = np.arange(len(arrived)) - arrived.starts[arrived.ids[arrived.order]]
        kept = held.phases[arrived.ids] != FINISHED
        if rules.finishes:
            kept &= ~ended[arrived.ids] | (ranks == 0)
        if not kept.all():
            dropped(int((~kept).sum()))
            arrived, ranks, taken = arrived.where(kept), ranks[kept], places[kept]
            if not len(arrived):
                return None, concatenated([rest, rows])
        own = arrived.ids
        runs = _Runs(arrived, (begun[own] + ranks + 1) % work.every[own] == 0)
        fresh = states_of(Groups(runs.of_elements, len(runs.keyed_windows)), taken)
        was_filled = held.fresh if rules.discards else np.ones(len(held.fresh), np.bool_)
        states, places = self._running(
            held, runs, fresh, np.flatnonzero(was_filled & (held.rows >= 0) & (arrived.sizes > 0))
        )
        firing = np.flatnonzero(runs.fires)
        firing = firing[np.argsort(runs.last_elements[firing])]
        fired = None
        counts = np.bincount(runs.keyed_windows[firing], minlength=arrived.count)
        if len(firing):
            results = self.kernel.results([column.take(pa.array(places[firing])) for column in states])
            own = runs.keyed_windows[firing]
            are_last, none = (ended & rules.finishes)[own], np.zeros(len(own), np.bool_)
            fired = self._emitted(held, own, results, over=is_over, at_end=none, are_last=are_last)
        self._go_on(held, arrived, runs, work, begun, ended, counts, since)
        if not rules.at_end:
            held.phases[is_over & (counts > 0)] = LATE
        held.in_time = held.in_time | (held.fresh & ~is_over)
        if rules.may_close_filled:
            is_new = held.rows < 0
            held.numbers[is_new] = number + arrived.first_rows[is_new]
        source = held.rows.copy()
        source[runs.keyed_windows[runs.are_last]] = known + places[runs.are_last]
        newest = pa.array(source)
        held.states = [pa.concat_arrays([old, new]).take(newest) for old, new in zip(held.states, states, strict=True)]
        return fired, concatenated([rest, self._stored(held)])

    def _set_aside(
        self, rows: pa.RecordBatch, keys: pa.Array, starts: Ints, watermark: int
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that elements of some keys, for windows with these starts, leave as they are; and the others."""
        last_times = self.windows.slices.last_times
        over = last_times(starts) <= watermark
        if over.any() and not over.all():
            return no_rows(self.schema), rows
        # KeyedWindows on the other side of the watermark get no elements, so they need not be laid out anew.
        others = last_times(rows.column(1).to_numpy()) <= watermark
        others ^= over[:1].any()
        if over.all() and _FEW * len(keys) < rows.num_rows and not pa.types.is_null(keys.type):
            # Nor those of other keys. Their order is not that of timers any more, which those set by the end of
            # the window no longer need: the clock and cleanups go by ``since`` and ``number``.
            others |= ~is_among(rows.column(0), keys)
        return rows.filter(pa.array(others)), rows.filter(pa.array(~others))

    def _running(self, held: PaneRows, runs: _Runs, fresh: _States, filled: Ints) -> tuple[_States, Ints]:
        """The states of runs with what they go on from, and their places; ``filled`` keyed windows hold something."""
        keyed_windows = Groups(np.concatenate([filled, runs.keyed_windows]), len(held.starts))
        # What a keyed window holds comes before its runs.
        order = keyed_windows.order
        before = pa.array(held.rows[filled])
        both = [
            pa.concat_arrays([old.take(before), new]).take(pa.array(order))
            for old, new in zip(held.states, fresh, strict=True)
        ]
        if self.windows.discards:
            firsts = np.arange(len(order))
            behind = np.flatnonzero(order < len(filled)) + 1
            firsts[behind] -= 1
        else:
            firsts = keyed_windows.starts[keyed_windows.ids[order]]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return self.kernel.running(both, firsts), places[len(filled) :]

    def _go_on(
        self,
        held: PaneRows,
        arrived: Groups,
        runs: _Runs,
        work: _ActiveConditions,
        begun: Ints,
        ended: Mask,
        panes: Ints,
        since: int,
    ) -> None:
        """Changes what keyed windows wait for, after elements have come, and some panes."""
        rules = self.windows
        held.phases[ended] = FINISHED if rules.finishes else ENDED
        held.phases[(held.phases == ENDED) & (panes > ended)] = LATE
        last = runs.are_last
        keyed_windows, waits = runs.keyed_windows[last], ~runs.fires[last]
        held.fresh[keyed_windows] = waits
        held.counts[keyed_windows] = np.where(
            work.counts[keyed_windows], (begun + arrived.sizes)[keyed_windows] % work.every[keyed_windows], 0
        )
        # Where the clock decides, the first element behind the last pane sets the time.
        sets = waits & work.is_timed[keyed_windows] & ((panes[keyed_windows] > 0) | (held.due[keyed_windows] == UNSET))
        held.since[keyed_windows[sets]] = since + runs.first_elements[last][sets]
        held.due[keyed_windows[~waits]] = held.asked[keyed_windows[~waits]] = UNSET
        held.since[keyed_windows[~waits]] = 0
        timed = keyed_windows[sets]
        held.due[timed] = work.targets[timed]
        held.asked[timed] = np.where(held.phases[timed] == LATE, work.targets[timed], work.first_target)

    # Results

    def _fire_panes(
        self, held: PaneRows, own: Ints, *, over: Mask, at_end: Mask, are_last: Mask, filled: Mask | None = None
    ) -> Fired:
        """The panes of rows of state; where these are not filled, of windows with nothing in them."""
        states, places = held.states, own
        if filled is not None and not filled.all():
            states, places = self._and_empty(states), np.where(filled, own, len(held.starts))
        taken = pa.array(places)
        results = self.kernel.results([column.take(taken) for column in states])
        return self._emitted(held, own, results, over=over, at_end=at_end, are_last=are_last)

    def _stored(self, held: PaneRows) -> pa.RecordBatch:
        """Rows of state; of a keyed window that goes on from nothing they keep nothing that needs room."""
        stale = held.phases == FINISHED
        if self.windows.discards:
            stale |= ~held.fresh
        if self.kernel.is_large and stale.any():
            source = pa.array(np.where(stale, len(stale), np.arange(len(stale))))
            held.states = [column.take(source) for column in self._and_empty(held.states)]
        return self.rows(held.columns(self.windows))

    def _and_empty(self, states: _States) -> list[pa.Array]:
        """The states, and behind them that of no elements."""
        nothing = [pa.array([], kind) for kind in self.kernel.state_types]
        empty = self.kernel.merge(Groups(np.zeros(0, np.int64), 1), nothing)
        return [pa.concat_arrays([column, none]) for column, none in zip(states, empty, strict=True)]

    def _emitted(
        self, held: PaneRows, own: Ints, results: pa.Array, *, over: Mask, at_end: Mask, are_last: Mask
    ) -> Fired:
        """The results of panes in order, each behind the withdrawal of the one that it replaces, if that is wanted."""
        slices = self.windows.slices
        found = held.fire_panes(self.windows, own, results, over=over, at_end=at_end, are_last=are_last)
        starts = held.starts[found.keyed_windows]
        keys = held.keys.take(pa.array(found.keyed_windows))
        ends, stamps = starts + slices.size, slices.last_times(starts)
        return Fired(keys, starts, ends, stamps, found.results, found.kinds, found.panes)


def _taken(columns: _States, places: Ints | None) -> _States:
    """Columns at some places; None: at all of them, in order."""
    return columns if places is None else [column.take(pa.array(places)) for column in columns]


class _Runs:
    """The runs into which the elements of keyed windows are cut, in order of keyed windows."""

    def __init__(self, arrived: Groups, fires: Mask) -> None:
        """Takes the elements by keyed window, and marks of those that fire a pane."""
        order = arrived.order
        keyed_windows, closing = arrived.ids[order], fires[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = closing[:-1] | (keyed_windows[1:] != keyed_windows[:-1])
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(order)) - 1
        self.of_elements = np.empty(len(order), np.int64)
        self.of_elements[order] = np.cumsum(begins) - 1
        self.keyed_windows = keyed_windows[firsts]
        self.first_elements, self.last_elements = order[firsts], order[lasts]
        self.fires = closing[lasts]
        self.are_last = np.append(self.keyed_windows[1:] != self.keyed_windows[:-1], True)  # of their keyed windows


class _ActiveConditions:
    """What keyed windows wait for: the early condition or the late one."""

    def __init__(self, rules: Paned, now: int, late: Mask) -> None:
        def chosen(number: Callable[[Condition | None], int]) -> Ints:
            """A number for each keyed window, by its condition."""
            return np.where(late & rules.at_end, number(rules.late), number(rules.early))

        def every(condition: Condition | None) -> int:
            """The number of elements for a pane."""
            if isinstance(condition, AfterCount):
                return condition.count
            return 1 if target(condition) <= now else _FAR

        def target(condition: Condition | None) -> int:
            return condition.target_of(now) if isinstance(condition, AfterProcessingTime) else UNSET

        self.every = chosen(every)
        self.targets = chosen(target)
        self.counts = chosen(lambda condition: isinstance(condition, AfterCount)) > 0
        self.is_timed = chosen(lambda condition: isinstance(condition, AfterProcessingTime)) > 0
        # Until the first late pane both conditions have observed the same elements, so the earlier target has a timer;
        # from then on the late one alone begins anew.
        self.first_target = min(target(rules.early), target(rules.late))
