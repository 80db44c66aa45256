"""Fires windows again for elements that come behind the watermark, within the allowed lateness.

Such an element fires its window at once, so that each has a result of its own; they are added one by one in Python, to
what the state holds of their windows::

    watermark 12, lateness 10     windows |0----5|   |5---10|   |10---15|
    element at 3                           fires, again for each element
    element at 12                                                waits for 14
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.arithmetic import Count
from windrow.aggregates.combined import Combined
from windrow.errors import WindrowError
from windrow.functions import AggregateFunction
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.columnar.array_types import Array, Ints, Mask, Rows
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.kernels.kernel import same_input
from windrow_runtime.columnar.result_columns import fired_description, made_of
from windrow_runtime.columnar.rows.values import element_values, python_values
from windrow_runtime.columnar.state.chunks import Chunk, Chunks, concatenated
from windrow_runtime.columnar.state.pane_rows import panes_in
from windrow_runtime.columnar.windows.panes import PaneOperator
from windrow_runtime.columnar.windows.sessions import Placed, SessionOperator, TimeLine, by_owner
from windrow_runtime.operators.errors import USER_ERRORS, function_failed

# Any in this module: keys, accumulators and results are of every type.

Stamped: TypeAlias = tuple[Any, int]
"""A result, and its timestamp."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowAggregate:
    """The aggregate of a step over rows that hold side by side what its kernel takes from an element.

    Attributes:
        form: The step.
        function: The aggregate.
    """

    form: ColumnarForm
    function: AggregateFunction[Any, Any, Any]

    @classmethod
    def of(cls, form: ColumnarForm) -> RowAggregate:
        """The aggregate of a step."""
        return cls(form, _on_rows(form.aggregate, form.kernel.inputs))

    def rows(self, inputs: Sequence[Array], count: int) -> list[tuple[Any, ...]]:
        """The rows of ``count`` elements, from the columns that the kernel takes."""
        if not inputs:
            return [()] * count
        return list(zip(*(element_values(column, self.form.element) for column in inputs), strict=True))

    def accumulators(self, kernel: Kernel, states: Sequence[Array]) -> list[Any]:
        """The accumulators that columns of states stand for."""
        return kernel.accumulators(states, lambda column: element_values(column, self.form.element))

    def result(self, key: Any, start: int, end: int, accumulator: Any) -> Any:
        """The result of a window.

        Raises:
            UserFunctionError: If a class refuses its fields; with key and window.
        """
        form = self.form
        try:
            return made_of(form, self.function.get_result(accumulator), key, start, end)
        except WindrowError:
            raise
        except USER_ERRORS as error:
            raise function_failed(form.step, error, fired_description(form, key, start, end)) from error


def _on_rows(aggregate: AggregateFunction[Any, Any, Any], selectors: Sequence[Any]) -> AggregateFunction[Any, Any, Any]:
    if isinstance(aggregate, Combined):
        members = tuple((name, _on_rows(member, selectors)) for name, member in aggregate.members)
        return Combined(members, aggregate.target)
    assert isinstance(aggregate, DeclaredAggregate), "no other has a kernel"
    places = {same_input(selector): itemgetter(place) for place, selector in enumerate(selectors)}
    declared = [selector for _, selector in aggregate.declaration.selectors]
    assert dataclasses.is_dataclass(aggregate), "declared aggregates are"
    assert not isinstance(aggregate, type), "an aggregate is an instance"
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(aggregate):
        held = getattr(aggregate, field.name)
        # Without a selector it takes the element; only a count does not care what it is.
        takes_element = field.name == "selector" and held is None and not isinstance(aggregate, Count)
        if takes_element or any(held is selector for selector in declared):
            changes[field.name] = places[same_input(held)]
    return dataclasses.replace(aggregate, **changes)


