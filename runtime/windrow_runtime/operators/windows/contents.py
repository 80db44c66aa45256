"""Keeps the contents of windows, and finds the parts of a window step that see elements, and so may change them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from windrow.errors import InvalidArgumentError
from windrow.evictors import DeltaEvictor, Evictor
from windrow.facts.packages import is_of_windrow
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, FunctionSpec, ReduceSpec, WindowNode
from windrow.plan.types import base_argument
from windrow.triggers import DeltaTrigger, Trigger
from windrow.triggers.trigger import with_parts
from windrow.windows import (
    CalendarProcessingTimeWindows,
    CalendarWindows,
    CumulativeEventTimeWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
)
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import accumulator_maker, own
from windrow_runtime.operators.errors import shortened
from windrow_runtime.operators.state.model import NOTHING, GrowingList

# Any in this module: contents hold elements and accumulators of every type.


class Contents(ABC):
    """Keeps the contents of windows. ``NOTHING`` stands for none."""

    # Elements are kept as they are, and only copies are handed out. Else windows must not share an element that is
    # added: a function may change it.
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
    """Keeps all elements with arrival number and timestamp, which orders them where windows merge, and for evictors."""

    keeps_values = True

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        if contents is NOTHING:
            return GrowingList(((arrival, timestamp, value),))
        contents.append((arrival, timestamp, value))
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        return GrowingList(sorted([*first, *second], key=operator.itemgetter(0)))

    def elements(self, contents: Any) -> list[Any]:
        return [value for _, _, value in contents]


def contents_for(function: FunctionSpec, *, evicting: bool, merging: bool) -> Contents:
    """Chooses how a step with this function keeps its contents."""
    if evicting:
        return ArrivalContents()
    if isinstance(function, ReduceSpec):
        return ReducedContents(function.reduce)
    if isinstance(function, AggregateSpec):
        return AggregatedContents(function.aggregate)
    return ArrivalContents() if merging else ListContents()


def computed(spec: FunctionSpec, elements: Sequence[Any]) -> Sequence[Any] | None:
    """Reduces or aggregates buffered elements; returns None where a reduce has no element."""
    if isinstance(spec, ReduceSpec):
        return (reduce(spec.reduce, elements),) if elements else None
    if isinstance(spec, AggregateSpec):
        accumulator = own(spec.aggregate.create_accumulator())
        for element in elements:
            accumulator = spec.aggregate.add(element, accumulator)
        return (spec.aggregate.get_result(accumulator),)
    return elements


def evicted_positions(chosen: Any, size: int, evictor: Evictor[Any, Any], method: str, window: object) -> set[int]:
    """Returns the positions that a method of an evictor chose; refuses one outside of 0 to ``size`` - 1."""
    positions = list(chosen) if isinstance(chosen, Iterable) else [chosen]
    wrong = [position for position in positions if not _is_index(position) or not 0 <= operator.index(position) < size]
    if wrong:
        refused = None if chosen is None else wrong
        raise InvalidArgumentError(
            "an evictor gave positions that the window does not have",
            given=f"{shortened(refused)} by {method} of {evictor.describe()}, for {size} elements in {window}",
            expected=f"positions from 0 to {size - 1}" if size else "no position, as the window is empty",
            hint="return () to evict nothing"
            if chosen is None
            else "positions count from 0, in the order of the elements that the method was given",
        )
    return set(map(operator.index, positions))


def _is_index(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


# The parts of windrow's own that show elements to users' code, or keep them. One that is not named here gets no copies:
# a test fails for each new trigger, evictor and assigner until somebody has decided.
_SLIDING = (
    CalendarProcessingTimeWindows,
    CalendarWindows,
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
)
_DYNAMIC = (DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Names the parts of a window step that get copies of elements, since they may change them."""

    windows: bool  # each window that an element is added to
    assigner: bool
    trigger: bool
    evictor: bool
    process: bool

    @classmethod
    def of(cls, node: WindowNode, contents: Contents) -> Exposure:
        """The exposure of a step, as far as its plan shows it: constants need no copies."""
        changeable = not is_constant_type(node.input.element_type)
        spec, assigner, evictor = node.function, node.assigner, node.evictor
        gives_changeable = changeable
        if isinstance(spec, AggregateSpec):
            gives_changeable = not is_constant_type(base_argument(spec.aggregate, AggregateFunction, 2))
        several = not is_own(assigner) or isinstance(assigner, _SLIDING)
        return cls(
            windows=changeable and several and not contents.keeps_values,
            assigner=changeable and (not is_own(assigner) or isinstance(assigner, _DYNAMIC)),
            trigger=changeable and _sees_elements(node.effective_trigger),
            evictor=changeable and evictor is not None and (not is_own(evictor) or isinstance(evictor, DeltaEvictor)),
            process=spec.process is not None and gives_changeable,
        )


def is_own(part: object) -> bool:
    """Returns whether a part is of a class of windrow's own. One that a user derives from it may do anything."""
    return is_of_windrow(type(part).__module__)


def _sees_elements(trigger: Trigger[Any, Any]) -> bool:
    """Returns whether a trigger hands elements to the user's code, or keeps them: of windrow's own, one does."""
    return any(not is_own(part) or isinstance(part, DeltaTrigger) for part in with_parts(trigger))
