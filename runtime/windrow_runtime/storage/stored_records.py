"""Builds records of their fields without a call of what their classes define, such as ``__post_init__``.

Whoever writes stored bytes chooses the class and the fields of a record, so code of the class would run on them. It has
run already when the record was made: a record comes back as it was, also where that code would change it once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import getattr_static
from types import MemberDescriptorType
from typing import Any, Final

import msgspec

from windrow_runtime.codecs.plain_records import record_fields
from windrow_runtime.codecs.records import construct, has_generated, is_plain_named_tuple
from windrow_runtime.codecs.structs import struct_fields
from windrow_runtime.operators.constants import is_frozen
from windrow_runtime.operators.origins import is_of_windrow
from windrow_runtime.storage.standard_values import CLASSES

__all__ = ["build_by_name", "default_makers", "is_built_by_name", "only_sets_fields"]

# Any throughout this module: classes and values of the user's.

_FACTORIES: Final = frozenset(CLASSES.values())
_set_class: Final[Callable[[object, type[Any]], None]] = vars(object)["__class__"].__set__


def only_sets_fields(kind: type[Any]) -> bool:
    """Whether the constructor of a class takes its fields in order, and runs no code that the user wrote."""
    names = record_fields(kind)
    if not names:
        return False
    if issubclass(kind, tuple):
        return is_plain_named_tuple(kind)
    if issubclass(kind, msgspec.Struct):
        return _has_plain_metaclass(kind)
    own: Any = kind  # its methods may have any type
    replaced = (
        type(own).__call__ is not type.__call__,
        own.__new__ is not object.__new__,
        # The constructor of a frozen dataclass sets its fields past a method of the class.
        own.__setattr__ is not object.__setattr__ and not is_frozen(kind),
        not has_generated(kind, "__init__"),
    )
    return not any(replaced) and not any(_calls_code_when_set(kind, name) for name in names)


def _calls_code_when_set(kind: type[Any], name: str) -> bool:
    held = getattr_static(kind, name, None)
    if isinstance(held, MemberDescriptorType) or is_of_windrow(type(held).__module__):
        return False
    return hasattr(type(held), "__set__")


def _has_plain_metaclass(kind: type[Any]) -> bool:
    own, plain = type(kind), msgspec.StructMeta
    return own.__call__ is plain.__call__ and own.__new__ is plain.__new__


def is_built_by_name(kind: type[Any]) -> bool:
    """Whether :func:`build_by_name` can build records of a class: of a Struct, or of a named tuple without fields."""
    if _is_empty_tuple(kind):
        return True
    if not (issubclass(kind, msgspec.Struct) and _has_plain_metaclass(kind)):
        return False
    try:
        _twin(kind)
    except Exception:  # the bases of the Struct are the user's, and may raise anything
        return False
    return True


def _is_empty_tuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and kind.__bases__[0] is tuple and getattr(kind, "_fields", None) == ()


def build_by_name(
    kind: type[Any], names: Sequence[str], columns: Sequence[Sequence[Any]], count: int
) -> list[Any]:
    """Records of a class for which :func:`is_built_by_name` holds.

    Args:
        kind: The class.
        names: All its fields.
        columns: Their values.
        count: How many records, where there are no fields.
    """
    if not issubclass(kind, msgspec.Struct):
        return [tuple.__new__(kind) for _ in range(count)]
    twin = _twin(kind)
    if columns and tuple(names) == kind.__match_args__:
        made = construct(twin, columns)
    else:
        rows = zip(*columns, strict=True) if columns else [()] * count
        made = [twin(**dict(zip(names, row, strict=True))) for row in rows]
    for record in made:
        _set_class(record, kind)
    return made


class _Quiet:
    """Keeps ``__init_subclass__`` of the user's class from being called."""

    __slots__ = ()

    def __init_subclass__(cls, **_: object) -> None:
        pass


@lru_cache(maxsize=1024)
def _twin(kind: Any) -> type[Any]:
    """A class like a Struct, without its code: its instances become those of the Struct.

    Msgspec has no other way to make an instance without a call of ``__post_init__``.
    """
    # Instances without fields would have the layout of the other base.
    bases = (_Quiet, kind) if kind.__struct_fields__ else (kind,)
    space = {"__module__": __name__, "__post_init__": lambda record: None}
    made: type[Any] = type(kind)(kind.__name__, bases, space)
    return made


def default_makers(kind: type[Any]) -> dict[str, Callable[[], Any]]:
    """What makes the default of each field that has one, without a call of a function of the user's.

    A field whose factory is no class of the standard library, such as ``list``, is not among them.
    """
    return {
        name: given["default_factory"] if "default_factory" in given else partial(_same, given["default"])
        for name, given in _defaults_of(kind).items()
        if "default" in given or given["default_factory"] in _FACTORIES
    }


def _same(default: Any) -> Any:
    return default


def _defaults_of(kind: type[Any]) -> dict[str, dict[str, Any]]:
    """The fields that have a default or a factory, which stand under the names that ``field()`` has for them."""
    if issubclass(kind, msgspec.Struct):
        given = struct_fields(kind)
    elif dataclasses.is_dataclass(kind):
        given = {
            field.name: {
                name: value
                for name in ("default", "default_factory")
                if (value := getattr(field, name)) is not dataclasses.MISSING
            }
            for field in dataclasses.fields(kind)
        }
    else:
        given = {name: {"default": value} for name, value in getattr(kind, "_field_defaults", {}).items()}
    return {name: found for name, found in given.items() if {"default", "default_factory"} & found.keys()}
