"""Finds types whose values cannot be changed, so that several owners may hold one value."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from re import Pattern
from typing import Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from windrow.plan.records import is_named_tuple_class

# Any in this module: annotations and classes of every kind.

PLAIN_CONSTANTS: Final = frozenset(
    {type(None), bool, int, float, complex, str, bytes, date, datetime, timedelta, Decimal}
)
"""The types of scalars that cannot be changed. A class that is derived from one may hold anything."""

CONSTANT_TYPES: Final[set[type]] = {
    *PLAIN_CONSTANTS,
    time,
    timezone,
    ZoneInfo,
    Fraction,
    UUID,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    PosixPath,
    PurePosixPath,
    PureWindowsPath,
    Pattern,
    range,
    slice,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.EllipsisType,
    types.NotImplementedType,
}
"""Types whose values are all constant. :func:`is_constant_class` adds the classes that it finds."""

_ASKED: Final[dict[type, bool]] = {}


def is_constant_type(annotation: object) -> bool:
    """Returns whether an annotation promises values that cannot be changed; None stands for an unknown type."""
    return annotation is not None and _is_constant(annotation)


def _is_constant(annotation: object) -> bool:
    if annotation is None or (isinstance(annotation, type) and annotation in CONSTANT_TYPES):
        return True
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return True
    if origin in (tuple, frozenset, typing.Union, types.UnionType):
        arguments = [found for found in typing.get_args(annotation) if found is not Ellipsis]
        return all(map(_is_constant, arguments))
    if origin is typing.Annotated:
        return _is_constant(typing.get_args(annotation)[0])
    if isinstance(annotation, typing.NewType):
        return _is_constant(annotation.__supertype__)
    return isinstance(annotation, type) and origin is None and is_constant_class(annotation)


def is_constant_class(kind: type[Any]) -> bool:
    """Returns whether a class is an Enum, or a named tuple or a frozen dataclass with constant fields alone."""
    known = _ASKED.get(kind)
    if known is None:
        # A class that names itself has instances within instances; while it is asked about, the answer is no.
        _ASKED[kind] = False
        known = _ASKED[kind] = kind in CONSTANT_TYPES or _has_constant_fields(kind)
        if known:
            CONSTANT_TYPES.add(kind)
    return known


def _has_constant_fields(kind: type[Any]) -> bool:
    if issubclass(kind, Enum):
        return True
    if not is_named_tuple(kind) and not is_frozen(kind):
        return False
    names = kind._fields if is_named_tuple(kind) else [field.name for field in fields(kind)]
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # annotations may be any code; a name that is not known here raises NameError
        return False
    return all(name in hints and _is_constant(hints[name]) for name in names)


def is_named_tuple(kind: type[Any]) -> bool:
    """Returns whether a class is a named tuple whose instances hold their fields and nothing else."""
    return is_named_tuple_class(kind) and not kind.__dictoffset__ and kind.__iter__ is tuple.__iter__


def is_frozen(kind: type[Any]) -> bool:
    """Returns whether a class is a frozen dataclass itself: one derived from such a class may set attributes."""
    parameters = kind.__dict__.get("__dataclass_params__")
    return is_dataclass(kind) and parameters is not None and bool(parameters.frozen)
