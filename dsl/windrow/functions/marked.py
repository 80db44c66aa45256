"""Wraps elements with the stream they come from, or with values of side inputs; calls functions without wrapping.

An operator has one input. So two streams become one, and functions of two streams are wrapped into functions of marked
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from windrow.functions.element import MapFunction
from windrow.functions.names import function_name
from windrow.functions.process import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.functions.rich import RichFunction, RuntimeContext
from windrow.functions.stateless import ProcessContext, ProcessFunction
from windrow.functions.two_inputs import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinContext,
    ProcessJoinFunction,
)
from windrow.functions.window_function import ProcessWindowContext, ProcessWindowFunction
from windrow.functions.wrapper import Wrapper, unwrapped

if TYPE_CHECKING:
    # windrow.windows needs triggers, and these need state and aggregate functions.
    from windrow.windows.window import Window

L = TypeVar("L")
U = TypeVar("U")
R = TypeVar("R")

# Any in this module: keys and elements of every type; the stages have proved that they fit.

LEFT: Final = 1
RIGHT: Final = 2


class Tagged(NamedTuple, Generic[L, U]):
    """An element of one of two streams. The field of the other stream is None."""

    side: int  # LEFT or RIGHT
    left: L | None
    right: U | None

    @property
    def value(self) -> Any:
        """The element."""
        return self.left if self.side == LEFT else self.right


class WithViews(tuple[Any, ...]):
    """An element and the values of side inputs. A copy shares the values, which functions do not change."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> WithViews:
        return WithViews((deepcopy(self[0], memo), *self[1:]))

    @property
    def value(self) -> Any:
        """The element."""
        return self[0]


# Any: whoever asks has elements of every type, marked or not.
def without_mark(element: Any) -> Any:
    """The element itself."""
    return element.value if isinstance(element, (Tagged, WithViews)) else element


class FromLeft(MapFunction[L, Tagged[L, Any]]):
    """Marks the elements of the first stream."""

    def __init__(self) -> None:
        self.__qualname__ = "left"  # its name in a plan

    def map(self, value: L) -> Tagged[L, Any]:
        return Tagged(LEFT, value, None)


class FromRight(MapFunction[U, Tagged[Any, U]]):
    """Marks the elements of the second stream."""

    def __init__(self) -> None:
        self.__qualname__ = "right"

    def map(self, value: U) -> Tagged[Any, U]:
        return Tagged(RIGHT, None, value)


class SideKey(RichFunction):
    """Takes the key from an element by the selector of its stream."""

    def __init__(self, left: Callable[[Any], Any], right: Callable[[Any], Any]) -> None:
        self.selectors = (left, right)
        self.__qualname__ = f"{function_name(left)} and {function_name(right)}"

    def open(self, runtime_context: RuntimeContext) -> None:
        for selector in self.selectors:
            if isinstance(selector, RichFunction):
                selector.open(runtime_context)

    def close(self) -> None:
        for selector in self.selectors:
            if isinstance(selector, RichFunction):
                selector.close()

    def __call__(self, element: Tagged[Any, Any]) -> Any:
        left, right = self.selectors
        return left(element.left) if element.side == LEFT else right(element.right)


