"""Rolling aggregations of a keyed stream: a result for every element, over all elements of its key so far."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from windrow.calls.results import UnfitValueError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, RichFunction, RuntimeContext
from windrow.rows.equality import precedes
from windrow.state import ListStateDescriptor

T = TypeVar("T")
K = TypeVar("K")
N = TypeVar("N")
R = TypeVar("R")
C = TypeVar("C", bound="Comparable")


class Comparable(Protocol):
    """A value that has an order."""

    # Any: each type compares with its own kind; a protocol cannot name it.
    def __lt__(self, other: Any, /) -> bool:
        """Whether it comes before ``other``."""
        ...


# Any: two of a kind of number make one of that kind, which no signature of an operator says.
def added(a: Any, b: Any) -> Any:
    """The sum, which texts do not have."""
    if isinstance(b, (str, bytes)):
        raise UnfitValueError(
            "a sum got a text",
            given=f"{b!r:.200}",
            expected="numbers or time spans",
            hint="let the selector give a number: lambda element: int(element.text)",
        )
    return a + b


def lower(a: C, b: C) -> C:
    """The lower one; of equals the first."""
    return b if precedes(b, a) else a


def higher(a: C, b: C) -> C:
    """The higher one; of equals the first."""
    return b if precedes(a, b) else a


@dataclass(frozen=True)
class Extreme(Generic[T, C]):
    """Keeps the element with the lower or higher selected value; of equals the first."""

    selector: Callable[[T], C]
    lowest: bool

    def __call__(self, a: T, b: T) -> T:
        """The one of two elements to keep."""
        first, second = self.selector(a), self.selector(b)
        return b if (precedes(second, first) if self.lowest else precedes(first, second)) else a

    def check_first(self, value: T) -> None:
        """Raise for an element that fails, or would fail with all that come after it, as the first of its key."""
        selected = self.selector(value)
        precedes(selected, selected)


# A list of at most one value, so that None can be one.
_SO_FAR: ListStateDescriptor[Any] = ListStateDescriptor("so-far")


class Calling(KeyedProcessFunction[K, T, R], Generic[K, T, R]):
    """The base of functions that call a user's function, which they open and close if it is a rich one."""

    # Any: functions of one and of two arguments.
    _called: Callable[..., Any]

    def selection(self) -> tuple[str, Callable[..., Any] | None] | None:
        """Returns what the function does with what it selects from elements and keeps, and the selector.

        A selector of None takes the element itself. A checkpoint compares both with those of the run before.
        """
        return None

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._called, RichFunction):
            self._called.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._called, RichFunction):
            self._called.close()


class RollingReduce(Calling[K, T, T], Generic[K, T]):
    """Emits, for each element, the elements of its key so far combined into one."""

    def __init__(self, function: Callable[[T, T], T], description: str) -> None:
        self._function = function
        self._called = function.selector if isinstance(function, Extreme) else function
        self._description = description

    def selection(self) -> tuple[str, Callable[..., Any] | None] | None:
        return ("compares", self._function.selector) if isinstance(self._function, Extreme) else None

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[T]:
        """Combines the element with what was combined so far."""
        state = context.get_state(_SO_FAR)
        held = state.get()
        if not held and isinstance(self._function, Extreme):
            self._function.check_first(value)
        combined: T = self._function(held[0], value) if held else value
        state.update((combined,))
        return (combined,)

    def describe(self) -> str:
        return self._description


class RollingValue(Calling[K, T, tuple[K, N]], Generic[K, T, N]):
    """Emits, for each element, its key with the values of the key's elements so far combined into one."""

    def __init__(self, selector: Callable[[T], N], combine: Callable[[N, N], N], description: str) -> None:
        self._called = selector
        self._combine = combine
        self._description = description

    def selection(self) -> tuple[str, Callable[..., Any] | None] | None:
        return "takes", self._called

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[tuple[K, N]]:
        """Combines the value of the element with what was combined so far."""
        state = context.get_state(_SO_FAR)
        held = state.get()
        selected: N = self._called(value)
        if held:
            combined = self._combine(held[0], selected)
        else:
            combined = selected
            with suppress(ArithmeticError):  # two of it may be too much
                self._combine(selected, selected)  # what it fails for would fail with all that come after it
        state.update((combined,))
        return ((context.key, combined),)

    def describe(self) -> str:
        return self._description
