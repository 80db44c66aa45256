"""Copies values, so that each owner of a value can change it unseen by the others.

A step that emits a value fixes it by a copy: the function may go on changing its own. A constant needs no copy, and
:func:`own` gives it back as it is. Containers and plain classes are copied by their structure, which takes a tenth of
the time of :func:`copy.deepcopy`; what has its own way to be copied or pickled goes through ``deepcopy``.
"""

from __future__ import annotations

import copyreg
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from copy import Error as CopyError
from copy import deepcopy
from functools import partial
from operator import is_
from pickle import PicklingError
from typing import Any, Final

from windrow.functions import AggregateFunction
from windrow.plan.types import base_argument
from windrow_runtime.operators.class_facts import (
    CONSTANT_TYPES,
    attributes_of,
    is_constant_class,
    is_constant_type,
    is_frozen,
    is_named_tuple,
    set_attributes,
    slots_of,
)

# Any in this module: values of every type.
_Memo = dict[int, Any]
"""The copies that were made already, by the ids of what they are copies of."""


def own(value: Any) -> Any:
    """A copy of a value that shares nothing changeable with it; a constant is given back as it is.

    A part that cannot be copied at all, such as an open file or a generator, stays the same object in the copy.
    """
    kind = type(value)
    if kind in CONSTANT_TYPES:
        return value
    return (_COPIERS.get(kind) or _learn(kind))(value, None)


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


_Copier = Callable[[Any, _Memo | None], Any]
"""Makes a copy of a value of one class, or gives a constant back; no memo: the value is no part of a larger one."""


def _part(value: Any, memo: _Memo) -> Any:
    """A copy of a part of a larger value, whose other parts may be the same object."""
    kind = type(value)
    if kind in CONSTANT_TYPES:
        return value
    found = memo.get(id(value))
    if found is not None:
        return found
    return (_COPIERS.get(kind) or _learn(kind))(value, memo)


def _all_constant(parts: Iterable[Any]) -> bool:
    return CONSTANT_TYPES.issuperset(map(type, parts))


def _collection(begin: Callable[[Any], Any], extend: Callable[[Any, list[Any]], None]) -> _Copier:
    """Copies lists and the like, which may hold themselves."""

    def copy(value: Any, memo: _Memo | None) -> Any:
        if memo is None:
            if _all_constant(value):
                return value.copy()
            memo = {}
        made = memo[id(value)] = begin(value)
        extend(made, [_part(part, memo) for part in value])
        return made

    return copy


def _copy_dict(value: Any, memo: _Memo | None) -> Any:
    if memo is None:
        if _all_constant(value) and _all_constant(value.values()):
            return value.copy()
        memo = {}
    made: dict[Any, Any] = {} if type(value) is dict else defaultdict(value.default_factory)
    memo[id(value)] = made
    for key, part in value.items():
        made[_part(key, memo)] = _part(part, memo)
    return made


def _copy_bytes(value: Any, memo: _Memo | None) -> Any:
    made = value.copy()
    if memo is not None:
        memo[id(value)] = made
    return made


def _fixed(make: Callable[[list[Any]], Any]) -> _Copier:
    """Copies tuples, named tuples and frozen sets, which are constants if all that they hold are."""

    def copy(value: Any, memo: _Memo | None) -> Any:
        if _all_constant(value):
            return value
        if memo is None:
            memo = {}
        given = list(value)
        parts = [_part(part, memo) for part in given]
        if all(map(is_, given, parts)):
            return value
        # A list in it may hold the tuple itself, and has met its copy then.
        found = memo.get(id(value))
        if found is None:
            found = memo[id(value)] = make(parts)
        return found

    return copy


def _frozen_record(kind: type[Any]) -> _Copier:
    """Copies instances of a frozen dataclass, which are constants if all that they hold are."""
    slots = slots_of(kind)

    def copy(value: Any, memo: _Memo | None) -> Any:
        held = attributes_of(value)
        if _all_constant(held.values()):
            return value
        if memo is None:
            memo = {}
        # A part may hold the record itself.
        made = memo[id(value)] = _NEW(kind)
        parts = {name: _part(part, memo) for name, part in held.items()}
        if all(map(is_, held.values(), parts.values())):
            memo[id(value)] = value
            return value
        if slots:
            set_attributes(made, parts)
        else:
            object.__setattr__(made, "__dict__", parts)
        return made

    return copy


def _record(kind: type[Any]) -> _Copier:
    """Copies instances of a class that Python itself keeps and pickles, by attributes and slots."""
    has_dict = bool(kind.__dictoffset__)
    slots = tuple(slots_of(kind).values())
    may_be_flat = has_dict and not slots and not _overrides(kind, "__setattr__")

    def copy(value: Any, memo: _Memo | None) -> Any:
        if memo is None:
            if may_be_flat and _all_constant(value.__dict__.values()):
                made = _NEW(kind)
                made.__dict__ = value.__dict__.copy()
                return made
            memo = {}
        made = memo[id(value)] = _NEW(kind)
        if has_dict:
            # Not through a __setattr__ of the class, which may refuse.
            object.__setattr__(made, "__dict__", {name: _part(part, memo) for name, part in value.__dict__.items()})
        for slot in slots:
            try:
                part = slot.__get__(value)
            except AttributeError:
                continue  # the slot is empty
            slot.__set__(made, _part(part, memo))
        return made

    return copy


def _copy_deep(value: Any, memo: _Memo | None) -> Any:
    """Copies values that know themselves how they are copied."""
    try:
        return deepcopy(value, memo)
    except (TypeError, CopyError, PicklingError):
        # It has no copy, and on Spark it could not leave the process either.
        return value


_NEW: Final[Any] = object.__new__

_COPIERS: Final[dict[type, _Copier]] = {
    list: _collection(lambda _: [], list.extend),
    dict: _copy_dict,
    defaultdict: _copy_dict,
    set: _collection(lambda _: set(), set.update),
    deque: _collection(lambda given: deque(maxlen=given.maxlen), deque.extend),
    bytearray: _copy_bytes,
    tuple: _fixed(tuple),
    frozenset: _fixed(frozenset),
}


def _learn(kind: type[Any]) -> _Copier:
    copier = _COPIERS[kind] = _copier_for(kind)
    return copier


def _copier_for(kind: type[Any]) -> _Copier:
    if issubclass(kind, type) or is_constant_class(kind):
        return lambda value, memo: value
    if _copies_itself(kind):
        return _copy_deep
    if is_named_tuple(kind):
        return _fixed(partial(tuple.__new__, kind))
    if hasattr(kind, "__getnewargs__"):
        return _copy_deep
    try:
        _NEW(kind)
    except TypeError:
        # It is derived from a built-in type, whose data are no attributes.
        return _copy_deep
    return _frozen_record(kind) if is_frozen(kind) else _record(kind)


def _copies_itself(kind: type[Any]) -> bool:
    """Returns whether a class says how it is copied or pickled."""
    if any(hasattr(kind, name) for name in ("__deepcopy__", "__copy__", "__getnewargs_ex__")):
        return True
    if kind in copyreg.dispatch_table or _overrides(kind, "__reduce__") or _overrides(kind, "__reduce_ex__"):
        return True
    # Dataclasses with slots get a pair of their own, which does what is done here.
    pair = [getattr(kind, name, None) for name in ("__getstate__", "__setstate__")]
    if all(getattr(method, "__module__", None) == "dataclasses" for method in pair):
        return False
    return _overrides(kind, "__getstate__") or _overrides(kind, "__setstate__")


def _overrides(kind: type[Any], name: str) -> bool:
    return getattr(kind, name, None) is not getattr(object, name, None)
