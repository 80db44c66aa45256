"""Copies functions within the process by cloudpickle, as sending them to a Spark worker would, without Spark.

Lambdas and local functions are copied by value, with the variables that they use; functions that a module has by name,
classes and modules stay the same objects. An object that pickle refuses, such as a lock, is refused here as well.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Sequence
from typing import Any, Final, NewType, ParamSpec, TypeVar

import cloudpickle

from windrow.facts.packages import is_of_runtime

# Any in this module: functions of the user's may hold objects of any type, and cloudpickle has no types.

_SAME: Final = (types.ModuleType, types.CodeType, type, TypeVar, ParamSpec, NewType)
"""The classes whose objects are not copied."""


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


class _FilesRefused(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Refuses open files, of which cloudpickle would send the content."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, io.TextIOWrapper):
            raise TypeError(f"cannot pickle {type(obj).__name__!r} object")
        return super().reducer_override(obj)


class _Checker(_FilesRefused):
    """Pickles as :class:`_Pickler` does, without a call for each item of a collection."""

    def reducer_override(self, obj: Any) -> Any:
        # Objects that are not copied are written as an int; its class is written by its name.
        return (int, ()) if obj is not int and _stays(obj) else super().reducer_override(obj)


class _Pickler(_FilesRefused):
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
        if self._of_user and is_of_runtime(type(obj).__module__):
            raise pickle.PicklingError("an object of the runtime")
        return super().reducer_override(obj)


def _stays(value: object) -> bool:
    """Returns whether an object is not copied."""
    return isinstance(value, _SAME) or value is sys.stdout or value is sys.stderr


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, same: list[object]) -> None:
        super().__init__(data)
        self._same = same

    def persistent_load(self, pid: int) -> object:
        return self._same[pid]
