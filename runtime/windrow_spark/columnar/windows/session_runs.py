"""Finds the elements that sessions of Python functions get one after the other, without Python code for each element.

The elements that arrive together, and the open sessions of their keys, are joined to sessions as in
:mod:`~windrow_spark.columnar.windows.session_places`. One look-up and one loop then serve all elements of a session
if each element touches, when it arrives, what the session is by then::

    gap 10        open session   |5-------------18|
    elements      17, 26, 8      |5-------------18|  |5----27|  |5----36|     one loop, in this order
                  26, 17                             26 is a session by itself until 17 joins the two

The elements of a key for which this is not true of all of them have to be taken one by one: where one may be late,
where one joins two sessions, or where the general operator keeps sessions of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from windrow.windows.spec import FARTHEST
from windrow_runtime.operators.state.live_sessions import MANY_SESSIONS
from windrow_runtime.operators.state.model import SessionColumns
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups, Keys
from windrow_spark.columnar.windows.session_places import highest_so_far, owners_of

# Any in this module: keys of every type.


class SessionRuns(NamedTuple):
    """Elements by session: first all of one session, in order of arrival."""

    elements: Ints  # the row numbers of the elements
    counts: list[int]  # how many elements each session gets
    codes: list[int]  # the number of the key of each session
    stored: list[int]  # the index of each session among those of the state; -1: it is new
    starts: list[int]  # of each session with its elements
    ends: list[int]
    one_by_one: Mask  # marks the keys, by their numbers, whose elements have to be taken one by one


def session_runs(operator: SessionLoopOperator, keys: Keys, distinct: Sequence[Any], stamps: Ints) -> SessionRuns:
    """Groups elements by session; ``distinct`` are the keys as Python values."""
    gap, state, sessions = operator.gap, operator.state, operator.state.session_columns
    assert gap is not None, "elements have no gaps of their own"
    if not _are_near(sessions, stamps, gap):
        nothing = np.zeros(0, np.int64)
        return SessionRuns(nothing, [], [], [], [], [], np.ones(len(distinct), np.bool_))
    numbers = dict(zip(distinct, range(len(distinct)), strict=True))
    code_of = np.fromiter(map(numbers.get, sessions.keys, repeat(-1)), np.int64, len(sessions))
    touched = np.flatnonzero(code_of >= 0)
    known = len(touched)
    codes = np.concatenate([code_of[touched], keys.codes])
    starts = np.concatenate([np.array(sessions.starts, np.int64)[touched], stamps])
    ends = np.concatenate([np.array(sessions.ends, np.int64)[touched], stamps + gap])
    owners = owners_of(Keys(codes, keys.distinct), starts, ends)
    count = int(owners.max(initial=-1)) + 1
    # Sessions are numbered in the order of their births, in which those of a key are merged.
    births = np.empty(count, np.int64)
    births[np.argsort(Groups(owners, count).first_rows)] = np.arange(count)
    owners = births[owners]
    order = Groups(owners, count).order  # stored sessions come before elements
    owners, starts, ends = owners[order], starts[order], ends[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = owners[1:] != owners[:-1]
    first = np.flatnonzero(begins)
    is_new = order[first] >= known
    # An element that touches nothing of its session so far is joined to it by a later one.
    is_wrong = is_new & (ends[first] <= operator.frontier)
    apart = (starts[1:] > highest_so_far(owners, ends)[:-1]) | (ends[1:] < -highest_so_far(owners, -starts)[:-1])
    is_wrong[owners[1:][apart & ~begins[1:]]] = True
    key_of = codes[order[first]]
    one_by_one = np.bincount(key_of, minlength=len(distinct)) >= MANY_SESSIONS
    one_by_one[key_of[is_wrong]] = True
    if state.sessions or state.keys:
        one_by_one |= np.fromiter(map(operator.has_apart, distinct), np.bool_, len(distinct))
    sizes = np.diff(first, append=len(order)) - ~is_new
    goes_on = (sizes > 0) & ~one_by_one[key_of]
    rows = order[goes_on[owners]]
    index_of = np.full(count, -1)
    index_of[~is_new] = touched[order[first][~is_new]]
    bounds = np.minimum.reduceat(starts, first), np.maximum.reduceat(ends, first)
    columns: list[list[int]] = [column[goes_on].tolist() for column in (sizes, key_of, index_of, *bounds)]
    counts, codes_of_runs, stored, first_times, last_times = columns
    elements = rows[rows >= known] - known
    return SessionRuns(elements, counts, codes_of_runs, stored, first_times, last_times, one_by_one)


def _are_near(sessions: SessionColumns, stamps: Ints, gap: int) -> bool:
    """Returns whether no sum of times leaves 64 bits."""
    times = (gap, *map(abs, (int(stamps.min()), int(stamps.max()))))
    stored = map(abs, (min(sessions.starts), max(sessions.ends))) if sessions else ()
    return bool(max((*times, *stored)) < FARTHEST // 2)
