"""Says which keys and values are one: all NaNs are, and the two hours that a clock shows alike are not.

A NaN is not equal to itself, and Python's dictionaries tell NaNs apart by identity; Flink and Spark SQL group all of
them together. Of the hour that a clock shows twice when summer time ends, Python takes both for equal in datetimes of
one zone (PEP 495), though they are different moments.
"""

from __future__ import annotations

import copy
import datetime
import enum
import math
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from windrow.calls.results import UnfitValueError

# Any in this module: keys and values are of every type.
K = TypeVar("K", bound=Sequence[Any])

_DECIMAL_NAN: Final = Decimal("NaN")
# Records that contain a NaN, by class and compared fields. From Python 3.13 on dataclasses compare their fields one by
# one, so that two records with a NaN are never equal; sets and dicts take an object for equal to itself.
_records: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_records_for_ever: dict[tuple[Any, ...], Any] = {}  # records of classes without weak references
_PLAIN: Final = frozenset({str, int, bool, bytes, type(None), datetime.date, datetime.timedelta, uuid.UUID})
"""Types of values that equal themselves and no other moment."""
_WITHOUT_NAN: Final = _PLAIN | {datetime.datetime}
_WITHOUT_PARTS: Final = _WITHOUT_NAN | {float, Decimal}

Nans: TypeAlias = tuple[object, object]
"""What stands for a float's NaN, and for a Decimal's."""


@dataclass(frozen=True, slots=True)
class NotANumber:
    """Stands for a NaN in stored values, which are other objects when they have been read.

    Attributes:
        kind: The type of the number.
    """

    kind: str


_AS_KEYS: Final[Nans] = (math.nan, _DECIMAL_NAN)
_AS_STORED: Final[Nans] = (NotANumber("float"), NotANumber("Decimal"))


def as_keys(keys: K) -> K | list[Any]:
    """Replaces each key that contains a NaN, or the second of two hours, by one object for all that are one key.

    Returns the same sequence, at little cost, if there is nothing to replace. A key without a hash is left alone: it is
    refused when it is used.
    """
    kinds = set(map(type, keys))
    if kinds == {float}:
        return [math.nan if key != key else key for key in keys]  # noqa: PLR0124 - a NaN
    try:
        parts, kinds = _parts_of(keys, kinds)
        has_moments = datetime.datetime in kinds and any(getattr(part, "fold", 0) for part in parts)
        if kinds <= _WITHOUT_NAN and not has_moments:
            return keys
        distinct = set(keys)
        if not has_moments and kinds <= _WITHOUT_PARTS:
            replaced = {key: one for key in distinct if (one := _one(key, _AS_KEYS)) is not key}
            return [replaced.get(key, key) for key in keys] if replaced else keys
        # Two hours that the clock shows alike are equal before they are replaced.
        ones = [_one(key, _AS_KEYS) for key in keys]
    except Exception:
        # The key is refused when it is used, by an error that names the step and the key.
        return keys
    return keys if all(one is key for one, key in zip(ones, keys, strict=True)) else ones


def as_key(value: Any) -> Any:
    """Returns the object that stands for all values that are one key with a value; as a rule the value itself.

    Of what :func:`as_stored` returned it makes the value again.
    """
    return value if type(value) in _PLAIN else _one(value, _AS_KEYS)


def as_stored(value: Any) -> Any:
    """Returns what equals itself when it has been stored and read: as a key, with marks in the place of NaNs."""
    return value if type(value) in _PLAIN else _one(value, _AS_STORED)


def as_moment(moment: datetime.datetime) -> datetime.datetime:
    """Returns the second of two hours that the clock shows alike with its offset from UTC; other times as they are."""
    if not moment.fold or moment.tzinfo is None:
        return moment
    offset = moment.utcoffset()
    if offset is None or offset == moment.replace(fold=0).utcoffset():
        return moment
    return moment.replace(tzinfo=datetime.timezone(offset), fold=0)


