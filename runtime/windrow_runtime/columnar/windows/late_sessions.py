"""Fires sessions again for elements that come after their end, within the allowed lateness.

The elements are added one by one, in Python, to what the sessions hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from windrow_runtime.columnar import Mask
from windrow_runtime.columnar.kernels.row_aggregate import RowAggregate, Stamped
from windrow_runtime.columnar.rows.columns import python_values
from windrow_runtime.columnar.windows.session_places import Placed, TimeLine

# Any in this module: keys and accumulators are of every type.


def fire_late_sessions(
    aggregate: RowAggregate, sessions: pa.RecordBatch, placed: Placed, inputs: Sequence[pa.Array], watermark: int
) -> Iterator[Stamped]:
    """Yields the results of sessions that fire for elements, in order of the elements.

    The elements were placed among the sessions, and the kernel takes ``inputs`` from them. An element fires its session
    at once where that ends before the watermark, with all that is in it so far; where it ends after that, the session
    waits::

        gap 10, watermark 50, lateness 40
        kept          |5--------18|      |30--------45|  fired
        element at 14             fires [5, 24)
        element at 22                    fires [5, 45): both in one
        element at 44                                    [5, 54) waits for 53
    """
    ended = placed.ends - 1 <= watermark
    chosen = _where_elements_fire(placed, ended)
    if not chosen.any():
        return
    # What ends after the watermark never fires here, nor does what it becomes part of: its contents do not matter.
    counted = np.flatnonzero(chosen & ended)
    stored, elements = counted[counted < placed.known], counted[counted >= placed.known]
    states = [column.take(pa.array(stored)) for column in sessions.columns[3:]]
    columns = [column.take(pa.array(elements - placed.known)) for column in inputs]
    accumulators = dict(zip(stored.tolist(), aggregate.accumulators(states), strict=True))
    rows = dict(zip(elements.tolist(), aggregate.rows(columns, len(elements)), strict=True))
    function = aggregate.function
    keys = python_values(placed.keys.distinct)
    starts, ends = placed.starts.tolist(), placed.ends.tolist()
    # The sessions of each owner: when each was born, and its accumulator.
    lines: defaultdict[int, TimeLine[tuple[int, Any]]] = defaultdict(TimeLine)
    for row, owner in zip(np.flatnonzero(chosen).tolist(), placed.owners[chosen].tolist(), strict=True):
        line = lines[owner]
        start, end, touched = line.take(starts[row], ends[row])
        touched.sort(key=itemgetter(0))
        accumulator = None
        if row < placed.known:
            accumulator = accumulators.get(row)
        elif end - 1 <= watermark:
            parts = [part for _, part in touched]
            accumulator = reduce(function.merge, parts) if parts else function.create_accumulator()
            accumulator = function.add(rows[row], accumulator)
            yield aggregate.result(keys[placed.keys.codes[row]], start, end, accumulator)
        line.put(start, end, (touched[0][0] if touched else row, accumulator))


def _where_elements_fire(placed: Placed, ended: Mask) -> Mask:
    """Marks the rows of sessions in which an element may fire, with all that were there when it came."""
    count = int(placed.owners.max(initial=-1)) + 1
    is_stored = np.arange(len(ended)) < placed.known
    # An element that touches a stored session that ends after the watermark waits with it.
    earliest = np.full(count, np.iinfo(np.int64).max)
    waiting = is_stored & ~ended
    np.minimum.at(earliest, placed.owners[waiting], placed.starts[waiting])
    fires = ~is_stored & placed.kept & ended & (placed.ends < earliest[placed.owners])
    have_firings = np.zeros(count, np.bool_)
    have_firings[placed.owners[fires]] = True
    return have_firings[placed.owners] & placed.kept
