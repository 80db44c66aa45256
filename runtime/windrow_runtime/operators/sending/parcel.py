"""Copies functions within the process as sending them to a Spark worker by pickle would, without Spark.

Lambdas and local functions are copied by value, with the variables that they use; functions that a module has by name,
classes and modules stay the same objects. An object that pickle refuses, such as a lock, is refused here as well.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NewType, ParamSpec, TypeVar

from windrow.calls.attributes import attribute_of
from windrow.facts.code import globals_of
from windrow_runtime.operators.class_facts import (
    attributes_of,
    delete_attributes,
    is_of_windrow,
    set_attributes,
    slots_of,
)
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.sending.left_on_self import may_leave_something

# Any in this module: functions of the user's may hold objects of any type.

_SAME: Final = (types.ModuleType, types.CodeType, type, TypeVar, ParamSpec, NewType)
"""The classes whose objects are not copied."""


class _EmptyCell:
    """Stands for the content of a closure variable that has no value yet; as a class it is not copied."""


class Parcel:
    """A pickled function, or an object that has some, from which copies are made.

    Args:
        value: The function or the object.
        of_user: Whether to refuse objects of the runtime, such as counters, since they are not the user's state.
        same: Objects that are not copied.

    Raises:
        Exception: What pickle, or a method of the user's class that it calls, raises if something cannot be pickled.
    """

    def __init__(self, value: object, *, of_user: bool = False, same: Sequence[object] = ()) -> None:
        self._same = list(same)
        data = io.BytesIO()
        _Pickler(data, self._same, of_user=of_user).dump(value)
        self._data = data.getvalue()

    # Any: it is of the class of what was packed.
    def unpack(self) -> Any:
        """Returns a new copy, which shares nothing changeable with the original."""
        return _Unpickler(io.BytesIO(self._data), self._same).load()


def check_sendable(value: object) -> None:
    """Raises pickle's error if a function, or an object that has some, cannot be sent to workers."""
    _Checker(_Nowhere(), pickle.HIGHEST_PROTOCOL).dump(value)


class _Nowhere:
    def write(self, data: object, /) -> None:
        """Ignores the data."""


class _Checker(pickle.Pickler):
    """Pickles as :class:`_Pickler` does, without a call for each item of a collection, and drops the bytes."""

    def reducer_override(self, obj: Any) -> Any:
        # Objects that are not copied are written as an int; its class is written by its name.
        return (int, ()) if obj is not int and _stays(obj) else _reduced(obj)


class _Pickler(pickle.Pickler):
    def __init__(self, data: io.BytesIO, same: list[object], *, of_user: bool) -> None:
        super().__init__(data, pickle.HIGHEST_PROTOCOL)
        self._same = same
        self._of_user = of_user
        self._places = {id(each): index for index, each in enumerate(same)}

    # Pickle's name and its protocol: None pickles the object as usual.
    def persistent_id(self, obj: Any) -> int | None:
        if id(obj) not in self._places and not _stays(obj):
            return None
        index = self._places.setdefault(id(obj), len(self._same))
        if index == len(self._same):
            self._same.append(obj)
        return index

    def reducer_override(self, obj: Any) -> Any:
        if self._of_user and type(obj).__module__.startswith("windrow_runtime."):
            raise pickle.PicklingError("an object of the runtime")
        return _reduced(obj)


def _stays(value: object) -> bool:
    """Returns whether an object is not copied."""
    if isinstance(value, types.FunctionType):
        return is_by_reference(value)
    return isinstance(value, _SAME) or value is sys.stdout or value is sys.stderr


def _reduced(value: Any) -> Any:
    if isinstance(value, types.FunctionType):
        return _reduced_function(value)
    if isinstance(value, types.MappingProxyType):
        return types.MappingProxyType, (dict(value),)
    return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, same: list[object]) -> None:
        super().__init__(data)
        self._same = same

    def persistent_load(self, pid: int) -> object:
        return self._same[pid]


def is_by_reference(function: types.FunctionType) -> bool:
    """Returns whether workers find a function by its name in its module."""
    module = sys.modules.get(function.__module__ or "")
    if module is None or function.__module__ == "__main__":
        return is_of_windrow(function.__module__ or "")
    value: Any = module
    for part in function.__qualname__.split("."):
        value = getattr(value, part, None)
    return value is function


