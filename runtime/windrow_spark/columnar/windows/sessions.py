"""Runs sessions over columns.

State is a row for each session that is open: key, start, end, and what the aggregate holds of its elements. With
allowed lateness, sessions stay when they have fired. State does not say which have: those whose last timestamp is at
most the watermark of the batch that left it.

Elements of one key and task of which each is at most a gap after the one before become one row with the start and the
end of their session, if they are on time for certain. None of them is late, so this row stands for them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows.spec import FARTHEST, UNFIRED
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups, Keys, encode_keys
from windrow_spark.columnar.step_operator import (
    ColumnsArrived,
    Increment,
    Output,
    StateRows,
    Times,
    check_on_time,
    late_apart,
    python_results,
)
from windrow_spark.columnar.windows.column_operator import (
    BY_ARRIVAL,
    WORTH_IT,
    Crossing,
    Fired,
    KeptWindows,
    KeyedRowsOperator,
    PartialAggregation,
    waiting_in,
)
from windrow_spark.columnar.windows.geometry import expired
from windrow_spark.columnar.windows.late import fire_late_sessions
from windrow_spark.columnar.windows.session_places import Placed, TimeLine, by_key_and_start, by_owner, place
from windrow_spark.columnar.windows.step_windows import Sessions


class TaskSessions(NamedTuple):
    """Sessions of one task's elements alone, before those of other tasks are merged in."""

    groups: Groups  # the session of each element
    codes: Ints  # the key of each session, by its number
    starts: Ints
    ends: Ints


