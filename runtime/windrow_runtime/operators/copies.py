"""Copies values, so that steps that have the same value can change it independently.

A step that emits a value copies it, since the function may go on changing its object. An immutable value (a constant)
needs no copy: :func:`own` returns it. Containers and plain classes are copied by their structure, in a tenth of the
time of :func:`copy.deepcopy`; classes with methods for copying or pickling are copied by ``deepcopy``.
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

from windrow.calls.attributes import attributes_of, slots_of
from windrow.calls.results import LAZY_TYPES, not_computed
from windrow.errors import UnsupportedOperationError
from windrow.functions import AggregateFunction
from windrow.plan.types import base_argument
from windrow_runtime.operators.class_facts import (
    CONSTANT_TYPES,
    is_constant_class,
    is_constant_type,
    is_frozen,
    is_named_tuple,
    set_attributes,
)
from windrow_runtime.operators.errors import first_line

# Any in this module: values of every type.
_Memo = dict[int, Any]
"""The copies that were made already, by the ids of the originals."""


def own(value: Any) -> Any:
    """Returns a copy of a value that shares nothing mutable with it, or the value itself if it is a constant.

    A part that cannot be copied, such as an open file or a generator, stays the same object in the copy.

    Raises:
        UnusableResultError: If the value itself is a generator, or is computed later in another way.
    """
    class_ = type(value)
    if class_ in CONSTANT_TYPES:
        return value
    return (_COPIERS.get(class_) or _learn(class_))(value, None)


def own_whole(value: Any) -> Any:
    """Returns a copy as :func:`own` does, of a value that can be copied with all its parts; refuses another one.

    Steps with an error policy copy an accumulator before a call that may change it in place, so that a call that fails
    changes nothing.

    Raises:
        UnsupportedOperationError: If the value, or a part of it, cannot be copied, or a method for copying raises.
    """
    class_ = type(value)
    if class_ in CONSTANT_TYPES:
        return value
    flat = _FLAT.get(class_)
    if flat is not None and _all_constant(value) and (class_ is not dict or _all_constant(value.values())):
        return flat(value)
    try:
        return (_COPIERS.get(class_) or _learn(class_))(value, _WholeMemo())
    except Exception as error:  # a __deepcopy__ of the user's may raise anything
        raise UnsupportedOperationError(
            "an accumulator that cannot be copied has no on_error",
            given=f"a {class_.__name__}, whose copy raised {first_line(error)}",
            expected="numbers, texts, collections and plain classes, so that a call that fails changes nothing",
            hint="keep what can be copied; or leave on_error out, and compute what may fail before the step, in "
            "map(function, on_error=...)",
        ) from error


def own_all(values: list[Any]) -> list[Any]:
    """Returns a list with a copy of each value, or the list itself if all are constants."""
    if CONSTANT_TYPES.issuperset(map(type, values)):
        return values
    return list(map(own, values))


def accumulator_maker(
    function: AggregateFunction[Any, Any, Any], copy: Callable[[Any], Any] = own
) -> Callable[[], Any]:
    """Returns ``create_accumulator`` of a function, with copies if needed, so that windows share no mutable object."""
    create = function.create_accumulator
    if is_constant_type(base_argument(function, AggregateFunction, 1)):
        return create
    return lambda: copy(create())


_Copier = Callable[[Any, _Memo | None], Any]
"""Returns a copy of a value of one class, or the value if it is a constant; without a memo it is no part of another."""


class _WholeMemo(dict[int, Any]):
    """The memo of a copy that shares no part with the original, not even one that cannot be copied."""


def _part(value: Any, memo: _Memo) -> Any:
    """Copies a part of a larger value; parts that are one object have one copy."""
    class_ = type(value)
    if class_ in CONSTANT_TYPES:
        return value
    copied = memo.get(id(value))
    if copied is not None:
        return copied
    return (_COPIERS.get(class_) or _learn(class_))(value, memo)


def _all_constant(parts: Iterable[Any]) -> bool:
    return CONSTANT_TYPES.issuperset(map(type, parts))


def _collection(begin: Callable[[Any], Any], extend: Callable[[Any, list[Any]], None]) -> _Copier:
    """Returns a function that copies mutable collections, which may contain themselves."""

    def copy(value: Any, memo: _Memo | None) -> Any:
        if memo is None:
            if _all_constant(value):
                return value.copy()
            memo = {}
        copied = memo[id(value)] = begin(value)
        extend(copied, [_part(part, memo) for part in value])
        return copied

    return copy


def _copy_dict(value: Any, memo: _Memo | None) -> Any:
    if memo is None:
        if _all_constant(value) and _all_constant(value.values()):
            return value.copy()
        memo = {}
    copied: dict[Any, Any] = {} if type(value) is dict else defaultdict(value.default_factory)
    memo[id(value)] = copied
    for key, part in value.items():
        copied[_part(key, memo)] = _part(part, memo)
    return copied


def _copy_bytes(value: Any, memo: _Memo | None) -> Any:
    copied = value.copy()
    if memo is not None:
        memo[id(value)] = copied
    return copied


def _fixed(make: Callable[[list[Any]], Any]) -> _Copier:
    """Returns a function that copies tuples, named tuples and frozen sets, which are constants if their items are."""

    def copy(value: Any, memo: _Memo | None) -> Any:
        if _all_constant(value):
            return value
        if memo is None:
            memo = {}
        items = list(value)
        copied_items = [_part(part, memo) for part in items]
        if all(map(is_, items, copied_items)):
            return value
        # A list in the tuple may contain the tuple, which was copied with it then.
        copied = memo.get(id(value))
        if copied is None:
            copied = memo[id(value)] = make(copied_items)
        return copied

    return copy


def _frozen_record(class_: type[Any]) -> _Copier:
    """Returns a function that copies instances of a frozen dataclass, which are constants if their attributes are."""
    slots = slots_of(class_)

    def copy(value: Any, memo: _Memo | None) -> Any:
        attributes = attributes_of(value)
        if _all_constant(attributes.values()):
            return value
        if memo is None:
            memo = {}
        # A part may refer to the record itself, so that its copy is registered first.
        copied = memo[id(value)] = _NEW(class_)
        copied_attributes = {name: _part(part, memo) for name, part in attributes.items()}
        if all(map(is_, attributes.values(), copied_attributes.values())):
            memo[id(value)] = value
            return value
        if slots:
            set_attributes(copied, copied_attributes)
        else:
            object.__setattr__(copied, "__dict__", copied_attributes)
        return copied

    return copy


def _record(class_: type[Any]) -> _Copier:
    """Returns a function that copies instances of a class without methods for copying, by attributes and slots."""
    has_dict = bool(class_.__dictoffset__)
    slots = tuple(slots_of(class_).values())
    may_be_flat = has_dict and not slots and not _overrides(class_, "__setattr__")

    def copy(value: Any, memo: _Memo | None) -> Any:
        if memo is None:
            if may_be_flat and _all_constant(value.__dict__.values()):
                copied = _NEW(class_)
                copied.__dict__ = value.__dict__.copy()
                return copied
            memo = {}
        copied = memo[id(value)] = _NEW(class_)
        if has_dict:
            # The __setattr__ of the class, which may refuse, is not called.
            object.__setattr__(copied, "__dict__", {name: _part(part, memo) for name, part in value.__dict__.items()})
        for slot in slots:
            try:
                part = slot.__get__(value)
            except AttributeError:
                continue  # the slot is empty
            slot.__set__(copied, _part(part, memo))
        return copied

    return copy


def _copy_deep(value: Any, memo: _Memo | None) -> Any:
    """Copies values by ``deepcopy``, which calls the methods of their classes."""
    try:
        return deepcopy(value, memo)
    except (TypeError, CopyError, PicklingError):
        if isinstance(memo, _WholeMemo):
            raise
        # The value cannot be copied, and on Spark it could not leave the process either.
        return value


_NEW: Final[Any] = object.__new__

_COPIERS: Final[dict[type, _Copier]] = {
    list: _collection(lambda _: [], list.extend),
    dict: _copy_dict,
    defaultdict: _copy_dict,
    set: _collection(lambda _: set(), set.update),
    deque: _collection(lambda original: deque(maxlen=original.maxlen), deque.extend),
    bytearray: _copy_bytes,
    tuple: _fixed(tuple),
    frozenset: _fixed(frozenset),
}


def _refuse(value: Any, memo: _Memo | None) -> Any:
    if memo is None or isinstance(memo, _WholeMemo):
        raise not_computed(value)
    return value


_COPIERS.update(dict.fromkeys(LAZY_TYPES, _refuse))

_FLAT: Final[dict[type, Callable[[Any], Any]]] = {
    list: list.copy,
    dict: dict.copy,
    set: set.copy,
    deque: deque.copy,
    bytearray: bytearray.copy,
}
"""Copies collections of constants alone."""


def _learn(class_: type[Any]) -> _Copier:
    copier = _COPIERS[class_] = _copier_for(class_)
    return copier


def _copier_for(class_: type[Any]) -> _Copier:
    if issubclass(class_, type) or is_constant_class(class_):
        return lambda value, memo: value
    if _copies_itself(class_):
        return _copy_deep
    if is_named_tuple(class_):
        return _fixed(partial(tuple.__new__, class_))
    if hasattr(class_, "__getnewargs__"):
        return _copy_deep
    try:
        _NEW(class_)
    except TypeError:
        # The class derives from a built-in type, whose data are not attributes.
        return _copy_deep
    return _frozen_record(class_) if is_frozen(class_) else _record(class_)


def _copies_itself(class_: type[Any]) -> bool:
    """Returns whether a class has methods for copying or pickling."""
    if any(hasattr(class_, name) for name in ("__deepcopy__", "__copy__", "__getnewargs_ex__")):
        return True
    if class_ in copyreg.dispatch_table or _overrides(class_, "__reduce__") or _overrides(class_, "__reduce_ex__"):
        return True
    # Dataclasses with slots have a generated pair of these methods, which copies attributes as well.
    pair = [getattr(class_, name, None) for name in ("__getstate__", "__setstate__")]
    if all(getattr(method, "__module__", None) == "dataclasses" for method in pair):
        return False
    return _overrides(class_, "__getstate__") or _overrides(class_, "__setstate__")


def _overrides(class_: type[Any], name: str) -> bool:
    return getattr(class_, name, None) is not getattr(object, name, None)
