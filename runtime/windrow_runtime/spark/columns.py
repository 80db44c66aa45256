"""Lists of Python values as bytes, for the exchange between Python workers.

Values of one record class are taken apart into columns and put together again by calling the class; that is two to five
times as fast as pickling them one by one. Everything else is pickled as it is. No value changes its type: a list whose
values are not all of exactly one class is pickled.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import Parameter, signature
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeAlias

from windrow_runtime.codecs.records import construct
from windrow_runtime.spark.classes import class_name, find_class, pickle_any

__all__ = [
    "PackedTimestamps",
    "PackedValues",
    "pack_timestamps",
    "pack_values",
    "record_fields",
    "splitter",
    "unpack_timestamps",
    "unpack_values",
]

# Any throughout this module: values are the user's, of every type.

PackedValues: TypeAlias = "Sequence[Any] | tuple[bytes, int, tuple[PackedValues, ...]] | bytes"
"""A list of scalars as it is; or the name of a class, how many values, and their columns; or a pickle."""

PackedTimestamps: TypeAlias = "bytes | list[int | None]"
"""64-bit numbers side by side; or a list where some element has no timestamp."""

_Splitter: TypeAlias = Callable[[list[Any]], Iterable[list[Any]]]

_SCALARS = frozenset({bool, int, float, str, bytes, type(None)})


def pack_values(values: list[Any]) -> PackedValues:
    """``values`` as nested builtins, which pickle carries fast. Undone by :func:`unpack_values`."""
    kinds = set(map(type, values))
    if kinds <= _SCALARS:
        return values
    if len(kinds) == 1:
        (kind,) = kinds
        split = splitter(kind)
        if split is not None:
            return (class_name(kind), len(values), tuple(map(pack_values, split(values))))
    return pickle_any(values)


def unpack_values(packed: PackedValues) -> Sequence[Any]:
    """The values that :func:`pack_values` was given."""
    if isinstance(packed, bytes):
        values: Sequence[Any] = pickle.loads(packed)
        return values
    if isinstance(packed, tuple):
        reference, _, columns = packed
        return construct(find_class(reference), [unpack_values(column) for column in columns])
    return packed


def pack_timestamps(timestamps: Sequence[int | None]) -> PackedTimestamps:
    """Timestamps as nested builtins. Undone by :func:`unpack_timestamps`."""
    try:
        # None makes this raise, and that is cheaper to find out than to ask for.
        return array("q", timestamps).tobytes()  # type: ignore[type-var]
    except TypeError:
        return list(timestamps)


def unpack_timestamps(packed: PackedTimestamps) -> Sequence[int | None]:
    """The timestamps that :func:`pack_timestamps` was given."""
    if isinstance(packed, bytes):
        return array("q", packed).tolist()
    return packed


def splitter(kind: type[Any]) -> _Splitter | None:
    """Takes values of a class apart into the arguments of its constructor; None where that does not tell all."""
    return _splitter(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _splitter(kind: type[Any]) -> _Splitter | None:
    names = record_fields(kind)
    if not names:
        return None
    getters = [attrgetter(name) for name in names]
    # One pass for each field is three times as fast as making a tuple of each value.
    return lambda values: (list(map(get, values)) for get in getters)


def record_fields(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a record class, in the order of its constructor; empty if that does more than set them."""
    return _record_fields(kind)  # type: ignore[arg-type]  # as above


@lru_cache(maxsize=1024)
def _record_fields(kind: type[Any]) -> tuple[str, ...]:
    names: tuple[str, ...]
    if issubclass(kind, tuple):
        # A class of typing.NamedTuple or collections.namedtuple itself; one derived from it may add anything.
        names = getattr(kind, "_fields", ()) if kind.__bases__[0] is tuple else ()
    elif is_dataclass(kind):
        names = tuple(field.name for field in fields(kind))
        constructor = kind.__init__
        # The code that dataclasses writes has no file.
        if not (isinstance(constructor, FunctionType) and constructor.__code__.co_filename == "<string>"):
            return ()
        if kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
            return ()
    elif hasattr(kind, "__struct_fields__"):
        names = kind.__struct_fields__
    else:
        return ()
    if hasattr(kind, "__post_init__"):
        return ()
    parameters = signature(kind).parameters
    plain = all(parameter.kind is Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values())
    return names if plain and tuple(parameters) == names else ()