def sessions_in_task(keys: Keys, stamps: Ints, gap: int) -> TaskSessions:
    """Finds the sessions of one task's elements alone; timestamps and the gap are in milliseconds."""
    order = by_key_and_start(keys, stamps)
    codes, sorted_stamps = keys.codes[order], stamps[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (np.diff(sorted_stamps) > gap)
    owners = np.empty(len(order), np.int64)
    owners[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1 if len(first) else first
    return TaskSessions(Groups(owners, len(first)), codes[first], sorted_stamps[first], sorted_stamps[last] + gap)


def may_be_behind(keys: Keys, stamps: Ints, gap: int, bound: int) -> Mask:
    """Marks all elements of each key that has one which may be late under a watermark that is not above a bound."""
    # Clipped, since a sum may not leave 64 bits: elements that are so far away are not aggregated.
    behind = np.clip(stamps, -FARTHEST, FARTHEST) + (gap - 1) <= bound
    has_any = np.zeros(len(keys.distinct), np.bool_)
    has_any[keys.codes[behind]] = True
    return has_any[keys.codes]


class SessionOperator(KeyedRowsOperator[Sessions]):
    """Runs sessions, on some keys at a time."""

    window_columns: ClassVar[Sequence[str]] = ("start", "end")

    @property
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        if self.needs_arrival:
            return BY_ARRIVAL
        if self.windows.lateness:
            return PartialAggregation.NONE, self.why_late_cross
        if self.windows.by_clock:
            return PartialAggregation.NONE, "elements of sessions in processing time have no timestamps"
        return PartialAggregation.ON_TIME, self.why_late_cross

    def _prepare(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[Crossing]:
        # All elements of a key cross one by one if one of them may be behind the bound.
        assert bound is not None, "sessions are aggregated where a bound is known"
        keys = encode_keys(rows.column(0))
        stay = may_be_behind(keys, rows.column(1).to_numpy(), self.windows.gap, bound)
        if stay.any():
            yield False, rows.filter(pa.array(stay))
            rows = rows.filter(pa.array(~stay))
            keys = encode_keys(rows.column(0))
        _, stamps, inputs = self.inputs_of(rows)
        sessions = sessions_in_task(keys, stamps, self.windows.gap)
        if rows.num_rows < WORTH_IT * sessions.groups.count:
            yield False, rows
        elif rows.num_rows:
            yield True, self._aggregated(keys, sessions, inputs)

    def _aggregated(self, keys: Keys, sessions: TaskSessions, inputs: Sequence[pa.Array]) -> pa.RecordBatch:
        """Makes one row of the elements of each session of a task."""
        states = self.kernel.partial(sessions.groups, inputs)
        facts = map(pa.array, (sessions.starts, sessions.ends))
        columns = [keys.distinct.take(pa.array(sessions.codes)), *facts, *states, pa.array(sessions.groups.sizes)]
        return pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Output[Fired]]:
        rows, watermark = state.rows, times.watermark
        last = rows.column(2).to_numpy() - 1
        # By the clock, a session may begin at the last millisecond that has come.
        due = (last <= watermark) & (self.windows.by_clock | (last > before))
        cleaned = expired(last, self.windows.lateness, watermark)
        if cleaned.any():
            state.rows = rows.filter(pa.array(~cleaned))
        if due.any():
            firing = np.flatnonzero(due)
            firing = firing[np.argsort(last[firing], kind="stable")]
            keys, starts, ends, *states = rows.take(pa.array(firing)).columns
            yield Fired(keys, starts.to_numpy(), ends.to_numpy(), last[firing], self.kernel.results(states))

    def kept_windows(self, rows: pa.RecordBatch, watermark: int) -> Iterator[KeptWindows]:
        if self.windows.by_clock:
            raise DeclinedError("it keeps sessions of processing time in columns")
        is_kept = ~expired(rows.column(2).to_numpy() - 1, self.windows.lateness, watermark)
        keys, starts, ends, *states = rows.filter(pa.array(is_kept)).columns
        yield KeptWindows(keys, starts.to_numpy(), ends.to_numpy(), states)

    def end_stream(self, state: StateRows) -> Iterable[Increment]:
        return (Increment(UNFIRED, waiting_in(state.rows)),)

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Output[Fired]]:
        watermark, partial_rows = times.watermark, arrived.partial_rows
        if partial_rows.num_rows:
            # If any element of a session is late, its first one is.
            check_on_time(partial_rows.column(1).to_numpy() + (self.windows.gap - 1) > watermark, watermark)
        placed = place(self.windows, state.rows, arrived, watermark)
        _, _, inputs = self.inputs_of(arrived.elements)
        yield from late_apart(arrived.elements, ~placed.kept[placed.single :], watermark)
        if self.traits.row_aggregate is not None:
            results = fire_late_sessions(self.traits.row_aggregate, state.rows, placed, inputs, watermark)
            yield from python_results(results)
        state.rows = self._with_elements(state.rows, partial_rows, placed, inputs)

    def _with_elements(
        self, rows: pa.RecordBatch, partial_rows: pa.RecordBatch, placed: Placed, inputs: Sequence[pa.Array]
    ) -> pa.RecordBatch:
        """Adds the elements that are not late; returns one row for each session."""
        single, kept = placed.single, placed.kept
        count, ids = _renumbered(placed.owners[kept])
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.full(count, MIN_TIMESTAMP)
        np.minimum.at(first, ids, placed.starts[kept])
        np.maximum.at(last, ids, placed.ends[kept])
        codes = np.zeros(count, np.int64)
        codes[ids] = placed.keys.codes[kept]
        if not kept[single:].all():
            inputs = [column.filter(pa.array(kept[single:])) for column in inputs]
        stored = rows.columns[3:]
        if partial_rows.num_rows:
            stored = [pa.concat_arrays(both) for both in zip(stored, partial_rows.columns[3:-1], strict=True)]
        if self.kernel.ordered:
            states = self._in_order(stored, placed, ids, count, inputs)
        else:
            fresh_count, fresh_ids = _renumbered(ids[single:])
            fresh = np.empty(fresh_count, np.int64)
            fresh[fresh_ids] = ids[single:]
            states = self.kernel.partial(Groups(fresh_ids, fresh_count), inputs)
            if single:
                states = self._merged(stored, states, np.concatenate([ids[:single], fresh]), count)
        keys = placed.keys.distinct.take(pa.array(codes))
        sessions = self.rows([keys, pa.array(first), pa.array(last), *states])
        if not self.kernel.ordered:
            return sessions
        # Sessions of a key stand in the order in which they were born, by which they merge.
        born = np.full(count, len(kept))
        np.minimum.at(born, ids, np.flatnonzero(kept))
        return sessions.take(pa.array(np.argsort(born)))

    def _merged(
        self, stored: Sequence[pa.Array], fresh: Sequence[pa.Array], owners: Ints, count: int, order: Ints | None = None
    ) -> list[pa.Array]:
        """Merges stored states and new ones by their sessions, in order of rows or in another ``order``."""
        both = [pa.concat_arrays([old, new]) for old, new in zip(stored, fresh, strict=True)]
        if order is not None:
            both = [column.take(pa.array(order)) for column in both]
        return self.kernel.merge(Groups(owners, count), both)

    def _in_order(
        self, stored: Sequence[pa.Array], placed: Placed, ids: Ints, count: int, inputs: Sequence[pa.Array]
    ) -> list[pa.Array]:
        """Merges the parts of sessions in the general operator's order; ``ids`` are the sessions of rows that are kept.

        What a session has had from its birth on comes before what it takes, and where sessions meet, the one that was
        born first comes before the other::

            gap 10, elements in order of arrival   0  30  5  8  38  15  20
            sessions                               0  5  8  15 | 30  38
            the last one joins both                0  5  8  15   30  38   20
        """
        stored_count = placed.known
        ranks = _ranks(ids, placed.starts[placed.kept], placed.ends[placed.kept])
        order = np.lexsort((ranks, ids))
        is_stored = order < stored_count
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (np.diff(ids[order]) != 0) | is_stored[1:] | is_stored[:-1]
        runs = begins & ~is_stored
        elements = order[~is_stored]
        of_elements = (np.cumsum(runs) - 1)[~is_stored]
        columns = [column.take(pa.array(elements - stored_count)) for column in inputs]
        states = self.kernel.partial(Groups(of_elements, int(runs.sum())), columns)
        if not stored_count:
            # Each session has one run.
            return states
        # The indices of stored sessions and of runs among the states of both.
        sources = np.where(is_stored, order, stored_count + np.cumsum(runs) - 1)[begins]
        return self._merged(stored, states, ids[order][begins], count, sources)

    def next_time(self, watermark: int, rows: pa.RecordBatch) -> int:
        last, lateness = rows.column(2).to_numpy() - 1, self.windows.lateness
        if self.windows.by_clock:
            return int(last.min())
        moments = np.concatenate([last, last + (0 if lateness >= FARTHEST else lateness)])
        return int(moments.min(where=moments > watermark, initial=MAX_TIMESTAMP))


def _ranks(owners: Ints, starts: Ints, ends: Ints) -> Ints:
    """Ranks the rows of each session in the order of its contents; stored sessions come before elements."""
    ranks = np.arange(len(owners))
    if not len(owners):
        return ranks
    # Where all rows meet the first one, the contents are in order of arrival.
    firsts = Groups(owners, int(owners.max()) + 1).first_rows[owners]
    apart = (starts > ends[firsts]) | (starts[firsts] > ends)
    merging = np.zeros(int(owners.max()) + 1, np.bool_)
    merging[owners[apart]] = True
    for part in by_owner(owners, merging[owners]):
        ranks[_contents_in_order(part.tolist(), starts, ends)] = part
    return ranks


def _contents_in_order(rows: list[int], starts: Ints, ends: Ints) -> list[int]:
    """Puts the rows of one session, which are in order of arrival, into the order of its contents."""
    # Of each live session when it was born, and its first and its last row; each row leads to the next one.
    line: TimeLine[tuple[int, int, int]] = TimeLine()
    following: dict[int, int] = {}
    for birth, row in enumerate(rows):
        start, end, parts = line.take(int(starts[row]), int(ends[row]))
        parts.sort()
        born, first, last = parts[0] if parts else (birth, row, row)
        for _, next_first, next_last in (*parts[1:], (birth, row, row)) if parts else ():
            following[last] = next_first
            last = next_last
        line.put(start, end, (born, first, last))
    contents: list[int] = []
    for _, first, last in sorted(line.contents):
        contents.append(first)
        while contents[-1] != last:
            contents.append(following[contents[-1]])
    return contents


def _renumbered(numbers: Ints) -> tuple[int, Ints]:
    """Counts distinct numbers, and returns the rank of each; they are 0 or more, and not much above their count."""
    is_there = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    is_there[numbers] = True
    places = np.cumsum(is_there)
    return int(places[-1]) if len(places) else 0, places[numbers] - 1
