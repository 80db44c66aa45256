"""Sessions over columns.

State is a row for each session that is open: key, start, end, and what the aggregate holds of its elements. The
elements of a batch and the sessions of their keys are sorted by key and start; a session ends where none touches it::

    gap 10        open session   |5-------------18|
    elements      17                             |17----27|
                  40                                            |40----50|
    sessions      |5------------------------------------27|     |40----50|

With allowed lateness, sessions stay when they have fired. State does not say which have: those whose last timestamp is
not after the watermark under which it was left.

Elements of one key and task of which each is at most a gap behind the one before become one row with the start and the
end of their session, if they are on time for certain. None of them is late, so this row stands for them all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.rows.groups import Groups, Keys, encode_keys
from windrow_runtime.columnar.windows.column_operator import (
    BY_ARRIVAL,
    Fired,
    KeyedRowsOperator,
    PartialAggregation,
    Times,
    waiting_in,
)
from windrow_runtime.columnar.windows.geometry import FARTHEST, expired
from windrow_runtime.columnar.windows.kinds import Sessions

T = TypeVar("T")


class Placed(NamedTuple):
    """In which sessions elements are. Rows are: sessions known before, partial aggregates, and single elements."""

    keys: Keys
    starts: Ints  # of the window of each row by itself, in milliseconds
    ends: Ints
    owners: Ints  # the number of each row's session; of no meaning for a late element
    kept: Mask  # marks the rows that are not late
    known: int  # how many rows are sessions known before
    single: int  # the row of the first element that came one by one


class TaskSessions(NamedTuple):
    """The sessions of the elements of a task, as if there were no others."""

    groups: Groups  # the session of each element
    codes: Ints  # the key of each session, by its number
    starts: Ints
    ends: Ints


def sessions_in_task(keys: Keys, stamps: Ints, gap: int) -> TaskSessions:
    """Finds the sessions of elements, as if there were no others; timestamps and the gap are in milliseconds."""
    order = _by_key_and_start(keys, stamps)
    codes, sorted_stamps = keys.codes[order], stamps[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (np.diff(sorted_stamps) > gap)
    owners = np.empty(len(order), np.int64)
    owners[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1 if len(first) else first
    return TaskSessions(Groups(owners, len(first)), codes[first], sorted_stamps[first], sorted_stamps[last] + gap)


def may_be_behind(keys: Keys, stamps: Ints, gap: int, bound: int) -> Mask:
    """Marks all elements of each key that has one which may be behind the watermark; that is not above a bound."""
    # Clipped, since a sum may not leave 64 bits: elements that are so far away are not aggregated.
    behind = np.clip(stamps, -FARTHEST, FARTHEST) + (gap - 1) <= bound
    found = np.zeros(len(keys.distinct), np.bool_)
    found[keys.codes[behind]] = True
    return found[keys.codes]


class SessionOperator(KeyedRowsOperator[Sessions]):
    """Runs a step on some keys at a time."""

    window_columns: ClassVar[Sequence[str]] = ("start", "end")

    @property
    def adds_late_rows(self) -> bool:
        return True

    def partial_aggregation(self, late: str, *, has_timers: bool) -> tuple[PartialAggregation, str]:
        if self.needs_arrival:
            return BY_ARRIVAL
        if self.windows.lateness:
            return PartialAggregation.NONE, late
        if self.windows.by_clock:
            return PartialAggregation.NONE, "elements of sessions by the clock have no timestamps"
        return PartialAggregation.ON_TIME, late

    def advance(self, rows: pa.RecordBatch, before: int, times: Times) -> tuple[Iterable[Fired], pa.RecordBatch]:
        """Fires sessions when the watermark or the clock advances, and gives the sessions that are kept."""
        last, watermark = rows.column(2).to_numpy() - 1, times.watermark
        # By the clock, a session may begin at the last millisecond that has come.
        due = (last <= watermark) & (self.windows.by_clock | (last > before))
        cleaned = expired(last, self.windows.lateness, watermark)
        kept = rows.filter(pa.array(~cleaned)) if cleaned.any() else rows
        if not due.any():
            return (), kept
        chosen = np.flatnonzero(due)
        chosen = chosen[np.argsort(last[chosen], kind="stable")]
        keys, starts, ends, *states = rows.take(pa.array(chosen)).columns
        results = self.kernel.results(states)
        return (Fired(keys, starts.to_numpy(), ends.to_numpy(), last[chosen], results),), kept

    def count_unfired(self, rows: pa.RecordBatch) -> None:
        self.unfired += waiting_in(rows)

    def aggregate(self, keys: Keys, found: TaskSessions, inputs: Sequence[pa.Array]) -> pa.RecordBatch:
        """One row for the elements of each session of a task."""
        states = self.kernel.partial(found.groups, inputs)
        own, bounds = keys.distinct.take(pa.array(found.codes)), map(pa.array, (found.starts, found.ends))
        columns = [own, *bounds, *states, pa.array(found.groups.sizes)]
        return pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)

    def place(
        self,
        rows: pa.RecordBatch,
        partial_rows: pa.RecordBatch,
        keys: pa.Array,
        stamps: Ints,
        watermark: int,
        arrival: Ints | None = None,
    ) -> Placed:
        """Finds the sessions of elements; one is late if its own window is cleaned up, and it touches no session.

        Some elements were partially aggregated, and others came one by one, with their keys and timestamps. ``arrival``
        numbers all rows of both in the order in which they came; None: partial aggregates came first.
        """
        known, single = rows.num_rows, rows.num_rows + partial_rows.num_rows
        if self.windows.by_clock:
            stamps, watermark = np.full(len(stamps), watermark), watermark - 1
        encoded = encode_keys(pa.concat_arrays([rows.column(0), partial_rows.column(0), keys]))
        starts = np.concatenate([rows.column(1).to_numpy(), partial_rows.column(1).to_numpy(), stamps])
        ends = np.concatenate([rows.column(2).to_numpy(), partial_rows.column(2).to_numpy(), stamps + self.windows.gap])
        owners = _owners(encoded, starts, ends)
        behind = expired(ends - 1, self.windows.lateness, watermark)
        behind[:known] = False
        late = np.zeros(len(starts), np.bool_)
        if behind.any():
            came = np.arange(len(starts))
            if arrival is not None:
                came[known:] = known + arrival
            owners, late = _without_late(owners, starts, ends, behind, came)
        return Placed(encoded, starts, ends, owners, ~late, known, single)

    def add(
        self, rows: pa.RecordBatch, partial_rows: pa.RecordBatch, placed: Placed, inputs: Sequence[pa.Array]
    ) -> pa.RecordBatch:
        """The sessions with elements that are not late: one row for each owner that has anything."""
        known, kept = placed.single, placed.kept
        count, ids = _renumbered(placed.owners[kept])
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.full(count, MIN_TIMESTAMP)
        np.minimum.at(first, ids, placed.starts[kept])
        np.maximum.at(last, ids, placed.ends[kept])
        codes = np.zeros(count, np.int64)
        codes[ids] = placed.keys.codes[kept]
        if not kept[known:].all():
            inputs = [column.filter(pa.array(kept[known:])) for column in inputs]
        held = rows.columns[3:]
        if partial_rows.num_rows:
            held = [pa.concat_arrays(both) for both in zip(held, partial_rows.columns[3:-1], strict=True)]
        if self.kernel.ordered:
            states = self._in_order(held, placed, ids, count, inputs)
        else:
            fresh_count, fresh_ids = _renumbered(ids[known:])
            fresh = np.empty(fresh_count, np.int64)
            fresh[fresh_ids] = ids[known:]
            states = self.kernel.partial(Groups(fresh_ids, fresh_count), inputs)
            if known:
                states = self._merged(held, states, np.concatenate([ids[:known], fresh]), count)
        keys = placed.keys.distinct.take(pa.array(codes))
        found = self.rows([keys, pa.array(first), pa.array(last), *states])
        if self.kernel.ordered:
            # Sessions of a key stand in the order in which they were born, by which they merge.
            born = np.full(count, len(kept))
            np.minimum.at(born, ids, np.flatnonzero(kept))
            found = found.take(pa.array(np.argsort(born)))
        return found

    def _merged(
        self, held: Sequence[pa.Array], states: Sequence[pa.Array], owners: Ints, count: int, order: Ints | None = None
    ) -> list[pa.Array]:
        """Merges states that are held and other ones, by the owners of all, in their order or in another."""
        both = [pa.concat_arrays([old, new]) for old, new in zip(held, states, strict=True)]
        if order is not None:
            both = [column.take(pa.array(order)) for column in both]
        return self.kernel.merge(Groups(owners, count), both)

    def _in_order(
        self, held: Sequence[pa.Array], placed: Placed, ids: Ints, count: int, inputs: Sequence[pa.Array]
    ) -> list[pa.Array]:
        """The states of sessions whose parts are merged as the general operator does it, by the owners of kept rows.

        What a session has had from its birth on stands in front of what it takes, and where sessions meet, the one that
        was born first stands in front of the other::

            gap 10, elements in order of arrival   0  30  5  8  38  15  20
            sessions                               0  5  8  15 | 30  38
            the last one joins both                0  5  8  15   30  38   20
        """
        known = placed.known
        ranks = _ranks(ids, placed.starts[placed.kept], placed.ends[placed.kept])
        order = np.lexsort((ranks, ids))
        is_known = order < known
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (np.diff(ids[order]) != 0) | is_known[1:] | is_known[:-1]
        runs = begins & ~is_known
        elements = order[~is_known]
        of_elements = (np.cumsum(runs) - 1)[~is_known]
        taken = [column.take(pa.array(elements - known)) for column in inputs]
        states = self.kernel.partial(Groups(of_elements, int(runs.sum())), taken)
        if not known:
            # Each session has one run.
            return states
        # The places of known sessions and of runs among the states of both.
        places = np.where(is_known, order, known + np.cumsum(runs) - 1)[begins]
        return self._merged(held, states, ids[order][begins], count, places)

    def next_time(self, watermark: int, rows: pa.RecordBatch) -> int:
        """The time at which the first of some sessions fires or goes next; the end of time if that is never."""
        last, lateness = rows.column(2).to_numpy() - 1, self.windows.lateness
        if self.windows.by_clock:
            return int(last.min())
        moments = np.concatenate([last, last + (0 if lateness >= FARTHEST else lateness)])
        return int(moments.min(where=moments > watermark, initial=MAX_TIMESTAMP))


def _by_key_and_start(keys: Keys, starts: Ints) -> Ints:
    """The numbers of rows by key, and inside it by start."""
    if not len(starts):
        return np.zeros(0, np.int64)
    low, high = int(starts.min()), int(starts.max())
    if high - low >= FARTHEST:
        return np.lexsort((starts, keys.codes))
    return Groups(keys.codes, len(keys.distinct)).ordered_by(starts - low, high - low + 1)


def _ranks(owners: Ints, starts: Ints, ends: Ints) -> Ints:
    """Numbers that put the rows of each session into the order of its contents; known sessions come before elements."""
    ranks = np.arange(len(owners))
    if not len(owners):
        return ranks
    # Where all rows meet the first one, that takes them as they come.
    firsts = Groups(owners, int(owners.max()) + 1).first_rows[owners]
    apart = (starts > ends[firsts]) | (starts[firsts] > ends)
    merging = np.zeros(int(owners.max()) + 1, np.bool_)
    merging[owners[apart]] = True
    for part in by_owner(owners, merging[owners]):
        ranks[_contents_in_order(part.tolist(), starts, ends)] = part
    return ranks


def _contents_in_order(rows: list[int], starts: Ints, ends: Ints) -> list[int]:
    """The rows of one session as its contents have them, from the order in which they came."""
    # Of each live session when it was born, and its first and its last row; each row leads to the one behind it.
    line: TimeLine[tuple[int, int, int]] = TimeLine()
    behind: dict[int, int] = {}
    for birth, row in enumerate(rows):
        start, end, parts = line.take(int(starts[row]), int(ends[row]))
        parts.sort()
        born, first, last = parts[0] if parts else (birth, row, row)
        for _, next_first, next_last in (*parts[1:], (birth, row, row)) if parts else ():
            behind[last] = next_first
            last = next_last
        line.put(start, end, (born, first, last))
    found: list[int] = []
    for _, first, last in sorted(line.held):
        found.append(first)
        while found[-1] != last:
            found.append(behind[found[-1]])
    return found


def _renumbered(numbers: Ints) -> tuple[int, Ints]:
    """How many different numbers there are, and the place of each among them; they are from 0 on and not much more."""
    is_there = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    is_there[numbers] = True
    places = np.cumsum(is_there)
    return int(places[-1]) if len(places) else 0, places[numbers] - 1


def _owners(keys: Keys, starts: Ints, ends: Ints) -> Ints:
    """The number of the session that each row falls into, were there no late elements."""
    order = _by_key_and_start(keys, starts)
    if not len(order):
        return order
    codes, starts, ends = keys.codes[order], starts[order], ends[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (starts[1:] > _highest_so_far(codes, ends)[:-1])
    owners = np.empty(len(order), np.int64)
    owners[order] = np.cumsum(begins) - 1
    return owners


def _highest_so_far(codes: Ints, ends: Ints) -> Ints:
    """The highest end up to each row among those of its key; rows are sorted by key."""
    low = int(ends.min())
    span = int(ends.max()) - low + 1
    # The keys lie one behind the other, so that one pass over all rows takes the highest of each.
    if span <= FARTHEST // (int(codes.max()) + 1):
        shifts = codes * span - low
        highest: Ints = np.maximum.accumulate(ends + shifts) - shifts
        return highest
    distinct, ranks = np.unique(ends, return_inverse=True)
    shifts = codes * len(distinct)
    return distinct[np.maximum.accumulate(ranks + shifts) - shifts]


def _without_late(owners: Ints, starts: Ints, ends: Ints, behind: Mask, came: Ints) -> tuple[Ints, Mask]:
    """Leaves out elements that were late when they arrived, and what only they had held together.

    Whether an element behind the watermark is late depends on what had arrived before it. Where all elements of a
    session are behind, none of them ever touched a kept one; mixed ones are gone through in order of arrival.
    """
    count = int(owners.max()) + 1
    of_session = np.bincount(owners, minlength=count)
    behind_in = np.bincount(owners[behind], minlength=count)
    late = behind & (behind_in == of_session)[owners]
    mixed = (behind_in > 0) & (behind_in < of_session)
    owners = owners.copy()
    for part in by_owner(owners, mixed[owners]):
        arrived = part[np.argsort(came[part])]
        _replay(arrived.tolist(), owners, starts, ends, behind, late, count)
        count += len(part)
    return owners, late


def _replay(rows: list[int], owners: Ints, starts: Ints, ends: Ints, behind: Mask, late: Mask, unused: int) -> None:
    """Goes through the rows of one session in order of arrival; known sessions come before elements."""
    line: TimeLine[list[int]] = TimeLine()
    for row in rows:
        start, end, parts = line.take(int(starts[row]), int(ends[row]))
        if not parts and behind[row]:
            late[row] = True
            continue
        parts.sort(key=len)
        members = parts.pop() if parts else []
        members.extend(chain.from_iterable(parts))
        members.append(row)
        line.put(start, end, members)
    for number, members in enumerate(line.held):
        owners[members] = unused + number


class TimeLine(Generic[T]):
    """The sessions of one key, which do not touch, and what each holds, in order of time."""

    def __init__(self) -> None:
        self.held: list[T] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, start: int, end: int) -> tuple[int, int, list[T]]:
        """Removes the sessions that a window touches: gives start and end of them all, and what they held."""
        taken = slice(bisect_left(self._ends, start), bisect_right(self._starts, end))
        held = self.held[taken]
        if held:
            start, end = min(start, self._starts[taken.start]), max(end, self._ends[taken.stop - 1])
            del self._starts[taken], self._ends[taken], self.held[taken]
        return start, end, held

    def put(self, start: int, end: int, held: T) -> None:
        """Adds a session that touches no other."""
        place = bisect_left(self._starts, start)
        self._starts.insert(place, start)
        self._ends.insert(place, end)
        self.held.insert(place, held)


def by_owner(owners: Ints, wanted: Mask) -> Sequence[Ints]:
    """The numbers of the wanted rows, apart by owner, each in order of arrival."""
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return ()
    rows = rows[np.argsort(owners[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(owners[rows])) + 1)
