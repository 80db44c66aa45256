"""Implements the handles on state (value, list, map, reducing, aggregating) over a dictionary of values by name.

Handles store copies and return copies, as if state lay on a disk. Only a reduce function and an aggregate function work
on the stored value itself, and may change it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    MergingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from windrow_runtime.operators.copies import own, own_all, own_whole
from windrow_runtime.operators.state.model import GrowingList, StoredList
from windrow_runtime.operators.state.time_to_live import Cells, TtlCells, other_cells
from windrow_runtime.operators.state.undo import UndoLog

# Any in this module: the user's descriptor gives the type, and the stored data is untyped.


class StateStore:
    """Opens handles on the state of a key or window, with the interface of :class:`windrow.state.KeyedStateStore`.

    An operator points it at a key's state before each call, and the handles with it. So a function may keep a handle,
    which serves the key of each call, as in Flink.

    Attributes:
        cells: The state of the key by name; None between calls.
        undo: Notes the changes of a call that may fail; None: nothing is taken back.
    """

    __slots__ = ("_expiring", "_handles", "cells", "undo", "views")

    def __init__(self, expiring: Callable[[str, StateTtlConfig], TtlCells] | None = None) -> None:
        """Make a store; ``expiring`` returns the view that a call has of state with a time to live. None: none has."""
        self.cells: dict[str, Any] | None = None
        self.undo: UndoLog | None = None
        self.views: dict[_ExpiringStore, TtlCells] = {}
        self._handles: dict[str, _State] = {}
        self._expiring = expiring

    def at(self, cells: dict[str, Any] | None) -> StateStore:
        """Points the store and its handles at a key's state, or at none after a call; returns the store."""
        self.cells = cells
        if self.views:
            self.views.clear()
        return self

    @property
    def is_used(self) -> bool:
        """Whether a function has asked for a handle, which it may have kept."""
        return bool(self._handles)

    def get_state(self, descriptor: StateDescriptor) -> Any:
        """Returns the handle for a descriptor, which need not have a key yet."""
        name = getattr(descriptor, "name", "")
        handle = self._handles.get(name)
        if handle is not None and handle.descriptor is descriptor:
            return handle
        ttl: StateTtlConfig | None = getattr(descriptor, "ttl", None)
        if ttl is not None and self._expiring is None:
            refuse_expiry(descriptor)
        handle = open_state(self if ttl is None else _ExpiringStore(self, name, ttl), descriptor)
        if self.cells is not None:
            handle.current_cells()
        if len(self._handles) == _MOST_HANDLES:
            self._handles.clear()
        self._handles[name] = handle
        return handle

    def view(self, of: _ExpiringStore) -> TtlCells:
        """Returns the current call's view of a state that has a time to live."""
        assert self._expiring is not None, "get_state() refuses others"
        view = self.views[of] = self._expiring(of.name, of.ttl)
        return view


_MOST_HANDLES: Final = 64
"""The handles that a store has ready; a function whose descriptors have names without end has new ones made."""


class HasCells(Protocol):
    """What handles read: an object that has the state of the current key, or None between calls."""

    @property
    def cells(self) -> Cells | None: ...

    @property
    def undo(self) -> UndoLog | None: ...


class _ExpiringStore:
    """The part of a store that one state with a time to live has."""

    __slots__ = ("_store", "name", "ttl")

    def __init__(self, store: StateStore, name: str, ttl: StateTtlConfig) -> None:
        self._store = store
        self.name = name
        self.ttl = ttl

    @property
    def cells(self) -> TtlCells | None:
        store = self._store
        return store.views.get(self) or (None if store.cells is None else store.view(self))

    @property
    def undo(self) -> UndoLog | None:
        return self._store.undo


def refuse_expiry(descriptor: StateDescriptor) -> None:
    """Refuse a time to live for state of windows and triggers, which ends with its window."""
    if getattr(descriptor, "ttl", None) is not None:
        raise UnsupportedOperationError(
            "the state of windows and triggers does not expire",
            given=descriptor.name,
            expected="a descriptor without a time to live",
            hint="it goes with its window; clear what global_state holds in the function's clear",
        )


def open_state(store: HasCells, descriptor: StateDescriptor, scope: str = "") -> Any:
    """Returns a handle on the state that ``descriptor`` declares, whose name begins with ``scope`` in the store."""
    class_ = _KINDS.get(type(descriptor)) or _kind_of(descriptor)
    if class_ is _State:
        raise InvalidArgumentError(
            "state is asked for by a descriptor",
            given=descriptor,
            expected="a Value-, List-, Map-, Reducing- or AggregatingStateDescriptor",
        )
    if isinstance(store, _ExpiringStore):
        class_ = _EXPIRING.get(class_, class_)
    return class_(store, scope + descriptor.name, descriptor)


