"""Makes all NaNs in keys one key.

A NaN is not equal to itself, and Python's dictionaries tell NaNs apart by identity. Flink and Spark SQL group all of
them together. So a NaN in a key is always the same object here: where keys are taken, and where they are read again.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import math
import uuid
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import Any, overload

_DECIMAL_NAN = Decimal("NaN")
_NEVER = frozenset({str, int, bool, bytes, type(None), datetime.datetime, datetime.date, datetime.timedelta, uuid.UUID})


# Any, in this module: keys are of every type.
@overload
def with_one_nan(keys: list[Any]) -> list[Any]: ...
@overload
def with_one_nan(keys: Sequence[Any]) -> Sequence[Any]: ...
def with_one_nan(keys: Sequence[Any]) -> Sequence[Any]:
    """The keys, each NaN and each key that holds one replaced by what equals the others.

    It is the same sequence where there is nothing to replace, which costs little. A key that has no hash is left alone:
    where it is used it is refused.
    """
    kinds = set(map(type, keys))
    if kinds == {float}:
        return [math.nan if key != key else key for key in keys]  # noqa: PLR0124 - a NaN
    try:
        if _hold_none(keys, kinds):
            return keys
        distinct = set(keys)
    except Exception:
        # Where the key is used it is refused, with the step and the key.
        return keys
    replaced = {key: one for key in distinct if (one := _one(key)) is not key}
    return [replaced.get(key, key) for key in keys] if replaced else keys


def _hold_none(keys: Sequence[Any], kinds: set[type]) -> bool:
    """Returns whether the types of keys, and of the fields of keys of one class, rule a NaN out; reads no key."""
    if kinds <= _NEVER:
        return True
    if len(kinds) != 1:
        return False
    (kind,) = kinds
    if issubclass(kind, enum.Enum):
        return True
    if issubclass(kind, tuple):
        return set(map(type, chain.from_iterable(keys))) <= _NEVER
    names = _names_of(kind)
    return bool(names) and all(set(map(type, map(attrgetter(name), keys))) <= _NEVER for name in names)


def _names_of(kind: type) -> tuple[str, ...]:
    """The fields of a record."""
    if dataclasses.is_dataclass(kind):
        return tuple([field.name for field in dataclasses.fields(kind)])
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    return names


def _one(key: Any) -> Any:
    """Returns the key that stands for one; the key itself where it holds no NaN."""
    kind = type(key)
    if kind in _NEVER or isinstance(key, enum.Enum):
        return key
    if isinstance(key, float):
        return math.nan if math.isnan(key) else key
    if isinstance(key, Decimal):
        return _DECIMAL_NAN if key.is_qnan() else key
    if isinstance(key, (tuple, frozenset)):
        return _one_sequence(key)
    changed = {name: one for name in _names_of(kind) if (one := _one(value := getattr(key, name))) is not value}
    if not changed:
        return key
    if dataclasses.is_dataclass(key):
        twin = copy.copy(key)
        for name, value in changed.items():
            # The key is frozen; its twin has no other owner yet. Its class may compute some of its fields.
            object.__setattr__(twin, name, value)
        return twin
    from msgspec.structs import replace

    return replace(key, **changed)


def _one_sequence(key: Any) -> Any:
    parts = list(key)
    ones = list(map(_one, parts))
    if all(one is part for one, part in zip(ones, parts, strict=True)):
        return key
    if hasattr(key, "_make"):
        return key._make(ones)
    return frozenset(ones) if isinstance(key, frozenset) else tuple(ones)
