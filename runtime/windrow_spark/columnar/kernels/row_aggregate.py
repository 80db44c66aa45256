"""Computes the aggregate of a step row by row, in Python, on what its kernel takes from elements.

Windows that fire for each late element do so where columns would copy the state of a window for each firing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.arithmetic import Count
from windrow.aggregates.arrival import CollectList
from windrow.aggregates.combined import Combined
from windrow.aggregates.facts import FilledWindow, fact_of
from windrow.functions import AggregateFunction
from windrow.plan import Step
from windrow.windows import TimeWindow
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.state.model import NOTHING
from windrow_spark.columnar.kernels.kernel import Kernel, same_input
from windrow_spark.columnar.rows.columns import element_values

# Any in this module: keys, accumulators and results are of every type.


class LateFiring(NamedTuple):
    """A window that fires for a late element, for the window function."""

    key: Any
    window: TimeWindow
    contents: Any  # nobody else holds them
    element: Any  # NOTHING where it is not known


Stamped: TypeAlias = tuple[Any, int]
"""A result, or what a window function makes results of, and its timestamp."""


@dataclass(frozen=True)
class RowAggregate:
    """The aggregate of a step over rows that hold the inputs of its kernel side by side."""

    step: Step
    element: RecordType
    kernel: Kernel
    aggregate: AggregateFunction[Any, Any, Any]
    filled: FilledWindow | None  # puts the key and the window into results; None: they are those of the aggregate
    for_function: bool = False  # whether a window function of the user's makes the results

    @cached_property
    def function(self) -> AggregateFunction[Any, Any, Any]:
        """The aggregate, whose selectors take from a row what those of the user take from an element."""
        return _on_rows(self.aggregate, self.kernel.inputs)

    def rows(self, inputs: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        """Returns the rows of ``count`` elements, from the columns that the kernel takes."""
        if not inputs:
            return [()] * count
        return list(zip(*(element_values(column, self.element) for column in inputs), strict=True))

    def accumulators(self, states: Sequence[pa.Array]) -> list[Any]:
        """Returns the accumulators that columns of states stand for."""
        return self.kernel.accumulators(states, lambda column: element_values(column, self.element))

    def result(self, key: Any, start: int, end: int, accumulator: Any, row: tuple[Any, ...]) -> Stamped:
        """Returns the result of a window; where a class refuses its fields, the error has key and window."""
        try:
            result = self.function.get_result(accumulator)
            if self.for_function:
                takes_element = isinstance(self.aggregate, CollectList) and self.aggregate.selector is None
                firing = LateFiring(key, TimeWindow(start, end), own(result), row[0] if takes_element else NOTHING)
                return firing, end - 1
            if self.filled is not None:
                values: list[Any] = []
                for place in self.filled.places:
                    if isinstance(place, int):
                        values.append(result[place])
                    else:
                        values.append(key if place == "key" else fact_of(place, start, end))
                result = self.filled.made_of(values)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, window=TimeWindow(start, end)))
        return result, end - 1


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
        selector = getattr(aggregate, field.name)
        # Without a selector it takes the element; only a count does not care what it is.
        takes_element = field.name == "selector" and selector is None and not isinstance(aggregate, Count)
        if takes_element or any(selector is each for each in declared):
            changes[field.name] = places[same_input(selector)]
    return dataclasses.replace(aggregate, **changes)
