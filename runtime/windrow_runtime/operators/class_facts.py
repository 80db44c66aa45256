"""Finds facts about classes: whether their values are immutable, and the attributes of instances."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from re import Pattern
from typing import Any, Final, Literal, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from windrow.calls.attributes import attribute_of, slots_of
from windrow.plan.records import is_named_tuple_class
from windrow.tags import OutputTag

# Any in this module: annotations, classes and objects of every kind.
T = TypeVar("T")

PLAIN_CONSTANTS: Final = frozenset(
    {type(None), bool, int, float, complex, str, bytes, date, datetime, timedelta, Decimal}
)
"""The types of immutable scalars. A class derived from one may have mutable attributes."""

CONSTANT_TYPES: Final[set[type]] = {
    *PLAIN_CONSTANTS,
    *(time, timezone, ZoneInfo, Fraction, UUID, Pattern, range, slice, type),
    *(IPv4Address, IPv4Network, IPv6Address, IPv6Network, PosixPath, PurePosixPath, PureWindowsPath),
    *(types.FunctionType, types.BuiltinFunctionType, types.EllipsisType, types.NotImplementedType, OutputTag),
}
"""Types whose values are all immutable. :func:`is_constant_class` adds the classes that it finds."""

_ASKED: Final[dict[type, bool]] = {}


def is_constant_type(annotation: object) -> bool:
    """Returns whether an annotation promises immutable values; None stands for an unknown type."""
    return annotation is not None and _is_constant(annotation)


def _is_constant(annotation: object) -> bool:
    if annotation is None or (isinstance(annotation, type) and annotation in CONSTANT_TYPES):
        return True
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return True
    if origin in (tuple, frozenset, typing.Union, types.UnionType):
        return all(_is_constant(argument) for argument in typing.get_args(annotation) if argument is not Ellipsis)
    if origin is typing.Annotated:
        return _is_constant(typing.get_args(annotation)[0])
    if isinstance(annotation, typing.NewType):
        return _is_constant(annotation.__supertype__)
    return isinstance(annotation, type) and origin is None and is_constant_class(annotation)


def is_constant_class(class_: type[Any]) -> bool:
    """Returns whether a class is an Enum, or a named tuple or a frozen dataclass with constant fields alone."""
    is_constant = _ASKED.get(class_)
    if is_constant is None:
        # A class whose fields have its own type counts as mutable; this also ends the recursion.
        _ASKED[class_] = False
        is_constant = _ASKED[class_] = class_ in CONSTANT_TYPES or _has_constant_fields(class_)
        if is_constant:
            CONSTANT_TYPES.add(class_)
    return is_constant


def _has_constant_fields(class_: type[Any]) -> bool:
    if issubclass(class_, Enum):
        return True
    if not is_named_tuple(class_) and not is_frozen(class_):
        return False
    names = class_._fields if is_named_tuple(class_) else [field.name for field in fields(class_)]
    try:
        hints = typing.get_type_hints(class_)
    except Exception:  # annotations may be any code; a name that is not known here raises NameError
        return False
    return all(name in hints and _is_constant(hints[name]) for name in names)


def is_named_tuple(class_: type[Any]) -> bool:
    """Returns whether a class is a named tuple whose instances have no attributes but their fields."""
    return is_named_tuple_class(class_) and not class_.__dictoffset__ and class_.__iter__ is tuple.__iter__


def is_frozen(class_: type[Any]) -> bool:
    """Returns whether a class itself is a frozen dataclass; one that only derives from such a class may be mutable."""
    parameters = class_.__dict__.get("__dataclass_params__")
    return parameters is not None and bool(parameters.frozen) and is_dataclass(class_)


def delete_attributes(instance: object, names: Iterable[str]) -> None:
    """Deletes attributes, without calling methods of the class."""
    slots, own = slots_of(type(instance)), attribute_of(instance, "__dict__", {})
    for name in names:
        if name in own:
            del own[name]
        else:
            slots[name].__delete__(instance)


def set_attributes(instance: T, attributes: Mapping[Any, Any]) -> T:
    """Sets attributes that :func:`attributes_of` returned, without calling methods of the class; returns the object."""
    slots = slots_of(type(instance))
    for name, value in attributes.items():
        if type(name) is not str:
            raise TypeError(f"an attribute is named by a {type(name).__name__}")
        if name in slots:
            slots[name].__set__(instance, value)
        else:
            # setattr could also set the class of the object, or call a property.
            object.__getattribute__(instance, "__dict__")[name] = value
    return instance
