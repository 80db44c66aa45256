"""Functions of random pipelines that change what they are given and what they emit. No output may show it.

The elements are :class:`Loose`: events that can be changed. What a function does to one after it has used it, another
window, another branch, a later firing or a sink would show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from tests.differential.functions import folded
from tests.spark.comparison import Event
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    RuntimeContext,
)
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

# Any in this module: keys, windows and results of every kind.

_SPOILT = 10**9


@dataclass
class Loose:
    """An event that can be changed.

    Attributes:
        key: The key.
        at: The timestamp in milliseconds.
        value: A number to tell events apart.
    """

    key: str
    at: int
    value: int


@dataclass
class Noted:
    """A result that can be changed.

    Attributes:
        key: The key.
        numbers: What was found.
    """

    key: Any
    numbers: list[int] = field(default_factory=list)


# Any: the steps behind take one for an event.
def loosened(event: Event) -> Any:
    """An event as one that can be changed."""
    return Loose(event.key, event.at, event.value)


_tidy = False


@contextmanager
def tidied() -> Iterator[None]:
    """Within it the functions change nothing but accumulators, and emit each object once: what comes out is right."""
    global _tidy  # noqa: PLW0603  the functions are those of a plan that is made already
    _tidy = True
    try:
        yield
    finally:
        _tidy = False


def _fresh(value: Any) -> Any:
    """A copy if all is to be tidy, else the value itself."""
    return deepcopy(value) if _tidy else value


def _spoil(value: Any) -> None:
    """Changes all of a value that can be changed."""
    if _tidy:
        return
    if isinstance(value, Loose):
        value.value += _SPOILT
    elif isinstance(value, Noted):
        value.numbers.append(_SPOILT)
    elif isinstance(value, list):
        for part in value:
            _spoil(part)
        value.clear()
    elif isinstance(value, tuple):
        for part in value:
            _spoil(part)


def folded_and_spoilt(element: Any) -> Event:
    """What a step emitted as an element for the next one."""
    event = folded(element)
    _spoil(element)
    return event


def joined_in_place(a: Loose, b: Loose) -> Loose:
    """Differs for every order of elements, and changes both."""
    a = _fresh(a)
    a.at = (a.at + 2 * b.at) % 100_003
    a.value = (31 * a.value + b.value) % 1_000_003
    _spoil(b)
    return a


class Listed(AggregateFunction[Loose, Noted, Noted]):
    """Shows the elements in their order, in one object that it goes on changing."""

    def create_accumulator(self) -> Noted:
        return Noted("")

    def add(self, value: Loose, accumulator: Noted) -> Noted:
        accumulator.key = value.key
        accumulator.numbers.append(value.value)
        _spoil(value)
        return accumulator

    def get_result(self, accumulator: Noted) -> Noted:
        return cast(Noted, _fresh(accumulator))

    def merge(self, a: Noted, b: Noted) -> Noted:
        a.key = max(a.key, b.key)
        a.numbers += b.numbers
        return a


class Spoiler(ProcessWindowFunction[Any, Any, Any, Any]):
    """Emits what another function does, and then spoils that and the elements."""

    def __init__(self, function: ProcessWindowFunction[Any, Any, Any, Any]) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def process(self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]) -> Iterator[Any]:
        for result in self._function.process(key, context, elements) or ():
            yield result
            _spoil(result)
        _spoil(elements)

    def clear(self, context: ProcessWindowContext[Any]) -> None:
        self._function.clear(context)

    def describe(self) -> str:
        return f"Spoiler({self._function.describe()})"


def spread_and_spoilt(key: Any, window: Any, elements: Sequence[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """For ``apply``: an element of the result for each of the window, spoilt after it was emitted."""
    for element in elements:
        yield key, window, element
        _spoil(element)


class Holder(KeyedProcessFunction[Any, Loose, Noted]):
    """Emits the objects that it keeps in state, and changes them before and afterwards.

    Args:
        kept: How many elements a list in state has at most.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._total = ValueStateDescriptor[Noted]("total")
        self._recent = ListStateDescriptor[Loose]("recent")
        self._by_value = MapStateDescriptor[int, Noted]("by value")

    def describe(self) -> str:
        return f"Holder({self._kept})"

    def process_element(self, value: Loose, context: KeyedProcessContext[Any]) -> Iterator[Noted] | None:
        if value.value % 7 == 0:
            return None
        return self._results(value, context)

    def _results(self, value: Loose, context: KeyedProcessContext[Any]) -> Iterator[Noted]:
        state = context.get_state(self._total)
        total = _fresh(state.value()) or Noted(context.key)
        total.numbers.append(value.value)
        state.update(_fresh(total))
        yield total
        _spoil(total)
        by_value = context.get_state(self._by_value)
        one = _fresh(by_value.get(value.value % 3)) or Noted(context.key)
        one.numbers.append(value.at)
        by_value.put(value.value % 3, one)
        for held in by_value.values():
            yield _fresh(held)
            _spoil(held)
        recent = context.get_state(self._recent)
        recent.add(value)
        _spoil(value)
        if len(recent.get()) > self._kept:
            recent.update(recent.get()[1:])
        out = Noted(context.key)
        for event in recent.get():
            out.numbers.append(event.value)
            yield _fresh(out)
            _spoil(event)