def fire_late(
    operator: PaneOperator,
    aggregate: RowAggregate,
    chunks: Chunks,
    keys: Array,
    panes: Ints,
    inputs: Sequence[Array],
    watermark: int,
) -> Iterator[Stamped]:
    """The results of windows that fire for elements, in order of the elements.

    The elements, none of them late for all windows, are given by keys, panes and what the kernel takes from them; they
    are not yet in the state.
    """
    gone = max(watermark - operator.windows.lateness, MIN_TIMESTAMP)
    places, starts = operator.windows.windows(panes, gone, watermark)
    if not len(places):
        return
    held = _accumulators(operator, aggregate, chunks, keys, places, starts)
    key_values = python_values(keys)
    rows, function = aggregate.rows(inputs, len(key_values)), aggregate.function
    # Of each element the later windows come first, as they are assigned.
    for place, start in zip(places.tolist(), starts.tolist(), strict=True):
        at = (key_values[place], start)
        accumulator = held[at] if at in held else function.create_accumulator()
        held[at] = accumulator = function.add(rows[place], accumulator)
        end = start + operator.windows.size
        yield aggregate.result(*at, end, accumulator), end - 1


def _accumulators(
    operator: PaneOperator, aggregate: RowAggregate, chunks: Chunks, keys: Array, places: Ints, starts: Ints
) -> dict[tuple[Any, int], Any]:
    """The accumulators of the windows that fire, as far as the state has any: by key and start."""
    low, high = int(starts.min()), int(starts.max()) + operator.windows.size

    def wanted(entry: Chunk) -> bool:
        return entry.first < high and entry.last >= low

    distinct = keys.take(pa.array(places)).unique()
    parts: list[Any] = []
    for rows in [*(rows for _, rows in chunks.read(wanted)), chunks.read_tail()]:
        near = (panes_in(rows) >= low) & (panes_in(rows) < high)
        of_key = pc.is_in(rows.column(0), value_set=distinct)
        parts.append(rows.filter(pc.and_(pa.array(near), of_key)))
    rows = concatenated(parts)
    if not rows.num_rows:
        return {}
    windows = np.unique(starts)
    found: dict[tuple[Any, int], Any] = {}
    for fired in operator.states_of(rows, windows, chunks.tuning):
        pairs = zip(python_values(fired.keys), fired.starts.tolist(), strict=True)
        found.update(zip(pairs, aggregate.accumulators(operator.kernel, fired.states), strict=True))
    return found


# Sessions


def fire_late_sessions(
    operator: SessionOperator,
    aggregate: RowAggregate,
    rows: Rows,
    placed: Placed,
    inputs: Sequence[Array],
    watermark: int,
) -> list[Stamped]:
    """The results of sessions that fire for elements, in order of the elements.

    An element fires its session at once where that ends behind the watermark, with all that is in it so far; where it
    reaches ahead, the session waits::

        gap 10, watermark 50, lateness 40
        kept          |5--------18|      |30--------45|  fired
        element at 14             fires [5, 24)
        element at 22                    fires [5, 45): both in one
        element at 44                                    [5, 54) waits for 53

    The elements were placed among the sessions ``rows``, and the kernel takes ``inputs`` from them.
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
    found: list[tuple[int, Stamped]] = []
    for members in by_owner(placed.owners, chosen):
        key = keys[placed.keys.codes[members[0]]]
        line: TimeLine[Any] = TimeLine()
        for row in members.tolist():
            start, end, held = line.take(int(placed.starts[row]), int(placed.ends[row]))
            accumulator = None
            if row < placed.known:
                accumulator = contents.get(row)
            elif end - 1 <= watermark:
                accumulator = reduce(function.merge, held) if held else function.create_accumulator()
                accumulator = function.add(contents[row], accumulator)
                found.append((row, (aggregate.result(key, start, end, accumulator), end - 1)))
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
    operator: SessionOperator, aggregate: RowAggregate, rows: Rows, inputs: Sequence[Array], places: Ints, known: int
) -> dict[int, Any]:
    """By row: the accumulators of known sessions, and the inputs of elements."""
    sessions, elements = places[places < known], places[places >= known]
    states = [column.take(pa.array(sessions)) for column in rows.columns[3:]]
    found = dict(zip(sessions.tolist(), aggregate.accumulators(operator.kernel, states), strict=True))
    taken = [column.take(pa.array(elements - known)) for column in inputs]
    found.update(zip(elements.tolist(), aggregate.rows(taken, len(elements)), strict=True))
    return found
