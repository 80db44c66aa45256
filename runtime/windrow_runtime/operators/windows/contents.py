"""Adds elements to the contents of windows, merges contents, and gives them to functions."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from windrow.errors import InvalidArgumentError
from windrow.evictors import Evictor, TimestampedValue
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, FunctionSpec, ReduceSpec
from windrow_runtime.operators.copies import accumulator_maker, own
from windrow_runtime.operators.errors import shortened
from windrow_runtime.operators.state.model import NOTHING
from windrow_runtime.operators.state.stored_list import GrowingList

# Any in this module: contents hold elements and accumulators of every type.


class Contents(ABC):
    """Keeps the contents of windows. ``NOTHING`` stands for none.

    Attributes:
        keeps_values: Whether elements are kept as they are, and nothing but copies of them is handed out. Else a
            function may change the elements that are added, so that windows must not share them.
    """

    keeps_values: ClassVar[bool] = False

    @abstractmethod
    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        """The contents with one more element."""

    @abstractmethod
    def merge(self, first: Any, second: Any) -> Any:
        """The contents of two windows as one; ``first`` began earlier."""

    @abstractmethod
    def elements(self, contents: Any) -> Sequence[Any]:
        """The elements for the window function. They belong to the contents: copy them before a function gets them."""


class ReducedContents(Contents):
    """Keeps one element, reduced from all."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self.reduce = reduce

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        return value if contents is NOTHING else self.reduce(contents, value)

    def merge(self, first: Any, second: Any) -> Any:
        return self.reduce(first, second)

    def elements(self, contents: Any) -> Sequence[Any]:
        return (contents,)


class AggregatedContents(Contents):
    """Keeps one accumulator."""

    def __init__(self, function: AggregateFunction[Any, Any, Any]) -> None:
        self.function = function
        self.create = accumulator_maker(function)

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        return self.function.add(value, self.create() if contents is NOTHING else contents)

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.merge(first, second)

    def elements(self, contents: Any) -> Sequence[Any]:
        return (self.function.get_result(contents),)


class ListContents(Contents):
    """Keeps all elements, in order of arrival."""

    keeps_values = True

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        if contents is NOTHING:
            return GrowingList((value,))
        contents.append(value)
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        raise AssertionError("windows that merge keep arrival numbers")

    def elements(self, contents: Any) -> list[Any]:
        # Another list: the function may keep or change what it gets.
        return list(contents)


class ArrivalContents(Contents):
    """Keeps all elements with arrival number and timestamp, for evictors and for windows that merge.

    Merged contents are in order of arrival, not window after window.
    """

    keeps_values = True

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        if contents is NOTHING:
            return GrowingList(((arrival, timestamp, value),))
        contents.append((arrival, timestamp, value))
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        return GrowingList(sorted([*first, *second], key=_arrival))

    def elements(self, contents: Any) -> list[Any]:
        return [value for _, _, value in contents]

    def timestamped(self, contents: Any, *, copies: bool) -> list[TimestampedValue[Any]]:
        """The elements with their timestamps, for evictors.

        Args:
            contents: The contents.
            copies: Whether the evictor gets copies of the elements, which it may change.
        """
        return [TimestampedValue(own(value) if copies else value, timestamp) for _, timestamp, value in contents]


def _arrival(entry: tuple[int, int | None, Any]) -> int:
    return entry[0]


def contents_for(function: FunctionSpec, *, evicting: bool, merging: bool) -> Contents:
    """Chooses how a step with this function keeps its contents."""
    if evicting:
        return ArrivalContents()
    if isinstance(function, ReduceSpec):
        return ReducedContents(function.reduce)
    if isinstance(function, AggregateSpec):
        return AggregatedContents(function.aggregate)
    return ArrivalContents() if merging else ListContents()


def evicted_positions(
    chosen: Iterable[Any], size: int, evictor: Evictor[Any, Any], method: str, window: object
) -> set[int]:
    """The positions that an evictor chose, each of which must be that of an element.

    Args:
        chosen: What the evictor gave.
        size: How many elements the window has.
        evictor: The evictor.
        method: Its method.
        window: The window.

    Raises:
        InvalidArgumentError: If it is not a collection of positions, or one of them is beyond the elements.
    """
    positions = list(chosen) if isinstance(chosen, Iterable) else [chosen]
    wrong = [place for place in positions if not _is_index(place) or not 0 <= operator.index(place) < size]
    if wrong:
        raise InvalidArgumentError(
            "an evictor gave positions that the window does not have",
            given=f"{shortened(wrong)} by {method} of {evictor.describe()}, for {size} elements in {window}",
            expected=f"positions from 0 to {size - 1}" if size else "no position, as the window is empty",
            hint="positions count from 0, in the order of the elements that the method was given",
        )
    return set(map(operator.index, positions))


def _is_index(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
