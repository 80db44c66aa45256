"""Handles on state: a name in a dictionary, behaving as its descriptor says.

What is stored belongs to the state alone, as if it lay on a disk: handles store copies and hand out copies. A reduce
function and an aggregate function work on the stored value itself, and may change it in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.functions import AggregateFunction
from windrow.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.state.stored_list import GrowingList
from windrow_runtime.operators.state.time_to_live import Cells

__all__ = ["StateAccess", "StateStore", "merge_values", "open_state", "refuse_expiry"]

# Any in this module: the descriptor that a user holds gives the type; behind it lies untyped data.


class StateAccess(ABC):
    """Hands out state by descriptor, as :class:`windrow.state.KeyedStateStore`."""

    __slots__ = ()

    @overload
    def get_state(self, descriptor: ValueStateDescriptor[Any]) -> ValueState[Any]: ...
    @overload
    def get_state(self, descriptor: ListStateDescriptor[Any]) -> ListState[Any]: ...
    @overload
    def get_state(self, descriptor: MapStateDescriptor[Any, Any]) -> MapState[Any, Any]: ...
    @overload
    def get_state(self, descriptor: ReducingStateDescriptor[Any]) -> ReducingState[Any]: ...
    @overload
    def get_state(
        self, descriptor: AggregatingStateDescriptor[Any, Any, Any]
    ) -> AggregatingState[Any, Any]: ...
    def get_state(self, descriptor: StateDescriptor) -> Any:
        """The handle on the state that ``descriptor`` names."""
        return self.open(descriptor)

    @abstractmethod
    def open(self, descriptor: StateDescriptor) -> Any:
        """The handle of the state of a descriptor of any kind."""


class StateStore(StateAccess):
    """State by name in a dictionary."""

    __slots__ = ("_cells",)

    def __init__(self, cells: dict[str, Any]) -> None:
        self._cells = cells

    def open(self, descriptor: StateDescriptor) -> Any:
        refuse_expiry(descriptor)
        return open_state(self._cells, descriptor, descriptor.name)


def refuse_expiry(descriptor: StateDescriptor) -> None:
    """Refuse a time to live for state whose life is that of windows.

    Raises:
        UnsupportedOperationError: If the descriptor has one.
    """
    if getattr(descriptor, "ttl", None) is not None:
        raise UnsupportedOperationError(
            "the state of windows and triggers does not expire",
            given=descriptor.name,
            expected="a descriptor without a time to live",
            hint="it goes with its window; clear what global_state holds in the function's clear",
        )


def open_state(cells: Cells, descriptor: StateDescriptor, name: str) -> Any:
    """The handle on ``cells[name]`` that ``descriptor`` asks for."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return _Reducing(cells, name, descriptor.reduce_function)
    if isinstance(descriptor, ValueStateDescriptor):
        return _Value(cells, name)
    if isinstance(descriptor, ListStateDescriptor):
        return _List(cells, name)
    if isinstance(descriptor, MapStateDescriptor):
        return _Map(cells, name)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return _Aggregating(cells, name, descriptor.aggregate_function)
    raise InvalidArgumentError(
        "state is asked for by a descriptor",
        given=descriptor,
        expected="a Value-, List-, Map-, Reducing- or AggregatingStateDescriptor",
    )


def merge_values(descriptor: MergingStateDescriptor, first: Any, second: Any) -> Any:
    """The stored form of two pieces of state as one; ``first`` began earlier."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return descriptor.reduce_function(first, second)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return descriptor.aggregate_function.merge(first, second)
    if isinstance(descriptor, ListStateDescriptor):
        return GrowingList([*first, *second])
    raise InvalidArgumentError(
        "this kind of state cannot be merged",
        given=descriptor,
        expected="a List-, Reducing- or AggregatingStateDescriptor",
    )


class _Cell:
    __slots__ = ("_cells", "_name")

    def __init__(self, cells: Cells, name: str) -> None:
        self._cells = cells
        self._name = name

    def clear(self) -> None:
        """Forget what is stored."""
        self._cells.pop(self._name, None)


class _Value(_Cell):
    __slots__ = ()

    def value(self) -> Any:
        return own(self._cells.get(self._name))

    def update(self, value: Any) -> None:
        self._cells[self._name] = own(value)


class _List(_Cell):
    __slots__ = ()

    def get(self) -> list[Any]:
        return own_all(list(self._cells.get(self._name, ())))

    def add(self, value: Any) -> None:
        mine = own(value)
        self._cells.setdefault(self._name, GrowingList()).append(mine)

    def add_all(self, values: Iterable[Any]) -> None:
        added = [own(value) for value in values]
        if added:
            self._cells.setdefault(self._name, GrowingList()).extend(added)

    def update(self, values: Iterable[Any]) -> None:
        replaced = GrowingList(map(own, values))
        if replaced:
            self._cells[self._name] = replaced
        else:
            self.clear()


class _Map(_Cell):
    __slots__ = ()

    def get(self, key: Any) -> Any:
        return own(self._cells.get(self._name, _EMPTY).get(key))

    def put(self, key: Any, value: Any) -> None:
        mine = own(value)
        self._cells.setdefault(self._name, {})[own(key)] = mine

    def remove(self, key: Any) -> None:
        held = self._cells.get(self._name)
        if held is not None:
            held.pop(key, None)
            if not held:
                self.clear()

    def contains(self, key: Any) -> bool:
        return key in self._cells.get(self._name, _EMPTY)

    # Iteration goes over a copy, so that a loop may change the map.
    def keys(self) -> Iterator[Any]:
        return map(own, list(self._cells.get(self._name, _EMPTY).keys()))

    def values(self) -> Iterator[Any]:
        return map(own, list(self._cells.get(self._name, _EMPTY).values()))

    def items(self) -> Iterator[tuple[Any, Any]]:
        return map(own, list(self._cells.get(self._name, _EMPTY).items()))

    def is_empty(self) -> bool:
        return self._name not in self._cells


_EMPTY: dict[Any, Any] = {}


class _Reducing(_Cell):
    __slots__ = ("_reduce",)

    def __init__(self, cells: Cells, name: str, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(cells, name)
        self._reduce = reduce

    def get(self) -> Any:
        return own(self._cells.get(self._name))

    def add(self, value: Any) -> None:
        cells = self._cells
        name = self._name
        mine = own(value)
        cells[name] = self._reduce(cells[name], mine) if name in cells else mine


class _Aggregating(_Cell):
    __slots__ = ("_aggregate",)

    def __init__(self, cells: Cells, name: str, aggregate: AggregateFunction[Any, Any, Any]) -> None:
        super().__init__(cells, name)
        self._aggregate = aggregate

    def get(self) -> Any:
        if self._name not in self._cells:
            return None
        return own(self._aggregate.get_result(self._cells[self._name]))

    def add(self, value: Any) -> None:
        cells = self._cells
        if self._name in cells:
            accumulator = cells[self._name]
        else:
            accumulator = own(self._aggregate.create_accumulator())
        cells[self._name] = self._aggregate.add(own(value), accumulator)
