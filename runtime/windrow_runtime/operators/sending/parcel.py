"""Copies functions as a pickle carries them to a worker of Spark, without Spark and within the process.

Lambdas and local functions travel by value, with the variables that they use; what a module has by name stays the same
object, and so do classes and modules. An object that pickle refuses, such as a lock, is refused here as well.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NewType, ParamSpec, TypeVar

from windrow.plan.closures import globals_of
from windrow_runtime.operators.class_facts import attributes_of, is_of_windrow, set_attributes, slots_of
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.sending.left_on_self import may_leave_something

# Any in this module: functions of the user's may hold objects of any type.

_SAME: Final = (types.ModuleType, types.CodeType, type, TypeVar, ParamSpec, NewType)
"""The classes of objects that stay the same objects: within one process there is no need to carry them."""


class _EmptyCell:
    """Stands for the content of a variable that has no value yet; as a class it stays the same in copies."""


class Parcel:
    """A function, or an object that has some, from which copies are made.

    Args:
        value: The function or the object.
        of_user: Whether to refuse what holds objects of the runtime, such as counters, which are no state of a user's.
        same: Objects that stay the same objects in copies.

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
        """A new copy, which shares nothing changeable with the original."""
        return _Unpickler(io.BytesIO(self._data), self._same).load()


def check_sendable(value: object) -> None:
    """Raises what pickle raises if a function, or an object that has some, cannot be sent to workers."""
    _Checker(_Nowhere(), pickle.HIGHEST_PROTOCOL).dump(value)


class _Nowhere:
    def write(self, data: object, /) -> None:
        """Drops what it gets."""


class _Checker(pickle.Pickler):
    """Pickles as :class:`_Pickler` does, without a call for each item of a collection, and drops the bytes."""

    def reducer_override(self, obj: Any) -> Any:
        # The class of the number that stands for what stays is written by its name.
        return (int, ()) if obj is not int and _stays(obj) else _reduced(obj)


class _Pickler(pickle.Pickler):
    def __init__(self, data: io.BytesIO, same: list[object], *, of_user: bool) -> None:
        super().__init__(data, pickle.HIGHEST_PROTOCOL)
        self._same = same
        self._of_user = of_user
        self._places = {id(each): place for place, each in enumerate(same)}

    # Pickle's name and its protocol: None pickles the object as usual.
    def persistent_id(self, obj: Any) -> int | None:
        if id(obj) not in self._places and not _stays(obj):
            return None
        place = self._places.setdefault(id(obj), len(self._same))
        if place == len(self._same):
            self._same.append(obj)
        return place

    def reducer_override(self, obj: Any) -> Any:
        if self._of_user and type(obj).__module__.startswith("windrow_runtime."):
            raise pickle.PicklingError("an object of the runtime")
        return _reduced(obj)


def _stays(value: object) -> bool:
    """Returns whether copies have the same object."""
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
    """Returns whether a function is one that its module has by name, so that workers find it there."""
    module = sys.modules.get(function.__module__ or "")
    if module is None or function.__module__ == "__main__":
        return is_of_windrow(function.__module__ or "")
    found: Any = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _reduced_function(function: types.FunctionType) -> tuple[Any, ...]:
    cells = list(_contents(function))
    described = (function.__qualname__, function.__module__, function.__doc__, dict(function.__annotations__))
    state = (function.__defaults__, function.__kwdefaults__, function.__dict__, globals_of(function), cells)
    made = (function.__code__, function.__globals__.get("__name__"), function.__name__, len(cells))
    # The contents come behind the function itself, which they may hold.
    return _new_function, made, (state, described), None, None, _fill


def _contents(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield _EmptyCell


def _new_function(code: types.CodeType, module: str, name: str, cells: int) -> types.FunctionType:
    # Names that the code does not have are for what it calls, such as super() and exec.
    spaces = {"__builtins__": __builtins__, "__name__": module}
    return types.FunctionType(code, spaces, name, None, tuple(types.CellType() for _ in range(cells)))


def _fill(function: types.FunctionType, given: tuple[Any, ...]) -> None:
    (defaults, keywords, attributes, spaces, cells), (qualname, module, text, annotations) = given
    function.__defaults__, function.__kwdefaults__ = defaults, keywords
    function.__dict__.update(attributes)
    function.__globals__.update(spaces)
    function.__qualname__, function.__module__, function.__doc__ = qualname, module, text
    function.__annotations__ = annotations
    for cell, value in zip(function.__closure__ or (), cells, strict=True):
        if value is not _EmptyCell:
            cell.cell_contents = value


class Renewal:
    """Resets the attributes of users' objects to those behind ``open``.

    On Spark each batch begins with new copies of a step's functions, in whatever worker has the key. So what a call
    leaves on ``self`` is gone at the next one. An attribute that cannot be pickled, such as a connection that ``open``
    has made, stays, and so does a function with what is around it.
    """

    def __init__(self, objects: Iterable[object]) -> None:
        owners = [each for each in objects if _has_attributes(each)]
        first = [attributes_of(each) for each in owners]
        changeable = [{name: value for name, value in each.items() if _may_change(value, owners)} for each in first]
        # Most functions leave nothing, and their batches need not be taken key by key.
        if not any(changeable) and not any(map(may_leave_something, owners)):
            owners, first = [], []
        self._owners, self._first = owners, first
        # All at once: attributes that share an object go on sharing it.
        self._parcel = Parcel(changeable, of_user=True, same=owners) if any(changeable) else None

    def __bool__(self) -> bool:
        return bool(self._owners)

    def renew(self) -> None:
        """Begins a batch, or a key that may be in another worker."""
        for owner, first in zip(self._owners, self._first, strict=True):
            slots, own = slots_of(type(owner)), getattr(owner, "__dict__", {})
            for name in attributes_of(owner).keys() - first.keys():
                if name in own:
                    del own[name]
                else:
                    slots[name].__delete__(owner)
            set_attributes(owner, first)
        if self._parcel is not None:
            for owner, fresh in zip(self._owners, self._parcel.unpack(), strict=True):
                set_attributes(owner, fresh)


def _has_attributes(value: object) -> bool:
    """Returns whether calls may leave something on an object; those of windrow's own classes leave nothing."""
    is_plain = isinstance(value, (types.FunctionType, type)) or is_of_windrow(type(value).__module__)
    has_own = isinstance(getattr(value, "__dict__", None), dict)
    return not is_plain and (has_own or bool(slots_of(type(value))))


_FUNCTIONS: Final = (types.FunctionType, types.MethodType, types.BuiltinMethodType)


def _may_change(value: object, owners: Sequence[object]) -> bool:
    """Returns whether a value of an attribute can be copied, and has other copies than itself."""
    if isinstance(value, _FUNCTIONS) or any(value is owner for owner in owners) or own(value) is value:
        return False
    try:
        Parcel(value, of_user=True, same=owners)
    except Exception:  # pickle may raise anything, and such a value stays
        return False
    return True
