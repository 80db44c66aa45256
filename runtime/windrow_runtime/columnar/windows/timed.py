"""Windows that fire at their end and at every interval before it, by the watermark or by the clock, over columns.

State is a row for each key and window, with the time at which it fires next, and with what the aggregate holds of its
elements. When time advances over several firings of a window, each of them has the same result::

    interval 10   window   |0---------------------------34|   first element at 7
    time                          12            31       40
    firings                     10            20 30     34

Windows of one key that fire at the same time do so in the order in which their timers were set. ``number`` holds this
order. While one advance fires several times, a timer that is set anew at a firing stands behind those set before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.rows.groups import Cells, Groups, cells_of, encode_keys
from windrow_runtime.columnar.state import concatenated
from windrow_runtime.columnar.windows.column_operator import BY_ARRIVAL, Fired, PartialAggregation, Times, waiting_in
from windrow_runtime.columnar.windows.counted import CountOperator
from windrow_runtime.columnar.windows.geometry import FARTHEST
from windrow_runtime.columnar.windows.keyed_windows import KeyedWindowOperator, cleaned, keyed_windows_of, windows_for
from windrow_runtime.columnar.windows.kinds import Counted, Timed

_FIRED_AT_ONCE: Final = 100_000
_ROWS_AT_ONCE: Final = 1 << 17


class TimedOperator(KeyedWindowOperator[Timed]):
    """Runs a step on some keys at a time. Times are those by which the windows go, of the watermark or of the clock."""

    window_columns: ClassVar[Sequence[str]] = ("start", "next", "filled", "number")

    @property
    def _is_numbered(self) -> bool:
        """Returns whether several windows of a key may fire at one time."""
        return self.windows.slices.windows_each > 1 and self.windows.interval is not None

    def describe(self) -> str:
        return "" if self.windows.interval is None else ", firings at intervals"

    def partial_aggregation(self, late: str, *, has_timers: bool) -> tuple[PartialAggregation, str]:
        slices = self.windows.slices
        if self.kernel.is_numbered:
            return BY_ARRIVAL
        if late:
            return PartialAggregation.NONE, late
        if slices.is_global and not slices.by_clock:
            return PartialAggregation.NONE, "each element fires at the end of the stream"
        if self.kernel.ordered and slices.windows_each > 1 and not slices.by_clock:
            return PartialAggregation.NONE, "the slices of a window would not keep the order of arrival"
        return PartialAggregation.ALL, ""

    def check(self, rows: pa.RecordBatch) -> None:
        super().check(rows)
        starts, following, filled = (rows.column(place).to_numpy() for place in (1, 2, 3))
        ends = self.windows.slices.last_times(starts)
        far = (starts > 2 * FARTHEST) | (starts < -2 * FARTHEST) | (following < -FARTHEST)
        if (far | (following > ends)).any():
            raise damaged_state("a window that fires next behind its end, or too far away")
        if ((filled != 0) & (filled != 1)).any():
            raise damaged_state("a window that is neither filled nor empty")

    def aggregate(self, keys: pa.Array, stamps: Ints, inputs: Sequence[pa.Array]) -> pa.RecordBatch:
        """One row for all elements of a key and a slice, before anybody has looked whether they are late.

        Windows that hold several slices have a row for each element where results depend on the order of these.
        """
        slices, encoded = self.windows.slices, encode_keys(keys)
        numbers = np.zeros(len(keys), np.int64) if slices.by_clock else slices.numbers_of(stamps)
        if self._is_numbered and self.kernel.ordered and not slices.by_clock:
            cells = Cells(Groups(np.arange(len(keys)), len(keys)), encoded.codes, numbers)
        else:
            cells = cells_of(encoded, numbers)
        # Windows come to be in the order in which their first elements come.
        return self.aggregated(encoded, cells, stamps, inputs, by_arrival=self._is_numbered)

    def advance(self, rows: pa.RecordBatch, before: int, times: Times) -> tuple[Iterable[Fired], pa.RecordBatch]:
        """What fires when time advances from one moment to another, in order of firings, and the rows that are kept.

        A clock that stands still makes windows fire that elements of the batch before have set.
        """
        windows, slices, time = self.windows, self.windows.slices, times.watermark
        if time <= before and not slices.by_clock:
            return (), rows
        starts, following, filled, numbers = (rows.column(place).to_numpy() for place in (1, 2, 3, 4))
        ends = slices.last_times(starts)
        due, ended = following <= time, ends <= time
        if not slices.by_clock:
            due &= ends > before
        behind = cleaned(slices, starts, time)
        if not due.any() and not behind.any():
            return (), rows
        fired = self._firings(rows.filter(pa.array(due & (filled > 0))), time)
        following, filled, numbers = following.copy(), filled.copy(), numbers.copy()
        interval, goes_on = windows.interval, due & ~ended
        if self._is_numbered:
            # They set their timers anew at the last firing, in its order, when all other timers were set.
            again = np.flatnonzero(goes_on)
            again = again[np.lexsort((numbers[again], -following[again]))]
            numbers[again] = numbers.max(initial=0) + 1 + np.arange(len(again))
        if interval is not None:
            passed = following[goes_on]
            passed += ((time - passed) // interval + 1) * interval
            following[goes_on] = np.minimum(passed, ends[goes_on])
        if windows.purges:
            filled[due] = 0
        kept = ~behind & ~(ended & (filled == 0))
        columns = [*rows.columns[:2], *map(pa.array, (following, filled, numbers)), *rows.columns[5:]]
        if slices.by_clock:
            columns[-1] = pa.array(np.where(due, 0, rows.column(-1).to_numpy()))
        return fired, self.rows(columns).filter(pa.array(kept))

    def count_unfired(self, rows: pa.RecordBatch) -> None:
        self.unfired += waiting_in(rows)

    def _firings(self, rows: pa.RecordBatch, time: int) -> Iterator[Fired]:
        """The firings of windows up to a time."""
        windows, slices = self.windows, self.windows.slices
        keys, starts, at = rows.column(0), rows.column(1).to_numpy(), rows.column(2).to_numpy()
        # The place of each row among those that fire at one time: the later its first firing here, the sooner.
        ranks = np.empty(len(at), np.int64)
        ranks[np.lexsort((rows.column(4).to_numpy(), -at))] = np.arange(len(at))
        ends = slices.last_times(starts)
        if slices.is_global and not slices.by_clock and time == MAX_TIMESTAMP:
            at = ends  # the stream is at its end, and no interval is left
        results = self.kernel.results(rows.columns[5:])
        # Windows that purge have something to show at the first firing alone.
        interval = 0 if windows.purges else windows.interval or 0
        while len(at):
            until = min(time, int(at.min()) + max(1, _FIRED_AT_ONCE // len(at)) * interval) if interval else time
            ended, counts = ends <= until, (at <= until).astype(np.int64)
            if interval:
                # The last firing is at the end of the window, however near that is to the one before.
                counts *= np.where(ended, -(-(ends - at) // interval), (until - at) // interval) + 1
            places = np.repeat(np.arange(len(at)), counts)
            steps = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
            chosen = places[np.lexsort((ranks[places], np.minimum(at[places] + steps * interval, ends[places])))]
            taken, own = pa.array(chosen), starts[chosen]
            yield Fired(keys.take(taken), own, own + slices.size, slices.last_times(own), results.take(taken))
            if until == time:
                return
            goes_on = ~ended
            at, ends = np.minimum(at + counts * interval, ends)[goes_on], ends[goes_on]
            left = pa.array(goes_on)
            keys, starts, ranks, results = keys.filter(left), starts[goes_on], ranks[goes_on], results.filter(left)

    def each(
        self, rows: pa.RecordBatch, keys: pa.Array, stamps: Ints, inputs: Sequence[pa.Array], time: int
    ) -> Iterator[tuple[Fired | None, pa.RecordBatch]]:
        """Takes elements of windows that have ended, each of which fires: yields what fires, and the rows then."""
        ended = self.windows.slices.last_times(rows.column(1).to_numpy()) <= time
        others, held = rows.filter(pa.array(~ended)), rows.filter(pa.array(ended))
        counted = Counted(self.windows.slices, 1, 1 if self.windows.purges else None)
        operator = CountOperator(counted, self.kernel, self.key_type)
        ones = pa.array(np.ones(held.num_rows, np.int64))
        known = operator.rows([*held.columns[:2], ones, *held.columns[5:]])
        for fired, left in operator.add(known, keys, stamps, inputs, time):
            ends = self.windows.slices.last_times(left.column(1).to_numpy())
            filled = [ends, np.ones(len(ends), np.int64), np.zeros(len(ends), np.int64)]
            columns = [*left.columns[:2], *map(pa.array, filled), *left.columns[3:]]
            yield fired, concatenated([others, self.rows(columns)])

    def add(self, rows: pa.RecordBatch, partial_rows: pa.RecordBatch, time: int) -> pa.RecordBatch:
        """The rows with partial aggregates, of windows that have not ended."""
        most = max(1, _ROWS_AT_ONCE // self.windows.slices.windows_each)
        for start in range(0, partial_rows.num_rows, most):
            rows = self._add_some(rows, partial_rows.slice(start, most), time)
        return rows

    def _add_some(self, rows: pa.RecordBatch, partial_rows: pa.RecordBatch, time: int) -> pa.RecordBatch:
        """Adds some partial aggregates; each has a row for every window that it is in."""
        windows, slices, known = self.windows, self.windows.slices, rows.num_rows
        keys, stamps, *states = partial_rows.columns[:-1]
        places, starts = windows_for(slices, stamps.to_numpy(), time)
        if slices.windows_each > 1:
            taken = pa.array(places)
            keys, stamps, states = keys.take(taken), stamps.take(taken), [column.take(taken) for column in states]
        keyed_windows = keyed_windows_of(slices, rows, keys, starts)
        count = len(keyed_windows.keys)
        was_filled = np.concatenate([rows.column(3).to_numpy() > 0, np.ones(len(starts), np.bool_)])
        groups = Groups(keyed_windows.of_rows, count)
        has_new = groups.where(np.arange(known, len(was_filled))).sizes > 0
        both = [pa.concat_arrays([old, new]) for old, new in zip(rows.columns[5:], states, strict=True)]
        # What a purge has dropped is left out; where nothing has come since, it is kept and means nothing.
        counts = was_filled | ~has_new[keyed_windows.of_rows]
        if not counts.all():
            both = [column.filter(pa.array(counts)) for column in both]
        merged = self.kernel.merge(groups.where(counts), both)
        first = groups.first_rows
        ends = slices.last_times(keyed_windows.starts)
        following = ends.copy()
        is_held = first < known
        following[is_held] = rows.column(2).to_numpy()[first[is_held]]
        if windows.interval is not None:
            begun = np.full(len(stamps), time) if slices.by_clock else stamps.to_numpy()
            at = begun[first[~is_held] - known]
            following[~is_held] = np.minimum(at - at % windows.interval + windows.interval, ends[~is_held])
        filled = (was_filled[first] | has_new).astype(np.int64)
        numbers = np.zeros(count, np.int64)
        if self._is_numbered:
            held = rows.column(4).to_numpy()
            numbers = held.max(initial=0) + 1 + first - known
            numbers[is_held] = held[first[is_held]]
        columns = [pa.array(column) for column in (keyed_windows.starts, following, filled, numbers)]
        return self.rows([keyed_windows.keys, *columns, *merged])

    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        """The time at which the first window fires or is cleaned up next; the end of time if that is never."""
        windows, slices = self.windows, self.windows.slices
        ends = slices.last_times(rows.column(1).to_numpy())
        following = rows.column(2).to_numpy()
        if slices.by_clock or slices.is_global:
            return int(following.min())
        gone_at = np.full(len(ends), MAX_TIMESTAMP) if windows.lateness >= FARTHEST else ends + windows.lateness
        return int(np.where(ends > time, following, gone_at).min())
