"""Reads the fields of record classes, by which their values are taken apart and built again.

The interpreter needs no msgspec, and does not import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import Parameter, signature
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, TypeAlias

import msgspec

# Any throughout this module: values are the user's, of every type.

_Splitter: TypeAlias = Callable[[list[Any]], Iterable[list[Any]]]


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


class _Sample(msgspec.Struct):
    held: list[int] = []


_FACTORY: Final[Any] = type(_Sample.__struct_defaults__[0])
"""The class in which msgspec keeps the factory of a default."""


def struct_fields(kind: Any) -> dict[str, dict[str, Any]]:
    """The fields of a Struct, each with what ``msgspec.field`` takes.

    Msgspec's own function resolves annotations too, which may name classes that are not known here.
    """
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    columns = (names, kind.__struct_encode_fields__, defaults)
    return {name: _field(encoded, default) for name, encoded, default in zip(*columns, strict=True)}


def _field(encoded: str, default: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": encoded}
    if isinstance(default, _FACTORY):
        given["default_factory"] = default.factory
    elif default is not msgspec.NODEFAULT:
        given["default"] = default
    return given