def precedes(a: Any, b: Any) -> bool:
    """Whether ``a`` is lower. A NaN is higher than every number, as in Spark SQL, and as high as another NaN."""
    if a.__class__ is datetime.datetime:
        if a.fold or b.fold:
            a, b = as_moment(a), as_moment(b)
    elif _has_parts(a.__class__) and (_holds_second_hour(a) or _holds_second_hour(b)):
        a, b = as_key(a), as_key(b)
    # Only a NaN is not equal to itself.
    return bool(a < b) or bool(b != b and a == a)  # noqa: PLR0124


def _holds_second_hour(value: Any) -> bool:
    """Returns whether a value has a datetime in it that the clock shows for the second time."""
    if isinstance(value, datetime.datetime):
        return bool(value.fold)
    return _has_parts(value.__class__) and any(map(_holds_second_hour, _parts(value)))


def is_same(stored: Any, value: Any) -> bool:
    """Returns whether a value is another one: equal to it and at the same moments, or a NaN in the same parts.

    Raises:
        UnfitValueError: If ``==`` says neither, and the values are neither arrays nor made of parts.
    """
    if stored is value:
        return True
    class_ = type(stored)
    if class_ in _PLAIN:
        return bool(stored == value)
    if isinstance(stored, float):
        return bool(stored == value) or (isinstance(value, float) and math.isnan(stored) and math.isnan(value))
    if issubclass(class_, datetime.datetime) and isinstance(value, datetime.datetime):
        return as_moment(stored) == as_moment(value)
    if class_ is not type(value):
        return _is_equal(stored, value)
    if isinstance(stored, Decimal):
        return bool(stored == value) or (stored.is_qnan() and bool(value.is_qnan()))
    if isinstance(stored, dict):
        return stored.keys() == value.keys() and all(is_same(stored[key], value[key]) for key in stored)
    if isinstance(stored, (set, frozenset)):
        return _is_same_set(stored, value)
    if isinstance(stored, (tuple, list)):
        return stored == value if _PLAIN.issuperset(map(type, stored)) else _is_same_sequence(stored, value)
    if hasattr(stored, "tolist") and hasattr(stored, "shape"):
        return bool(stored.shape == value.shape and is_same(stored.tolist(), value.tolist()))
    if not _has_parts(class_):
        return _is_equal(stored, value)
    # A record may be equal to another one by a rule of its own, but not at another moment.
    if _is_equal(stored, value, may_fail=True):
        return all(map(is_same, _second_hours(stored), _second_hours(value)))
    return all(map(is_same, _parts(stored), _parts(value)))


def _is_same_set(stored: set[Any] | frozenset[Any], value: set[Any] | frozenset[Any]) -> bool:
    # Where hashes tell members apart there is no need to compare each with each.
    if stored == value and not any(map(_holds_second_hour, chain(stored, value))):
        return True
    return len(stored) == len(value) and all(any(is_same(one, other) for other in value) for one in stored)


def _is_same_sequence(stored: Sequence[Any], value: Sequence[Any]) -> bool:
    return len(stored) == len(value) and all(map(is_same, stored, value))


def _is_equal(stored: Any, value: Any, *, may_fail: bool = False) -> bool:
    """Asks ``==``; where that says neither, as for records that hold arrays, it may be no."""
    try:
        return bool(stored == value)
    except ValueError as error:
        if may_fail:
            return False
        raise UnfitValueError(
            "two values were to be compared, and == says neither that they are equal nor that they are not",
            given=f"values of type {type(stored).__name__}: {error}",
            expected="values whose == gives True or False",
        ) from error


def _second_hours(record: Any) -> list[Any]:
    """Returns the compared fields of a record, with None in the place of those that hold no second hour."""
    names = (
        [each.name for each in fields(record) if each.compare] if is_dataclass(record) else field_names(type(record))
    )
    values = [getattr(record, name, None) for name in names]
    return [value if _holds_second_hour(value) else None for value in values]


