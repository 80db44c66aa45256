"""The kinds of state: a handle on state is a name in a dictionary, and behaves as its descriptor says.

What is stored belongs to the state alone, as if it lay on a disk: handles store copies and hand out copies. A reduce
function and an aggregate function work on the stored value itself, and may change it in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    MergingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.state.model import GrowingList, StoredList
from windrow_runtime.operators.state.time_to_live import Cells

# Any in this module: the descriptor that a user holds gives the type; behind it lies untyped data.


class StateStore:
    """Hands out state by name in a dictionary, as :class:`windrow.state.KeyedStateStore`."""

    __slots__ = ("_cells",)

    def __init__(self, cells: dict[str, Any]) -> None:
        self._cells = cells

    def get_state(self, descriptor: StateDescriptor) -> Any:
        refuse_expiry(descriptor)
        return open_state(self._cells, descriptor, descriptor.name)


def refuse_expiry(descriptor: StateDescriptor) -> None:
    """Refuse a time to live for state whose life is that of windows."""
    if getattr(descriptor, "ttl", None) is not None:
        raise UnsupportedOperationError(
            "the state of windows and triggers does not expire",
            given=descriptor.name,
            expected="a descriptor without a time to live",
            hint="it goes with its window; clear what global_state holds in the function's clear",
        )


def open_state(cells: Cells, descriptor: StateDescriptor, name: str) -> Any:
    """The handle on ``cells[name]`` that ``descriptor`` asks for."""
    kind = _KINDS.get(type(descriptor)) or _kind_of(descriptor)
    if kind is _State:
        raise InvalidArgumentError(
            "state is asked for by a descriptor",
            given=descriptor,
            expected="a Value-, List-, Map-, Reducing- or AggregatingStateDescriptor",
        )
    if type(cells) is dict and name in cells:
        stored = type(cells[name])
        if (stored in _LISTS) is not (kind is _List) or (kind is MapHandle and stored is not dict):
            raise InvalidArgumentError(
                "the state of this name is of another kind",
                given=f"{type(descriptor).__name__}({descriptor.name!r}), and the state holds a {stored.__name__}",
                expected="one descriptor for each name",
                hint="give each state of a step a name of its own",
            )
    return kind(cells, name, descriptor)


def merge_values(descriptor: MergingStateDescriptor, first: Any, second: Any) -> Any:
    """The stored form of two pieces of state as one; ``first`` began earlier."""
    return _kind_of(descriptor).merged(descriptor, first, second)


class _State:
    """A kind of state: its instances are handles on the state of a name."""

    __slots__ = ("_cells", "_descriptor", "_name")

    def __init__(self, cells: Cells, name: str, descriptor: Any) -> None:
        self._cells = cells
        self._name = name
        self._descriptor = descriptor

    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        """Makes one of two pieces of state as they are stored."""
        raise InvalidArgumentError(
            "this kind of state cannot be merged",
            given=descriptor,
            expected="a List-, Reducing- or AggregatingStateDescriptor",
        )

    def clear(self) -> None:
        """Forget what is stored."""
        self._cells.pop(self._name, None)


class _Value(_State):
    def value(self) -> Any:
        return own(self._cells.get(self._name))

    def update(self, value: Any) -> None:
        # As in Flink, None is no value.
        if value is None:
            self.clear()
        else:
            self._cells[self._name] = own(value)


class _List(_State):
    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        return GrowingList([*first, *second])

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


class MapHandle(_State):
    """A handle on a map."""

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
        return map(own, list(self._cells.get(self._name, _EMPTY)))

    def values(self) -> Iterator[Any]:
        return map(own, list(self._cells.get(self._name, _EMPTY).values()))

    def items(self) -> Iterator[tuple[Any, Any]]:
        return map(own, list(self._cells.get(self._name, _EMPTY).items()))

    def is_empty(self) -> bool:
        return self._name not in self._cells


_EMPTY: Final[dict[Any, Any]] = {}
_LISTS: Final = frozenset({GrowingList, StoredList})


class _Reducing(_State):
    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        return descriptor.reduce_function(first, second)

    def get(self) -> Any:
        return own(self._cells.get(self._name))

    def add(self, value: Any) -> None:
        cells, name, mine = self._cells, self._name, own(value)
        cells[name] = self._descriptor.reduce_function(cells[name], mine) if name in cells else mine


class _Aggregating(_State):
    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        return descriptor.aggregate_function.merge(first, second)

    def get(self) -> Any:
        if self._name not in self._cells:
            return None
        return own(self._descriptor.aggregate_function.get_result(self._cells[self._name]))

    def add(self, value: Any) -> None:
        cells, name, function = self._cells, self._name, self._descriptor.aggregate_function
        accumulator = cells[name] if name in cells else own(function.create_accumulator())
        cells[name] = function.add(own(value), accumulator)


_KINDS: Final[dict[type[Any], type[_State]]] = {
    ValueStateDescriptor: _Value,
    ListStateDescriptor: _List,
    MapStateDescriptor: MapHandle,
    ReducingStateDescriptor: _Reducing,
    AggregatingStateDescriptor: _Aggregating,
}


def _kind_of(descriptor: StateDescriptor) -> type[_State]:
    """The kind of the class of a descriptor, or of one that it is derived from; ``_State`` itself for others."""
    return next((_KINDS[base] for base in type(descriptor).__mro__ if base in _KINDS), _State)
