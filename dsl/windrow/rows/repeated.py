"""Functions of keyed streams that leave out what repeats, and functions with a state by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, Final, Generic, TypeVar

from windrow.calls.results import UnfitValueError
from windrow.errors import InvalidArgumentError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.functions.names import function_name
from windrow.rolling import Calling
from windrow.rows.equality import as_key, as_stored, is_same
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.time import TimeDomain, duration_text

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")

_PARTS: Final = 2
_DOMAINS: Final = {TimeDomain.EVENT_TIME: "event time", TimeDomain.PROCESSING_TIME: "clock"}


class PassesFirst(KeyedProcessFunction[K, T, T], Generic[K, T]):
    """The base of functions that pass on an element of a key, and no other one like it for some time.

    Attributes:
        seen: Describes the state that remembers what passed, each for its time to live.
        compares_values: Whether elements of a key are alike that have the same value; otherwise all of a key are.
        selector: Takes the value from an element; None: it is the element itself.
    """

    # Any: the values of a map may be of every type.
    seen: ValueStateDescriptor[bool] | MapStateDescriptor[Any, bool]
    compares_values: ClassVar[bool] = False
    selector: Callable[[T], Hashable] | None = None


class FirstOfKey(PassesFirst[K, T], Generic[K, T]):
    """Passes on an element of a key, and no other one for some time after it."""

    def __init__(self, remembered: StateTtlConfig) -> None:
        self._seen = self.seen = ValueStateDescriptor("seen", ttl=remembered, type_=bool)

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[T, ...]:
        """Passes on the element if the mark of an earlier one has expired."""
        seen = context.get_state(self._seen)
        if seen.value() is not None:
            return ()
        seen.update(True)
        return (value,)

    def describe(self) -> str:
        return f"first within {_time_text(self._seen.ttl)}"


class DistinctOfKey(PassesFirst[K, T], Calling[K, T, T], Generic[K, T]):
    """Passes on an element of a key, and none with the same selected value for some time after it."""

    compares_values = True

    def __init__(self, selector: Callable[[T], Hashable] | None, remembered: StateTtlConfig) -> None:
        self._called = selector or _itself
        self.selector = selector
        self._seen = self.seen = MapStateDescriptor[Hashable, bool]("seen", ttl=remembered)

    def selection(self) -> tuple[str, Callable[..., Any] | None] | None:
        return "compares", self.selector

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[T, ...]:
        """Passes on the element if the entry of its selected value has expired."""
        seen, mark = context.get_state(self._seen), as_stored(self._called(value))
        try:
            hash(mark)
        except TypeError as error:
            raise UnfitValueError(
                "distinct got a value that has no hash",
                given=f"{mark!r:.200}",
                expected="scalars, tuples of them, or frozen records",
                hint="let the selector give a tuple of what tells the elements apart",
            ) from error
        if seen.contains(mark):
            return ()
        seen.put(mark, True)
        return (value,)

    def describe(self) -> str:
        return f"distinct within {_time_text(self._seen.ttl)}"


class OnChange(Calling[K, T, T], Generic[K, T]):
    """Passes on an element whose selected value is another than that of the key's element before it."""

    # A list of at most one value, so that None can be one.
    before: ListStateDescriptor[object] = ListStateDescriptor("before")

    def __init__(self, selector: Callable[[T], object]) -> None:
        self._called = self.selector = selector

    def selection(self) -> tuple[str, Callable[..., Any] | None] | None:
        return "compares", self._called

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[T, ...]:
        """Compares the selected value with the one before."""
        before = context.get_state(self.before)
        held, selected = before.get(), as_key(self._called(value))
        if held and is_same(held[0], selected):
            return ()
        before.update((selected,))
        return (value,)

    def describe(self) -> str:
        return "on change"


class _Stateful(Calling[K, T, R], Generic[K, T, S, R]):
    """The base of functions that get the state of a key, and return the new one."""

    def __init__(
        self, initial: Callable[[], S], function: Callable[[S, T], object], ttl: StateTtlConfig | None
    ) -> None:
        self._initial = initial
        self._called = function
        self._state: ListStateDescriptor[S] = ListStateDescriptor("state", ttl=ttl)

    # Any: the builder has typed what the function returns.
    def _answer(self, value: T, context: KeyedProcessContext[K]) -> Any:
        """Calls the function with the state of the key, stores the new state, and returns the rest."""
        state = context.get_state(self._state)
        held = state.get()
        answer = self._called(held[0] if held else self._initial(), value)
        if not isinstance(answer, tuple) or len(answer) != _PARTS:
            raise InvalidArgumentError(
                f"the function of {self.describe()} returns the new state and what it makes of the element",
                given=f"{answer!r:.200}",
                expected="a tuple of two",
            )
        following, made = answer
        if following is None:
            state.clear()
        else:
            state.update((following,))
        return made


class StatefulMap(_Stateful[K, T, S, R], Generic[K, T, S, R]):
    """Makes an element of each, with a state by key."""

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> tuple[R]:
        return (self._answer(value, context),)

    def describe(self) -> str:
        return f"stateful map {function_name(self._called)}"


class StatefulFlatMap(_Stateful[K, T, S, R], Generic[K, T, S, R]):
    """Makes any number of elements of each, with a state by key."""

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> Iterable[R]:
        made: Iterable[R] = self._answer(value, context)
        return made

    def describe(self) -> str:
        return f"stateful flat map {function_name(self._called)}"


def _itself(value: T) -> T:
    return value


def _time_text(ttl: StateTtlConfig | None) -> str:
    assert ttl is not None, "marks expire"
    return f"{duration_text(ttl.millis)} of {_DOMAINS[ttl.time_domain]}"
