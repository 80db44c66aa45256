"""Fires windows again for late elements, which are added one by one in Python.

Elements that come behind the watermark, within the allowed lateness, fire their windows again at once, so that each has
a result of its own, from what the state holds of their windows and the late elements so far::

    watermark 12, lateness 10     windows |0----5|   |5---10|   |10---15|
    element at 3                           fires, again for each element
    element at 12                                                waits for 14
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.arithmetic import Count
from windrow.aggregates.combined import Combined
from windrow.functions import AggregateFunction
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.kernels.kernel import same_input
from windrow_runtime.columnar.results import fired_description
from windrow_runtime.columnar.rows.columns import element_values, python_values
from windrow_runtime.columnar.rows.groups import encode_keys
from windrow_runtime.columnar.state import Chunks
from windrow_runtime.columnar.windows.late import held_by_windows
from windrow_runtime.columnar.windows.sessions import Placed, TimeLine
from windrow_runtime.columnar.windows.slices import SliceOperator
from windrow_runtime.operators.errors import USER_ERRORS, raise_call_error

# Any in this module: keys, accumulators and results are of every type.

Stamped: TypeAlias = tuple[Any, int]  # a result, and its timestamp


class RowAggregate:
    """The aggregate of a step over rows that hold side by side what its kernel takes from an element."""

    def __init__(self, form: ColumnarForm) -> None:
        self.form = form
        self.function = _on_rows(form.aggregate, form.kernel.inputs)

    def rows(self, inputs: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        """The rows of ``count`` elements, from the columns that the kernel takes."""
        if not inputs:
            return [()] * count
        return list(zip(*(element_values(column, self.form.element) for column in inputs), strict=True))

    def accumulators(self, states: Sequence[pa.Array]) -> list[Any]:
        """The accumulators that columns of states stand for."""
        return self.form.kernel.accumulators(states, lambda column: element_values(column, self.form.element))

    def result(self, key: Any, start: int, end: int, accumulator: Any) -> Any:
        """The result of a window; where a class refuses its fields, the error has key and window."""
        form, filled = self.form, self.form.filled
        try:
            result = self.function.get_result(accumulator)
            if filled is None:
                return result
            facts = {"key": key, "window_start": start, "window_end": end}
            places = filled.places
            return filled.made_of([result[place] if isinstance(place, int) else facts[place] for place in places])
        except USER_ERRORS as error:
            raise_call_error(form.step, error, fired_description(form, key, start, end))


def _on_rows(aggregate: AggregateFunction[Any, Any, Any], selectors: Sequence[Any]) -> AggregateFunction[Any, Any, Any]:
    if isinstance(aggregate, Combined):
        members = tuple((name, _on_rows(member, selectors)) for name, member in aggregate.members)
        return Combined(members, aggregate.target)
    assert isinstance(aggregate, DeclaredAggregate), "no other has a kernel"
    assert dataclasses.is_dataclass(aggregate), "declared aggregates are"
    places = {same_input(selector): itemgetter(place) for place, selector in enumerate(selectors)}
    declared = [selector for _, selector in aggregate.declaration.selectors]
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(aggregate):
        held = getattr(aggregate, field.name)
        # Without a selector it takes the element; only a count does not care what it is.
        takes_element = field.name == "selector" and held is None and not isinstance(aggregate, Count)
        if takes_element or any(held is selector for selector in declared):
            changes[field.name] = places[same_input(held)]
    return dataclasses.replace(aggregate, **changes)


def fire_late_rows(
    operator: SliceOperator,
    aggregate: RowAggregate,
    chunks: Chunks,
    keys: pa.Array,
    slices: Ints,
    inputs: Sequence[pa.Array],
    watermark: int,
) -> Iterator[Stamped]:
    """The results of windows that fire for late elements, which are added in Python to what the windows hold.

    They are those of :func:`~windrow_runtime.columnar.windows.late.fire_late`, which copies a state for each firing.
    """
    windows, function = operator.windows, aggregate.function
    places, starts = windows.windows(slices, max(watermark - windows.lateness, MIN_TIMESTAMP), watermark)
    if not len(places):
        return
    held: dict[tuple[Any, int], Any] = {}
    if not windows.purges:
        distinct = encode_keys(keys.take(pa.array(places))).distinct
        held_keys, held_starts, states = held_by_windows(operator, chunks, distinct, starts)
        pairs = zip(python_values(held_keys), held_starts.tolist(), strict=True)
        held = dict(zip(pairs, aggregate.accumulators(states), strict=True))
    key_values = python_values(keys)
    rows = aggregate.rows(inputs, len(key_values))
    # Of each element the later windows come first, as they are assigned.
    for place, start in zip(places.tolist(), starts.tolist(), strict=True):
        at = (key_values[place], start)
        accumulator = held[at] if at in held else function.create_accumulator()
        accumulator = function.add(rows[place], accumulator)
        if not windows.purges:
            held[at] = accumulator
        end = start + windows.size
        yield aggregate.result(*at, end, accumulator), end - 1


def fire_late_sessions(
    aggregate: RowAggregate, rows: pa.RecordBatch, placed: Placed, inputs: Sequence[pa.Array], watermark: int
) -> Iterator[Stamped]:
    """The results of sessions that fire for elements, in order of the elements.

    The elements were placed among the sessions ``rows``, and the kernel takes ``inputs`` from them. An element fires
    its session at once where that ends behind the watermark, with all that is in it so far; where it ends after that,
    the session waits::

        gap 10, watermark 50, lateness 40
        kept          |5--------18|      |30--------45|  fired
        element at 14             fires [5, 24)
        element at 22                    fires [5, 45): both in one
        element at 44                                    [5, 54) waits for 53
    """
    behind = placed.ends - 1 <= watermark
    chosen = _where_some_fire(placed, behind)
    if not chosen.any():
        return
    # What ends after the watermark never fires here, nor does what it becomes part of: its contents do not matter.
    counted = np.flatnonzero(chosen & behind)
    sessions, elements = counted[counted < placed.known], counted[counted >= placed.known]
    states = [column.take(pa.array(sessions)) for column in rows.columns[3:]]
    taken = [column.take(pa.array(elements - placed.known)) for column in inputs]
    accumulators = dict(zip(sessions.tolist(), aggregate.accumulators(states), strict=True))
    contents = dict(zip(elements.tolist(), aggregate.rows(taken, len(elements)), strict=True))
    function = aggregate.function
    keys = python_values(placed.keys.distinct)
    starts, ends = placed.starts.tolist(), placed.ends.tolist()
    # The sessions of each owner: when each was born, and what it holds.
    lines: defaultdict[int, TimeLine[tuple[int, Any]]] = defaultdict(TimeLine)
    for row, owner in zip(np.flatnonzero(chosen).tolist(), placed.owners[chosen].tolist(), strict=True):
        line = lines[owner]
        start, end, held = line.take(starts[row], ends[row])
        held.sort(key=itemgetter(0))
        accumulator = None
        if row < placed.known:
            accumulator = accumulators.get(row)
        elif end - 1 <= watermark:
            parts = [part for _, part in held]
            accumulator = reduce(function.merge, parts) if parts else function.create_accumulator()
            accumulator = function.add(contents[row], accumulator)
            yield aggregate.result(keys[placed.keys.codes[row]], start, end, accumulator), end - 1
        line.put(start, end, (held[0][0] if held else row, accumulator))


def _where_some_fire(placed: Placed, behind: Mask) -> Mask:
    """The rows of sessions in which an element may fire: all that were there when it came are among them."""
    count = int(placed.owners.max()) + 1
    is_known = np.arange(len(behind)) < placed.known
    # An element that touches a known session that ends after the watermark waits with it.
    earliest = np.full(count, np.iinfo(np.int64).max)
    reaching = is_known & ~behind
    np.minimum.at(earliest, placed.owners[reaching], placed.starts[reaching])
    fires = ~is_known & placed.kept & behind & (placed.ends < earliest[placed.owners])
    wanted = np.zeros(count, np.bool_)
    wanted[placed.owners[fires]] = True
    return wanted[placed.owners] & placed.kept