def split(elements: Iterable[Tagged[Any, Any]]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The elements of the first and of the second stream."""
    left: list[Any] = []
    right: list[Any] = []
    for side, first, second in elements:
        if side == LEFT:
            left.append(first)
        else:
            right.append(second)
    return left, right


class CoProcess(Wrapper, KeyedProcessFunction[Any, Tagged[Any, Any], Any]):
    """A function of two inputs, for the operator, which has one."""

    function: KeyedCoProcessFunction[Any, Any, Any, Any]

    def __init__(self, function: KeyedCoProcessFunction[Any, Any, Any, Any]) -> None:
        super().__init__(function)
        self.uses_processing_time = function.uses_processing_time

    def process_element(self, value: Tagged[Any, Any], context: KeyedProcessContext[Any]) -> Iterable[Any] | None:
        side, left, right = value
        if side == LEFT:
            return self.function.process_element1(left, context)
        return self.function.process_element2(right, context)

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> Iterable[Any] | None:
        return self.function.on_timer(timestamp, context)

    def describe(self) -> str:
        return self.function.describe()


class CoProcessWithoutKeys(Wrapper, ProcessFunction[Tagged[Any, Any], Any]):
    """A function of two inputs without keys, for the step, which has one."""

    function: CoProcessFunction[Any, Any, Any]

    def process_element(self, value: Tagged[Any, Any], context: ProcessContext) -> Iterable[Any] | None:
        side, left, right = value
        if side == LEFT:
            return self.function.process_element1(left, context)
        return self.function.process_element2(right, context)

    def describe(self) -> str:
        return self.function.describe()


class CoProcessed(CoProcessFunction[Any, Any, Any]):
    """Calls a function for the elements of each stream; ``makes_one``: each makes one record of an element."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any], *, makes_one: bool) -> None:
        self.functions = (first, second)
        self._makes_one = makes_one

    def _opened(self) -> list[RichFunction]:
        """The user's functions to open; that of both streams once."""
        functions = {id(each): each for each in map(unwrapped, self.functions)}
        return [each for each in functions.values() if isinstance(each, RichFunction)]

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in self._opened():
            function.open(runtime_context)

    def close(self) -> None:
        for function in self._opened():
            function.close()

    def process_element1(self, value: Any, context: ProcessContext) -> Iterable[Any] | None:
        return self._results(self.functions[0](value))

    def process_element2(self, value: Any, context: ProcessContext) -> Iterable[Any] | None:
        return self._results(self.functions[1](value))

    def _results(self, made: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = [made] if self._makes_one else made
        return results

    def describe(self) -> str:
        return " and ".join(map(function_name, self.functions))


class OneRecord(Wrapper, ProcessJoinFunction[L, U, R]):
    """A function that makes one record of a pair."""

    function: Callable[[L, U], R]

    def process_element(self, left: L, right: U, context: ProcessJoinContext) -> Iterable[R]:
        return (self.function(left, right),)

    def describe(self) -> str:
        return function_name(self.function)


class JoinKind(Enum):
    """The unmatched elements that a join emits: those that have no partner in their window."""

    INNER = "join"
    """None."""

    LEFT = "left_join"
    """Those of the left stream."""

    RIGHT = "right_join"
    """Those of the right stream."""

    FULL = "full_join"
    """Those of both streams."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The sides of which an element may be missing, beside one of the other stream."""
        return _MISSING[self]


_MISSING: Final[Mapping[JoinKind, tuple[int, ...]]] = {
    JoinKind.INNER: (),
    JoinKind.LEFT: (RIGHT,),
    JoinKind.RIGHT: (LEFT,),
    JoinKind.FULL: (LEFT, RIGHT),
}


class JoinPairs(Wrapper, ProcessWindowFunction[Tagged[Any, Any], R, Any, "Window"]):
    """Calls a join function for each pair of a window."""

    def __init__(self, function: Callable[[Any, Any], R], kind: JoinKind) -> None:
        super().__init__(function)
        self.kind = kind

    def process(
        self, key: Any, context: ProcessWindowContext[Window], elements: Sequence[Tagged[Any, Any]]
    ) -> Iterable[R]:
        function = self.function
        for left, right in self.pairs(elements):
            yield function(left, right)

    def pairs(self, elements: Iterable[Tagged[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """The pairs of a window, with None for a partner that is missing.

        Args:
            elements: The elements of both streams in the window.
        """
        left, right = split(elements)
        if not left and not right:
            # An evictor has taken all elements, so none is without a partner.
            return
        missing = self.kind.missing
        if not right and RIGHT in missing:
            right = (None,)
        if not left and LEFT in missing:
            left = (None,)
        for first in left:
            for second in right:
                yield first, second

    def describe(self) -> str:
        return f"{self.kind.value} {function_name(self.function)}"


class CoGroup(Wrapper, ProcessWindowFunction[Tagged[Any, Any], R, Any, "Window"]):
    """Calls a co-group function with the elements of both streams."""

    def process(
        self, key: Any, context: ProcessWindowContext[Window], elements: Sequence[Tagged[Any, Any]]
    ) -> Iterable[R] | None:
        results: Iterable[R] | None = self.function(*split(elements))
        return results

    def describe(self) -> str:
        return f"co_group {function_name(self.function)}"
