"""Rolling aggregations of a keyed stream: a result for every element, over all elements of its key so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from windrow.errors import InvalidArgumentError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, RichFunction, RuntimeContext
from windrow.panes.changes import Change, ChangeKind
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
    """The sum."""
    return a + b


def lower(a: C, b: C) -> C:
    """The lower one; of equals the first."""
    return min(a, b)


def higher(a: C, b: C) -> C:
    """The higher one; of equals the first."""
    return max(a, b)


@dataclass(frozen=True)
class Extreme(Generic[T, C]):
    """Keeps the element with the lower or higher selected value; of equals the first."""

    selector: Callable[[T], C]
    lowest: bool

    def __call__(self, a: T, b: T) -> T:
        """The one of two elements to keep."""
        first, second = self.selector(a), self.selector(b)
        return b if (second < first if self.lowest else first < second) else a


# A list of at most one value, so that None can be one.
_SO_FAR: ListStateDescriptor[Any] = ListStateDescriptor("so-far")


class RollingReduce(KeyedProcessFunction[K, T, T], Generic[K, T]):
    """Emits, for each element, the elements of its key so far combined into one."""

    def __init__(self, function: Callable[[T, T], T], description: str) -> None:
        self._function = function
        self._description = description

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, RichFunction):
            self._function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._function, RichFunction):
            self._function.close()

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[T]:
        """Combines the element with what was combined so far."""
        state = context.get_state(_SO_FAR)
        held = state.get()
        combined: T = self._function(held[0], value) if held else value
        state.update((combined,))
        return (combined,)

    def describe(self) -> str:
        return self._description


class RollingValue(KeyedProcessFunction[K, T, tuple[K, N]], Generic[K, T, N]):
    """Emits, for each element, its key with the values of the key's elements so far combined into one."""

    def __init__(self, selector: Callable[[T], N], combine: Callable[[N, N], N], description: str) -> None:
        self._selector = selector
        self._combine = combine
        self._description = description

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[tuple[K, N]]:
        """Combines the value of the element with what was combined so far."""
        state = context.get_state(_SO_FAR)
        held = state.get()
        selected = self._selector(value)
        combined: N = self._combine(held[0], selected) if held else selected
        state.update((combined,))
        return ((context.key, combined),)

    def describe(self) -> str:
        return self._description


class NewestRow(KeyedProcessFunction[K, T, Change[R]], Generic[K, T, R]):
    """Keeps the newest row of each key, and withdraws it when the next one comes, or when it is deleted."""

    def __init__(self, change: Callable[[T], Change[R]], description: str) -> None:
        self._change = change
        self._description = description

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> list[Change[R]]:
        """Emits the changes that an element makes; none if it deletes a row that is not there."""
        change = self._change(value)
        if change.kind is ChangeKind.UPDATE_BEFORE:
            return []
        state = context.get_state(_SO_FAR)
        held = state.get()
        if change.kind is ChangeKind.DELETE:
            state.clear()
            return [Change(ChangeKind.DELETE, held[0])] if held else []
        state.update((change.value,))
        if not held:
            return [Change(ChangeKind.INSERT, change.value)]
        return [Change(ChangeKind.UPDATE_BEFORE, held[0]), Change(ChangeKind.UPDATE_AFTER, change.value)]

    def describe(self) -> str:
        return self._description


class RowChange(Generic[T]):
    """Makes a change of an element, which is the row itself."""

    def __init__(self, op: Callable[[T], ChangeKind]) -> None:
        self._op = op

    def __call__(self, element: T) -> Change[T]:
        """Returns the change; refuses what is no kind of one."""
        kind: object = self._op(element)
        if not isinstance(kind, ChangeKind):
            raise InvalidArgumentError(
                "op of from_changes has to say what a record does", given=kind, expected="a ChangeKind, such as INSERT"
            )
        return Change(kind, element)


class NewestOrDeleted(Generic[T]):
    """Makes a change of an element that is the newest row of its key, unless it says that the row is deleted."""

    def __init__(self, is_deleted: Callable[[T], bool] | None) -> None:
        self._is_deleted = is_deleted

    def __call__(self, element: T) -> Change[T]:
        """Returns the change."""
        deleted = self._is_deleted is not None and self._is_deleted(element)
        return Change(ChangeKind.DELETE if deleted else ChangeKind.UPDATE_AFTER, element)
