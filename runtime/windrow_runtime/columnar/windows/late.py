"""Elements that come behind the watermark, for windows that have fired and are kept for them.

Such an element fires its window at once, so that each has a result of its own; they are folded one by one in Python,
into what the state holds of their windows::

    watermark 12, lateness 10     windows |0----5|   |5---10|   |10---15|
    element at 3                           fires, again for each element
    element at 12                                                waits for 14
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.arithmetic import Count
from windrow.aggregates.combined import Combined
from windrow.errors import WindrowError
from windrow.functions import AggregateFunction
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.columnar.forms.steps import ColumnarForm
from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.kernels.combined import same_input
from windrow_runtime.columnar.results import fired_description, made_of
from windrow_runtime.columnar.rows.values import element_values, python_values
from windrow_runtime.columnar.state.chunks import Chunk, Chunks, concatenated
from windrow_runtime.columnar.state.pane_rows import panes_in
from windrow_runtime.columnar.windows.panes import PaneOperator
from windrow_runtime.operators.errors import USER_ERRORS, function_failed

__all__ = ["LateResult", "RowAggregate", "fire_late"]

# Any in this module: keys, accumulators and results are of every type, and pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LateResult:
    """A window that fired for one element.

    Attributes:
        key: The key.
        start: The start of the window, in milliseconds.
        end: Its end.
        result: The result.
    """

    key: Any
    start: int
    end: int
    result: Any


@dataclass(frozen=True, slots=True)
class RowAggregate:
    """The aggregate of a step, as one of rows: these hold side by side what the kernel takes from an element.

    Attributes:
        form: The step.
        function: The aggregate.
    """

    form: ColumnarForm
    function: AggregateFunction[Any, Any, Any]

    @classmethod
    def of(cls, form: ColumnarForm) -> RowAggregate:
        """That of a step."""
        return cls(form, _on_rows(form.aggregate, form.kernel.inputs))

    def rows(self, inputs: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
        """The rows of so many elements, of the columns that the kernel takes."""
        if not inputs:
            return [()] * count
        return list(zip(*(element_values(column, self.form.element) for column in inputs), strict=True))

    def accumulators(self, kernel: Kernel, states: Sequence[Any]) -> list[Any]:
        """The accumulators that columns of states stand for."""
        return kernel.accumulators(states, lambda column: element_values(column, self.form.element))

    def result(self, key: Any, start: int, end: int, accumulator: Any) -> LateResult:
        """The result of a window.

        Raises:
            UserFunctionError: If a class refuses its fields; with key and window.
        """
        form = self.form
        try:
            made = made_of(form, self.function.get_result(accumulator), key, start, end)
        except WindrowError:
            raise
        except USER_ERRORS as error:
            raise function_failed(form.step, error, fired_description(form, key, start, end)) from error
        return LateResult(key, start, end, made)


def _on_rows(
    aggregate: AggregateFunction[Any, Any, Any], selectors: Sequence[Any]
) -> AggregateFunction[Any, Any, Any]:
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
    keys: Any,
    panes: Ints,
    inputs: Sequence[Any],
    watermark: int,
) -> Iterator[LateResult]:
    """The results of windows that fire for elements, in order of the elements.

    Args:
        operator: The step.
        aggregate: Its aggregate.
        chunks: The state, in which the elements are not yet.
        keys: The keys of elements, none of them late for all windows.
        panes: Their panes.
        inputs: What the kernel takes from them.
        watermark: The watermark.
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
        yield aggregate.result(*at, start + operator.windows.size, accumulator)


def _accumulators(
    operator: PaneOperator, aggregate: RowAggregate, chunks: Chunks, keys: Any, places: Ints, starts: Ints
) -> dict[tuple[Any, int], Any]:
    """What the state holds of the windows that fire: by key and start."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
