"""Copies values, so that each owner of a value can change it unseen by the others.

A step that emits a value fixes it by a copy: the function may go on changing its own. A constant needs no copy, and
:func:`own` gives it back as it is. Containers and plain classes are copied by their structure, which takes a tenth of
the time of :func:`copy.deepcopy`; what has its own way to be copied or pickled goes through ``deepcopy``.
"""

from __future__ import annotations

import copyreg
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from copy import Error as CopyError
from copy import deepcopy
from pickle import PicklingError
from typing import Any, Final

from windrow.functions import AggregateFunction
from windrow.plan.types import base_argument
from windrow_runtime.operators.attributes import attributes_of, slots_of
from windrow_runtime.operators.constants import (
    CONSTANT_TYPES,
    is_constant_class,
    is_constant_type,
    is_frozen,
    is_named_tuple,
)

# Any in this module: values of every type.
_Memo = dict[int, Any]


def own(value: Any) -> Any:
    """A copy of a value that shares nothing changeable with it; a constant is given back as it is.

    A part that cannot be copied at all, such as an open file or a generator, stays the same object in the copy.

    Raises:
        Exception: What methods of the value raise, such as ``__deepcopy__``.
        RecursionError: If it is nested too deep.
    """
    kind = type(value)
    if kind in CONSTANT_TYPES:
        return value
    return (_COPIERS.get(kind) or _learn(kind)).copy(value)


def own_all(values: list[Any]) -> list[Any]:
    """A copy of each of some values; the list itself where all are constants."""
    if CONSTANT_TYPES.issuperset(map(type, values)):
        return values
    return list(map(own, values))


def accumulator_maker(function: AggregateFunction[Any, Any, Any]) -> Callable[[], Any]:
    """``create_accumulator`` of a function, such that no two windows begin with one changeable object."""
    create = function.create_accumulator
    if is_constant_type(base_argument(function, AggregateFunction, 1)):
        return create
    return lambda: own(create())


class _Copier(ABC):
    """Copies the values of one class."""

    @abstractmethod
    def copy(self, value: Any) -> Any:
        """A copy, or the value itself if it is a constant."""

    @abstractmethod
    def copy_part(self, value: Any, memo: _Memo) -> Any:
        """A copy of a part of a larger value, whose other parts may be the same object.

        Args:
            value: The part.
            memo: The copies that were made already, by the ids of what they are copies of.
        """


def _part(value: Any, memo: _Memo) -> Any:
    kind = type(value)
    if kind in CONSTANT_TYPES:
        return value
    found = memo.get(id(value))
    if found is not None:
        return found
    return (_COPIERS.get(kind) or _learn(kind)).copy_part(value, memo)


def _all_constant(parts: Iterable[Any]) -> bool:
    return CONSTANT_TYPES.issuperset(map(type, parts))


class _Constants(_Copier):
    """Values that need no copy."""

    def copy(self, value: Any) -> Any:
        return value

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        return value


class _Lists(_Copier):
    def copy(self, value: Any) -> Any:
        return value.copy() if _all_constant(value) else self.copy_part(value, {})

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        made: list[Any] = []
        memo[id(value)] = made
        made.extend([_part(part, memo) for part in value])
        return made


class _Sets(_Lists):
    def copy_part(self, value: Any, memo: _Memo) -> Any:
        made: set[Any] = set()
        memo[id(value)] = made
        made.update([_part(part, memo) for part in value])
        return made


class _Deques(_Lists):
    def copy_part(self, value: Any, memo: _Memo) -> Any:
        made: deque[Any] = deque(maxlen=value.maxlen)
        memo[id(value)] = made
        made.extend([_part(part, memo) for part in value])
        return made


class _Dicts(_Copier):
    def copy(self, value: Any) -> Any:
        is_flat = _all_constant(value) and _all_constant(value.values())
        return value.copy() if is_flat else self.copy_part(value, {})

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        made: dict[Any, Any] = {} if type(value) is dict else defaultdict(value.default_factory)
        memo[id(value)] = made
        for key, part in value.items():
            made[_part(key, memo)] = _part(part, memo)
        return made


class _ByteArrays(_Copier):
    def copy(self, value: Any) -> Any:
        return value.copy()

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        made = memo[id(value)] = value.copy()
        return made