def _has_parts(class_: type) -> bool:
    """Returns whether values of a class are tuples or lists, or records with fields."""
    return issubclass(class_, (tuple, list)) or bool(field_names(class_))


def _parts(value: Any) -> Iterable[Any]:
    """Returns the members of a tuple or a list, or the values of a record's fields."""
    if isinstance(value, (tuple, list)):
        return value
    return [getattr(value, name, None) for name in field_names(type(value))]


def field_names(class_: type) -> tuple[str, ...]:
    """Returns the names of the fields of a dataclass or a struct of msgspec's; none for other classes."""
    if is_dataclass(class_):
        return tuple([each.name for each in fields(class_)])
    names: tuple[str, ...] = getattr(class_, "__struct_fields__", ())
    return names


def _parts_of(keys: Sequence[Any], kinds: set[type]) -> tuple[Sequence[Any], set[type]]:
    """Returns the fields of keys that are all of one class, and their types; else the keys, and their types."""
    if len(kinds) != 1:
        return keys, kinds
    (class_,) = kinds
    if issubclass(class_, enum.Enum):
        return (), set()
    if issubclass(class_, tuple):
        keys = list(chain.from_iterable(keys))
    elif names := field_names(class_):
        keys = [value for name in names for value in map(attrgetter(name), keys)]
    else:
        return keys, kinds
    return keys, set(map(type, keys))


def _one(key: Any, nans: Nans) -> Any:
    """Returns the object that replaces a key; the key itself if there is nothing to replace in it."""
    class_ = type(key)
    if class_ in _PLAIN or isinstance(key, enum.Enum):
        return key
    if isinstance(key, datetime.datetime):
        return as_moment(key)
    if isinstance(key, float):
        return nans[0] if math.isnan(key) else key
    if isinstance(key, Decimal):
        return nans[1] if key.is_qnan() else key
    if class_ is NotANumber:
        return nans[key.kind == "Decimal"]
    if isinstance(key, (tuple, frozenset)):
        return _one_sequence(key, nans)
    values = {name: getattr(key, name) for name in field_names(class_)}
    changed = {name: one for name, value in values.items() if (one := _one(value, nans)) is not value}
    if not changed and not any(map(_holds_the_nan, values.values())):
        return key
    if is_dataclass(key):
        twin = copy.copy(key)
        for name, value in changed.items():
            # The twin is frozen, but nobody else has it yet. `replace` would fail for fields that the class computes.
            object.__setattr__(twin, name, value)
        return _the_one(twin, [each.name for each in fields(key) if each.compare])
    from msgspec.structs import replace

    return _the_one(replace(key, **changed), field_names(class_))


def _holds_the_nan(value: Any) -> bool:
    """Returns whether a value contains the NaN that replaces all others."""
    if isinstance(value, (tuple, frozenset)):
        return any(map(_holds_the_nan, value))
    if any(value is one for one in _AS_KEYS):
        return True
    return any(_holds_the_nan(getattr(value, name)) for name in field_names(type(value)))


def _the_one(record: Any, names: Iterable[str]) -> Any:
    """Returns one object for all records with the same class and fields, in which NaNs are one object already."""
    values = type(record), *map(record.__getattribute__, names)
    with suppress(TypeError):  # the class has no weak references, or a field that its hash leaves out has no hash
        return _records.setdefault(values, record)
    with suppress(TypeError):
        return _records_for_ever.setdefault(values, record)
    return record


def _one_sequence(key: Any, nans: Nans) -> Any:
    ones = [_one(part, nans) for part in key]
    if all(one is part for one, part in zip(ones, key, strict=True)):
        return key
    if hasattr(key, "_make"):
        return key._make(ones)
    return frozenset(ones) if isinstance(key, frozenset) else tuple(ones)