def _reduced_function(function: types.FunctionType) -> tuple[Any, ...]:
    cells = list(_contents(function))
    described = (function.__qualname__, function.__module__, function.__doc__, dict(function.__annotations__))
    state = (function.__defaults__, function.__kwdefaults__, function.__dict__, globals_of(function), cells)
    arguments = (function.__code__, function.__globals__.get("__name__"), function.__name__, len(cells))
    # The contents are set after the function exists, since they may refer to it.
    return _new_function, arguments, (state, described), None, None, _fill


def _contents(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield _EmptyCell


def _new_function(code: types.CodeType, module: str, name: str, cells: int) -> types.FunctionType:
    # These globals are not among the code's own names, but super() and exec, for example, need them.
    spaces = {"__builtins__": __builtins__, "__name__": module}
    return types.FunctionType(code, spaces, name, None, tuple(types.CellType() for _ in range(cells)))


def _fill(function: types.FunctionType, states: tuple[Any, ...]) -> None:
    (defaults, keywords, attributes, spaces, cells), (qualname, module, text, annotations) = states
    function.__defaults__, function.__kwdefaults__ = defaults, keywords
    function.__dict__.update(attributes)
    function.__globals__.update(spaces)
    function.__qualname__, function.__module__, function.__doc__ = qualname, module, text
    function.__annotations__ = annotations
    for cell, value in zip(function.__closure__ or (), cells, strict=True):
        if value is not _EmptyCell:
            cell.cell_contents = value


class Renewal:
    """Resets the attributes of users' objects to the values that they had after ``open``.

    On Spark each batch begins with new copies of a step's functions, in any worker. So attributes that a call sets on
    ``self`` are gone at the next batch. An attribute that cannot be pickled, such as a connection made in ``open``, is
    kept, and so is a function with its closure.
    """

    def __init__(self, objects: Iterable[object]) -> None:
        owners = list(filter(has_attributes, objects))
        first = [attributes_of(each) for each in owners]
        changeable = [{name: value for name, value in each.items() if _may_change(value, owners)} for each in first]
        # Most functions set no attributes, and their batches need not be processed key by key.
        if not any(changeable) and not any(map(may_leave_something, owners)):
            owners, first = [], []
        self._owners, self._first = owners, first
        # All attributes are copied together, so that those that share an object go on sharing it.
        self._parcel = Parcel(changeable, of_user=True, same=owners) if any(changeable) else None

    def __bool__(self) -> bool:
        return bool(self._owners)

    def renew(self) -> None:
        """Resets the attributes, before a batch, or before a key that may be in another worker."""
        for owner, first in zip(self._owners, self._first, strict=True):
            delete_attributes(owner, attributes_of(owner).keys() - first.keys())
            set_attributes(owner, first)
        if self._parcel is not None:
            for owner, fresh in zip(self._owners, self._parcel.unpack(), strict=True):
                set_attributes(owner, fresh)


def has_attributes(value: object) -> bool:
    """Returns whether calls may set attributes of an object; objects of windrow's own classes are left out."""
    is_plain = isinstance(value, (types.FunctionType, type)) or is_of_windrow(type(value).__module__)
    has_own = isinstance(attribute_of(value, "__dict__"), dict)
    return not is_plain and (has_own or bool(slots_of(type(value))))


_FUNCTIONS: Final = (types.FunctionType, types.MethodType, types.BuiltinMethodType)


def _may_change(value: object, owners: Sequence[object]) -> bool:
    """Returns whether an attribute's value can be copied, and is not immutable."""
    if isinstance(value, _FUNCTIONS) or any(value is owner for owner in owners) or own(value) is value:
        return False
    return is_sendable(value, owners)


def is_sendable(value: object, same: Sequence[object]) -> bool:
    """Returns whether a value can be pickled; the objects in ``same`` are not part of it."""
    try:
        Parcel(value, of_user=True, same=same)
    except Exception:  # pickle may raise anything
        return False
    return True
