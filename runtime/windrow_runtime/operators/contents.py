"""The contents of windows: how elements are added, merged, and given to functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from windrow.evictors import TimestampedValue
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, FunctionSpec, ReduceSpec
from windrow_runtime.operators.state import NOTHING
from windrow_runtime.operators.stored_list import GrowingList

__all__ = [
    "AggregatedContents",
    "ArrivalContents",
    "Contents",
    "ListContents",
    "ReducedContents",
    "contents_for",
]

# Any in this module: contents hold elements and accumulators of every type.


class Contents(ABC):
    """How the contents of a window are kept. ``NOTHING`` stands for none."""

    @abstractmethod
    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        """The contents with one more element."""

    @abstractmethod
    def merge(self, first: Any, second: Any) -> Any:
        """The contents of two windows as one; ``first`` began earlier."""

    @abstractmethod
    def elements(self, contents: Any) -> Sequence[Any]:
        """What the window function gets."""


class ReducedContents(Contents):
    """One element, reduced from all."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self.reduce = reduce

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        return value if contents is NOTHING else self.reduce(contents, value)

    def merge(self, first: Any, second: Any) -> Any:
        return self.reduce(first, second)

    def elements(self, contents: Any) -> Sequence[Any]:
        return (contents,)


class AggregatedContents(Contents):
    """One accumulator."""

    def __init__(self, function: AggregateFunction[Any, Any, Any]) -> None:
        self.function = function

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        function = self.function
        return function.add(value, function.create_accumulator() if contents is NOTHING else contents)

    def merge(self, first: Any, second: Any) -> Any:
        return self.function.merge(first, second)

    def elements(self, contents: Any) -> Sequence[Any]:
        return (self.function.get_result(contents),)


class ListContents(Contents):
    """All elements, in order of arrival."""

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        if contents is NOTHING:
            return GrowingList((value,))
        contents.append(value)
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        raise AssertionError("windows that merge keep arrival numbers")

    def elements(self, contents: Any) -> Sequence[Any]:
        # A copy: the function may keep or change what it gets.
        return list(contents)


class ArrivalContents(Contents):
    """All elements with arrival number and timestamp: for evictors, and for windows that merge.

    Merged contents are in order of arrival, not window after window.
    """

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        if contents is NOTHING:
            return GrowingList(((arrival, timestamp, value),))
        contents.append((arrival, timestamp, value))
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        return GrowingList(sorted([*first, *second], key=_arrival))

    def elements(self, contents: Any) -> Sequence[Any]:
        return [value for _, _, value in contents]

    def timestamped(self, contents: Any) -> list[TimestampedValue[Any]]:
        """The elements with their timestamps, for evictors."""
        return [TimestampedValue(value, timestamp) for _, timestamp, value in contents]


def _arrival(entry: tuple[int, int | None, Any]) -> int:
    return entry[0]


def contents_for(function: FunctionSpec, *, evicting: bool, merging: bool) -> Contents:
    """How a step with this function keeps its contents."""
    if evicting:
        return ArrivalContents()
    if isinstance(function, ReduceSpec):
        return ReducedContents(function.reduce)
    if isinstance(function, AggregateSpec):
        return AggregatedContents(function.aggregate)
    return ArrivalContents() if merging else ListContents()