class _Fixed(_Copier):
    """Tuples, named tuples and frozen sets: constants if all that they hold are.

    Args:
        make: Makes one of its parts.
    """

    def __init__(self, make: Callable[[list[Any]], Any]) -> None:
        self._make = make

    def copy(self, value: Any) -> Any:
        return value if _all_constant(value) else self.copy_part(value, {})

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        if _all_constant(value):
            return value
        given = list(value)
        parts = [_part(part, memo) for part in given]
        if all(part is same for part, same in zip(given, parts, strict=True)):
            return value
        # A list in it may hold the tuple itself, and has met its copy then.
        found = memo.get(id(value))
        if found is None:
            found = memo[id(value)] = self._make(parts)
        return found


class _Records(_Copier):
    """Instances of a class that Python itself keeps and pickles, by attributes and slots.

    Args:
        kind: The class.
    """

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._frozen = is_frozen(kind)
        self._has_dict = bool(kind.__dictoffset__)
        self._slots = tuple(slots_of(kind).values())
        self._flat = self._has_dict and not self._slots and not _overrides(kind, "__setattr__")

    def copy(self, value: Any) -> Any:
        if self._flat:
            held = value.__dict__
            if _all_constant(held.values()):
                made = _NEW(self._kind)
                made.__dict__ = held.copy()
                return made
        return self.copy_part(value, {})

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        if self._frozen and all(map(_is_constant, attributes_of(value).values())):
            return value
        made = memo[id(value)] = _NEW(self._kind)
        if self._has_dict:
            held = {name: _part(part, memo) for name, part in value.__dict__.items()}
            # Not through a __setattr__ of the class, which may refuse.
            object.__setattr__(made, "__dict__", held)
        for slot in self._slots:
            try:
                part = slot.__get__(value)
            except AttributeError:
                continue  # the slot is empty
            slot.__set__(made, _part(part, memo))
        return made


def _is_constant(value: Any) -> bool:
    return type(value) in CONSTANT_TYPES or (type(value) in _MAY_BE_CONSTANT and own(value) is value)


_MAY_BE_CONSTANT: Final[set[type]] = {tuple, frozenset}
"""Types that have constant values: those whose parts are constants."""

_NEW: Final[Any] = object.__new__


class _Deep(_Copier):
    """Values that know themselves how they are copied."""

    def copy(self, value: Any) -> Any:
        return self.copy_part(value, {})

    def copy_part(self, value: Any, memo: _Memo) -> Any:
        try:
            return deepcopy(value, memo)
        except (TypeError, CopyError, PicklingError):
            # It has no copy, and on Spark it could not leave the process either.
            return value


_COPIERS: Final[dict[type, _Copier]] = {
    list: _Lists(),
    dict: _Dicts(),
    defaultdict: _Dicts(),
    set: _Sets(),
    deque: _Deques(),
    bytearray: _ByteArrays(),
    tuple: _Fixed(tuple),
    frozenset: _Fixed(frozenset),
}


def _learn(kind: type[Any]) -> _Copier:
    copier = _COPIERS[kind] = _copier_for(kind)
    if isinstance(copier, _Fixed) or (isinstance(copier, _Records) and is_frozen(kind)):
        _MAY_BE_CONSTANT.add(kind)
    return copier


def _copier_for(kind: type[Any]) -> _Copier:
    if issubclass(kind, type) or is_constant_class(kind):
        return _Constants()
    if _has_own_way(kind):
        return _Deep()
    if is_named_tuple(kind):
        return _Fixed(lambda parts: tuple.__new__(kind, parts))
    if hasattr(kind, "__getnewargs__"):
        return _Deep()
    try:
        _NEW(kind)
    except TypeError:
        # It is derived from a built-in type, whose data are no attributes.
        return _Deep()
    return _Records(kind)


def _has_own_way(kind: type[Any]) -> bool:
    """Returns whether a class says how it is copied or pickled."""
    if kind in copyreg.dispatch_table or any(hasattr(kind, name) for name in _WAYS):
        return True
    if _overrides(kind, "__reduce__") or _overrides(kind, "__reduce_ex__"):
        return True
    # Dataclasses with slots get a pair of their own, which does what is done here.
    pair = [getattr(kind, name, None) for name in ("__getstate__", "__setstate__")]
    if all(getattr(method, "__module__", None) == "dataclasses" for method in pair):
        return False
    return _overrides(kind, "__getstate__") or _overrides(kind, "__setstate__")


def _overrides(kind: type[Any], name: str) -> bool:
    return getattr(kind, name, None) is not getattr(object, name, None)


_WAYS: Final = ("__deepcopy__", "__copy__", "__getnewargs_ex__")
