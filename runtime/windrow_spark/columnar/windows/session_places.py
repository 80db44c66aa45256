"""Assigns the elements of a batch to sessions, those of the state and new ones.

The elements of a batch and the sessions of their keys are sorted by key and start; a session ends where none touches
it::

    gap 10        open session   |5-------------18|
    elements      17                             |17----27|
                  40                                            |40----50|
    sessions      |5------------------------------------27|     |40----50|
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from windrow.windows.spec import FARTHEST
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups, Keys, encode_keys
from windrow_spark.columnar.step_operator import ColumnsArrived
from windrow_spark.columnar.windows.geometry import expired
from windrow_spark.columnar.windows.step_windows import Sessions

T = TypeVar("T")


class Placed(NamedTuple):
    """The sessions of elements. Its rows are stored sessions, then partial aggregates, then single elements."""

    keys: Keys
    starts: Ints  # of the window of each row by itself, in milliseconds
    ends: Ints
    owners: Ints  # the number of each row's session; of no meaning for a late element
    kept: Mask  # marks the rows that are not late
    known: int  # how many rows are stored sessions
    single: int  # the row of the first element that came one by one


def place(windows: Sessions, sessions: pa.RecordBatch, arrived: ColumnsArrived, watermark: int) -> Placed:
    """Finds the sessions of elements; one is late if its own window is cleaned up, and it touches no session."""
    partial_rows, elements, arrival = arrived
    known, single = sessions.num_rows, sessions.num_rows + partial_rows.num_rows
    stamps = elements.column(1).to_numpy()
    if windows.by_clock:
        stamps, watermark = np.full(len(stamps), watermark), watermark - 1
    encoded = encode_keys(pa.concat_arrays([rows.column(0) for rows in (sessions, partial_rows, elements)]))
    starts = np.concatenate([sessions.column(1).to_numpy(), partial_rows.column(1).to_numpy(), stamps])
    ends = np.concatenate([sessions.column(2).to_numpy(), partial_rows.column(2).to_numpy(), stamps + windows.gap])
    owners = owners_of(encoded, starts, ends)
    ended = expired(ends - 1, windows.lateness, watermark)
    ended[:known] = False
    late = np.zeros(len(starts), np.bool_)
    if ended.any():
        came = np.concatenate([np.arange(known), known + arrival])
        owners, late = _without_late(owners, starts, ends, ended, came)
    return Placed(encoded, starts, ends, owners, ~late, known, single)


def by_key_and_start(keys: Keys, starts: Ints) -> Ints:
    """Sorts rows by key, then by start; returns their indices in that order."""
    if not len(starts):
        return np.zeros(0, np.int64)
    low, high = int(starts.min()), int(starts.max())
    if high - low >= FARTHEST:
        return np.lexsort((starts, keys.codes))
    return Groups(keys.codes, len(keys.distinct)).ordered_by(starts - low, high - low + 1)


def owners_of(keys: Keys, starts: Ints, ends: Ints) -> Ints:
    """Returns the number of each row's session, as if no element were late; rows that touch share one."""
    order = by_key_and_start(keys, starts)
    if not len(order):
        return order
    codes, starts, ends = keys.codes[order], starts[order], ends[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (starts[1:] > highest_so_far(codes, ends)[:-1])
    owners = np.empty(len(order), np.int64)
    owners[order] = np.cumsum(begins) - 1
    return owners


def highest_so_far(codes: Ints, ends: Ints) -> Ints:
    """Returns the highest end up to each row among those of its key; rows are sorted by key."""
    low = int(ends.min())
    span = int(ends.max()) - low + 1
    # Keys are shifted so that each lies above the one before, and one pass over all rows takes the highest of each.
    if span <= FARTHEST // (int(codes.max()) + 1):
        shifts = codes * span - low
        highest: Ints = np.maximum.accumulate(ends + shifts) - shifts
        return highest
    distinct, ranks = np.unique(ends, return_inverse=True)
    shifts = codes * len(distinct)
    return distinct[np.maximum.accumulate(ranks + shifts) - shifts]


def _without_late(owners: Ints, starts: Ints, ends: Ints, ended: Mask, came: Ints) -> tuple[Ints, Mask]:
    """Marks the elements that were late when they arrived, and splits sessions that only late elements joined.

    Whether an element whose own window has ended is late depends on what had arrived before it. Where all windows of a
    session have ended, no element ever touched a kept one; mixed sessions are gone through in order of arrival.
    """
    count = int(owners.max()) + 1
    of_session = np.bincount(owners, minlength=count)
    ended_in = np.bincount(owners[ended], minlength=count)
    late = ended & (ended_in == of_session)[owners]
    mixed = (ended_in > 0) & (ended_in < of_session)
    owners = owners.copy()
    for part in by_owner(owners, mixed[owners]):
        arrived = part[np.argsort(came[part])]
        _replay(arrived.tolist(), owners, starts, ends, ended, late, count)
        count += len(part)
    return owners, late


def _replay(rows: list[int], owners: Ints, starts: Ints, ends: Ints, ended: Mask, late: Mask, unused: int) -> None:
    """Goes through the rows of one session in order of arrival; stored sessions come before elements."""
    line: TimeLine[list[int]] = TimeLine()
    for row in rows:
        start, end, parts = line.take(int(starts[row]), int(ends[row]))
        if not parts and ended[row]:
            late[row] = True
            continue
        parts.sort(key=len)
        members = parts.pop() if parts else []
        members.extend(chain.from_iterable(parts))
        members.append(row)
        line.put(start, end, members)
    for number, members in enumerate(line.contents):
        owners[members] = unused + number


class TimeLine(Generic[T]):
    """Keeps the sessions of one key, which do not touch, and the contents of each, in order of time."""

    def __init__(self) -> None:
        self.contents: list[T] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, start: int, end: int) -> tuple[int, int, list[T]]:
        """Removes the sessions that a window touches; returns start and end of all of them, and their contents."""
        touched = slice(bisect_left(self._ends, start), bisect_right(self._starts, end))
        contents = self.contents[touched]
        if contents:
            start, end = min(start, self._starts[touched.start]), max(end, self._ends[touched.stop - 1])
            del self._starts[touched], self._ends[touched], self.contents[touched]
        return start, end, contents

    def put(self, start: int, end: int, contents: T) -> None:
        """Adds a session that touches no other."""
        index = bisect_left(self._starts, start)
        self._starts.insert(index, start)
        self._ends.insert(index, end)
        self.contents.insert(index, contents)


def by_owner(owners: Ints, wanted: Mask) -> Sequence[Ints]:
    """Splits the wanted rows by owner; returns the numbers of each owner's rows in order of arrival."""
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return ()
    rows = rows[np.argsort(owners[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(owners[rows])) + 1)