def _check_kind(class_: type[_State], descriptor: StateDescriptor, stored: Any, *, is_pair: bool = False) -> None:
    """Refuse a descriptor of another kind than the state that is stored; values that expire are stored as pairs."""
    stored_type = type(stored)
    if (
        (stored_type in _LISTS) is not (class_ is _List)
        or (class_ is MapHandle and stored_type is not dict)
        or (is_pair and (stored_type is dict) is not (class_ is MapHandle))
    ):
        shown = type(stored[1]) if is_pair and stored_type is tuple else stored_type
        raise InvalidArgumentError(
            "the state of this name is of another kind",
            given=f"{type(descriptor).__name__}({descriptor.name!r}), and the state holds a {shown.__name__}",
            expected="one descriptor for each name",
            hint="give each state of a step a name of its own",
        )


def _adopt_expiring(cells: dict[str, Any], class_: type[_State], descriptor: StateDescriptor, name: str) -> None:
    """Converts state that was stored while its descriptor had a time to live."""
    for other in other_cells(name, name):
        if other in cells:
            stored = cells[other]
            _check_kind(class_, descriptor, stored, is_pair=True)
            cells[name] = _without_times(stored)
            del cells[other]
            return


def _adopt_lasting(cells: TtlCells, class_: type[_State], descriptor: StateDescriptor, name: str) -> None:
    """Converts state that was stored while its descriptor had no time to live, or one in another time domain."""
    for other in other_cells(name, cells.cell):
        if other in cells.cells:
            stored = cells.cells[other]
            _check_kind(class_, descriptor, stored, is_pair=other != name)
            lasting = stored if other == name else _without_times(stored)
            cells.begin()
            del cells.cells[other]
            now = cells.now
            if class_ is MapHandle:
                cells.cells[cells.cell] = {key: (now, value) for key, value in lasting.items()}
            elif class_ is _List:
                cells.cells[cells.cell] = GrowingList((now, value) for value in lasting)
            else:
                cells.cells[cells.cell] = (now, lasting)
            return


def _without_times(stored: Any) -> Any:
    if type(stored) is dict:
        return {key: value for key, (_, value) in stored.items()}
    return GrowingList(value for _, value in stored) if type(stored) in _LISTS else stored[1]


def merge_values(descriptor: MergingStateDescriptor, first: Any, second: Any) -> Any:
    """Merges two stored values of a state, of which ``first`` began earlier."""
    return _kind_of(descriptor).merged(descriptor, first, second)


_UNCHECKED: Final = object()


class _State:
    """The base of handles on the state of one name, which serve the key that their store is pointed at."""

    __slots__ = ("_checked", "_name", "_store", "descriptor")

    # Any: a descriptor of the handle's kind.
    def __init__(self, store: HasCells, name: str, descriptor: Any) -> None:
        self._store = store
        self._name = name
        self.descriptor = descriptor
        self._checked: Any = _UNCHECKED  # the cells of the key for which the handle was used last

    # Any: the cells of a key, or a view of them; lists and maps that expire are of classes of their own.
    def current_cells(self) -> Any:
        """Returns the state of the current key, after it was checked and converted to what the descriptor declares."""
        cells = self._store.cells
        if cells is not self._checked:
            if cells is None:
                raise UnsupportedOperationError(
                    "a state handle was used where there is no key",
                    given=f"the state {self.descriptor.name!r}",
                    expected="a use in a call for a key, such as process_element or on_timer",
                    hint="a handle serves the key of each call; open() and close() have none",
                )
            self._prepare(cells)
            self._checked = cells
        return cells

    def _prepare(self, cells: Any) -> None:
        """Checks that stored state is of the descriptor's kind, and converts what was stored with another expiry."""
        expiring = isinstance(cells, TtlCells)
        stored, cell = (cells.cells, cells.cell) if expiring else (cells, self._name)
        if not stored:
            return
        class_ = _KINDS.get(type(self.descriptor)) or _kind_of(self.descriptor)
        if cell not in stored:
            self._note_adoption(stored, (cell, *other_cells(self._name, cell)))
            (_adopt_lasting if expiring else _adopt_expiring)(cells, class_, self.descriptor, self._name)
        if cell in stored:
            _check_kind(class_, self.descriptor, stored[cell], is_pair=expiring)

    def _note_adoption(self, stored: dict[str, Any], names: Sequence[str]) -> None:
        """Notes state that is about to be converted, with the timer that removes it, if the call may be taken back."""
        undo = self._store.undo
        if undo is not None and any(map(stored.__contains__, names)):
            undo.add(partial(setattr, self, "_checked", _UNCHECKED))
            for name in names:
                undo.cell(stored, name, in_place=True)

    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        """Merges two stored values of this kind of state."""
        raise InvalidArgumentError(
            "this kind of state cannot be merged",
            given=descriptor,
            expected="a List-, Reducing- or AggregatingStateDescriptor",
        )

    def _note(self, *, in_place: bool = False) -> None:
        """Notes the stored value before a change, if the call may be taken back."""
        undo = self._store.undo
        if undo is not None:
            cells = self.current_cells()
            if isinstance(cells, TtlCells):
                undo.cell(cells.cells, cells.cell, in_place=in_place)
            else:
                undo.cell(cells, self._name, in_place=in_place)

    def clear(self) -> None:
        """Remove the stored value."""
        self._note()
        self.current_cells().pop(self._name, None)

    def holds(self) -> bool:
        """Returns whether a value is stored that has not expired."""
        return self._name in self.current_cells()


