"""Elements that come behind the watermark, for sessions that have fired and are kept for them.

An element fires its session at once where that ends behind the watermark, with all that is in it so far; where it
reaches ahead, the session waits::

    gap 10, watermark 50, lateness 40
    kept          |5--------18|      |30--------45|  fired
    element at 14             fires [5, 24)
    element at 22                    fires [5, 45): both in one
    element at 44                                    [5, 54) waits for 53
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow_runtime.columnar.rows.values import python_values
from windrow_runtime.columnar.windows.late import LateResult, RowAggregate
from windrow_runtime.columnar.windows.replay import TimeLine, by_owner
from windrow_runtime.columnar.windows.sessions import Placed, SessionOperator

__all__ = ["fire_late_sessions"]

# Any in this module: keys, accumulators and results are of every type, and pyarrow has no types.

Mask: TypeAlias = npt.NDArray[np.bool_]


def fire_late_sessions(
    operator: SessionOperator,
    aggregate: RowAggregate,
    rows: Any,
    placed: Placed,
    inputs: Sequence[Any],
    watermark: int,
) -> list[LateResult]:
    """The results of sessions that fire for elements, in order of the elements.

    Args:
        operator: The step.
        aggregate: Its aggregate.
        rows: The sessions with which the elements were placed.
        placed: Where the elements are.
        inputs: What the kernel takes from them.
        watermark: The watermark.
    """
    behind = placed.ends - 1 <= watermark
    chosen = _where_some_fire(placed, behind)
    if not chosen.any():
        return []
    # What reaches ahead never fires here, nor does what it becomes part of: its contents do not matter.
    counted = chosen & behind
    contents = _contents(operator, aggregate, rows, inputs, np.flatnonzero(counted), placed.known)
    function = aggregate.function
    keys = python_values(placed.keys.distinct)
    found: list[tuple[int, LateResult]] = []
    for part in by_owner(placed.owners, chosen):
        key = keys[placed.keys.codes[part[0]]]
        line: TimeLine[Any] = TimeLine()
        for row in part.tolist():
            start, end, held = line.take(int(placed.starts[row]), int(placed.ends[row]))
            accumulator = None
            if row < placed.known:
                accumulator = contents.get(row)
            elif end - 1 <= watermark:
                accumulator = reduce(function.merge, held) if held else function.create_accumulator()
                accumulator = function.add(contents[row], accumulator)
                found.append((row, aggregate.result(key, start, end, accumulator)))
            line.put(start, end, accumulator)
    return [result for _, result in sorted(found, key=itemgetter(0))]


def _where_some_fire(placed: Placed, behind: Mask) -> Mask:
    """The rows of sessions in which an element may fire: all that were there when it came are among them."""
    count = int(placed.owners.max()) + 1
    is_known = np.arange(len(behind)) < placed.known
    # An element that touches a known session which reaches ahead waits with it.
    ahead = np.full(count, np.iinfo(np.int64).max)
    reaching = is_known & ~behind
    np.minimum.at(ahead, placed.owners[reaching], placed.starts[reaching])
    fires = ~is_known & placed.kept & behind & (placed.ends < ahead[placed.owners])
    wanted = np.zeros(count, np.bool_)
    wanted[placed.owners[fires]] = True
    return wanted[placed.owners] & placed.kept


def _contents(
    operator: SessionOperator,
    aggregate: RowAggregate,
    rows: Any,
    inputs: Sequence[Any],
    places: npt.NDArray[np.int64],
    known: int,
) -> dict[int, Any]:
    """By row: the accumulators of known sessions, and the inputs of elements."""
    import pyarrow as pa

    sessions, elements = places[places < known], places[places >= known]
    states = [column.take(pa.array(sessions)) for column in rows.columns[3:]]
    found = dict(zip(sessions.tolist(), aggregate.accumulators(operator.kernel, states), strict=True))
    taken = [column.take(pa.array(elements - known)) for column in inputs]
    found.update(zip(elements.tolist(), aggregate.rows(taken, len(elements)), strict=True))
    return found