class _Value(_State):
    def value(self) -> Any:
        cells = self.current_cells()
        if isinstance(cells, TtlCells) and cells.refresh_on_read:
            self._note()
        return own(cells.get(self._name))

    def update(self, value: Any) -> None:
        # As in Flink, None clears the state.
        if value is None:
            self.clear()
        else:
            self._note()
            self.current_cells()[self._name] = own(value)


class _List(_State):
    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        return GrowingList([*first, *second])

    def get(self) -> list[Any]:
        return own_all(list(self.current_cells().get(self._name, ())))

    def add(self, value: Any) -> None:
        stored_value = own(value)
        self._note()
        self.current_cells().setdefault(self._name, GrowingList()).append(stored_value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = [own(value) for value in values]
        if added:
            self._note()
            self.current_cells().setdefault(self._name, GrowingList()).extend(added)

    def update(self, values: Iterable[Any]) -> None:
        replaced = GrowingList(map(own, values))
        if replaced:
            self._note()
            self.current_cells()[self._name] = replaced
        else:
            self.clear()


class MapHandle(_State):
    """A handle on a map."""

    def get(self, key: Any) -> Any:
        return own(self.current_cells().get(self._name, _EMPTY).get(key))

    def put(self, key: Any, value: Any) -> None:
        stored_value = own(value)
        self._note_entry(key)
        self.current_cells().setdefault(self._name, {})[own(key)] = stored_value

    def _note_entry(self, key: Any) -> None:
        """Notes the entry of a key before it is set, if the call may be taken back."""
        undo = self._store.undo
        if undo is not None:
            entries = self.current_cells().get(self._name)
            if entries is None:
                self._note()
            else:
                undo.entry(entries, key)

    def remove(self, key: Any) -> None:
        entries = self.current_cells().get(self._name)
        if entries is not None:
            if self._store.undo is not None and key in entries:
                self._store.undo.entries(entries)
            entries.pop(key, None)
            if not entries:
                self.clear()

    def contains(self, key: Any) -> bool:
        return key in self.current_cells().get(self._name, _EMPTY)

    # Iteration goes over a copy, so that a loop may change the map.
    def keys(self) -> Iterator[Any]:
        return map(own, list(self.current_cells().get(self._name, _EMPTY)))

    def values(self) -> Iterator[Any]:
        return map(own, list(self.current_cells().get(self._name, _EMPTY).values()))

    def items(self) -> Iterator[tuple[Any, Any]]:
        return map(own, list(self.current_cells().get(self._name, _EMPTY).items()))

    def is_empty(self) -> bool:
        return self._name not in self.current_cells()


_EMPTY: Final[dict[Any, Any]] = {}
_LISTS: Final = frozenset({GrowingList, StoredList})


class _Reducing(_State):
    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        return descriptor.reduce_function(first, second)

    def get(self) -> Any:
        cells = self.current_cells()
        if isinstance(cells, TtlCells) and cells.refresh_on_read:
            self._note(in_place=True)  # a later add() may change the value that is noted
        return own(cells.get(self._name))

    def add(self, value: Any) -> None:
        cells, name, stored_value = self.current_cells(), self._name, own(value)
        self._note(in_place=True)
        cells[name] = self.descriptor.reduce_function(cells[name], stored_value) if name in cells else stored_value


class _Aggregating(_State):
    @staticmethod
    def merged(descriptor: Any, first: Any, second: Any) -> Any:
        return descriptor.aggregate_function.merge(first, second)

    def get(self) -> Any:
        cells = self.current_cells()
        self._note(in_place=True)
        return own(self.descriptor.aggregate_function.get_result(cells[self._name])) if self._name in cells else None

    def add(self, value: Any) -> None:
        self._note(in_place=True)
        cells, name, function = self.current_cells(), self._name, self.descriptor.aggregate_function
        if name in cells:
            accumulator = cells[name]
        else:
            copy = own if self._store.undo is None else own_whole
            accumulator = copy(function.create_accumulator())
        cells[name] = function.add(own(value), accumulator)


class _ExpiringList(_State):
    """A handle on a list whose elements expire one by one."""

    def _alive(self) -> list[tuple[int, Any]]:
        cells = self.current_cells()
        return [entry for entry in cells.cells.get(cells.cell, ()) if cells.is_alive(entry[0])]

    def _append(self, values: list[Any]) -> None:
        cells = self.current_cells()
        if values:
            self._note()
            cells.begin()
            now = cells.now
            cells.cells.setdefault(cells.cell, GrowingList()).extend([(now, value) for value in values])

    def get(self) -> list[Any]:
        cells, alive = self.current_cells(), self._alive()
        if alive and cells.refresh_on_read:
            self._note()
            cells.cells[cells.cell] = GrowingList((max(cells.now, written), value) for written, value in alive)
        return own_all([value for _, value in alive])

    def add(self, value: Any) -> None:
        self._append([own(value)])

    def add_all(self, values: Iterable[Any]) -> None:
        self._append([own(value) for value in values])

    def update(self, values: Iterable[Any]) -> None:
        replaced = [own(value) for value in values]
        self.clear()
        self._append(replaced)

    def holds(self) -> bool:
        return bool(self._alive())


class _ExpiringMap(_State):
    """A handle on a map whose entries expire one by one."""

    def _stored(self) -> dict[Any, tuple[int, Any]]:
        cells = self.current_cells()
        stored: dict[Any, tuple[int, Any]] = cells.cells.get(cells.cell, _EMPTY)
        return stored

    def _read(self, key: Any) -> tuple[int, Any] | None:
        """Returns the time and value of a key's entry, if it has not expired."""
        cells, stored = self.current_cells(), self._stored()
        entry = stored.get(key)
        if entry is None or not cells.is_alive(entry[0]):
            return None
        if cells.refresh_on_read:
            if self._store.undo is not None:
                self._store.undo.entry(stored, key)
            stored[key] = entry = (max(cells.now, entry[0]), entry[1])
        return entry

    def _read_all(self) -> dict[Any, Any]:
        cells, stored = self.current_cells(), self._stored()
        alive = {key: entry for key, entry in stored.items() if cells.is_alive(entry[0])}
        if cells.refresh_on_read and stored:
            if self._store.undo is not None:
                self._store.undo.entries(stored)
            stored.update({key: (max(cells.now, written), value) for key, (written, value) in alive.items()})
        return {key: value for key, (_, value) in alive.items()}

    def get(self, key: Any) -> Any:
        entry = self._read(key)
        return None if entry is None else own(entry[1])

    def put(self, key: Any, value: Any) -> None:
        cells, stored_value = self.current_cells(), own(value)
        undo = self._store.undo
        if undo is not None:
            undo.cell(cells.cells, cells.cell)
        cells.begin()
        stored = cells.cells.setdefault(cells.cell, {})
        written = cells.now
        before = stored.get(key)
        if undo is not None and (before is None or cells.is_alive(before[0])):
            undo.entry(stored, key)
        if before is not None:
            if cells.is_alive(before[0]):
                written = max(written, before[0])
            else:
                if undo is not None:
                    undo.entries(stored)
                del stored[key]  # so that the new entry comes after the others
        stored[own(key)] = (written, stored_value)

    def remove(self, key: Any) -> None:
        stored = self._stored()
        if stored:
            if self._store.undo is not None and key in stored:
                self._store.undo.entries(stored)
            stored.pop(key, None)
            if not stored:
                self.clear()

    def contains(self, key: Any) -> bool:
        return self._read(key) is not None

    def keys(self) -> Iterator[Any]:
        return map(own, self._read_all())

    def values(self) -> Iterator[Any]:
        return map(own, self._read_all().values())

    def items(self) -> Iterator[tuple[Any, Any]]:
        return map(own, self._read_all().items())

    def is_empty(self) -> bool:
        return not self.holds()

    def holds(self) -> bool:
        is_alive = self.current_cells().is_alive
        return any(is_alive(written) for written, _ in self._stored().values())


_KINDS: Final[dict[type[Any], type[_State]]] = {
    ValueStateDescriptor: _Value,
    ListStateDescriptor: _List,
    MapStateDescriptor: MapHandle,
    ReducingStateDescriptor: _Reducing,
    AggregatingStateDescriptor: _Aggregating,
}


_EXPIRING: Final[dict[type[_State], type[_State]]] = {_List: _ExpiringList, MapHandle: _ExpiringMap}
"""The handles whose elements or entries expire one by one, by the handles without a time to live."""


def _kind_of(descriptor: StateDescriptor) -> type[_State]:
    """Returns the handle class for a descriptor's class or a base of it; ``_State`` itself if there is none."""
    return next((_KINDS[base] for base in type(descriptor).__mro__ if base in _KINDS), _State)
