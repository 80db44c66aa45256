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

from windrow.errors import IncompatibleStateError
from windrow_runtime.codecs.records import construct, has_generated, is_plain_named_tuple, record_fields, struct_fields
from windrow_runtime.operators.class_facts import is_frozen, is_of_windrow
from windrow_runtime.storage.standard_values import CLASSES

# Any throughout this module: classes and values of the user's.

_FACTORIES: Final = frozenset(CLASSES.values())
_set_class: Final[Callable[[object, type[Any]], None]] = vars(object)["__class__"].__set__


def is_record(kind: type[Any]) -> bool:
    """Returns whether :func:`build_records` can build records of a class."""
    if _only_sets_fields(kind) or _is_empty_tuple(kind):
        return True
    if not (issubclass(kind, msgspec.Struct) and _has_plain_metaclass(kind)):
        return False
    try:
        _twin(kind)
    except Exception:  # the bases of the Struct are the user's, and may raise anything
        return False
    return True


def fields_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a record class."""
    return record_fields(kind) or getattr(kind, "__struct_fields__", ())


def build_records(kind: type[Any], fields: Sequence[Any], columns: Sequence[Sequence[Any]], count: int) -> list[Any]:
    """Records of a class for which :func:`is_record` holds. A field that the class has got since has its default.

    Args:
        kind: The class as it is now.
        fields: The fields as they were stored.
        columns: Their values.
        count: How many records.

    Raises:
        IncompatibleStateError: If a new field has no default, or no field is left.
    """
    now = fields_of(kind)
    if now != tuple(fields):
        columns = _fitted(kind, dict(zip(fields, columns, strict=True)), count)
    if _only_sets_fields(kind):
        return construct(kind, columns)
    if not issubclass(kind, msgspec.Struct):
        return [tuple.__new__(kind) for _ in range(count)]
    twin = _twin(kind)
    if columns and now == kind.__match_args__:
        made = construct(twin, columns)
    else:
        rows = zip(*columns, strict=True) if columns else [()] * count
        made = [twin(**dict(zip(now, row, strict=True))) for row in rows]
    for record in made:
        _set_class(record, kind)
    return made


def _fitted(kind: type[Any], held: dict[Any, Sequence[Any]], count: int) -> list[Sequence[Any]]:
    """The columns of a record whose class has changed."""
    now = fields_of(kind)
    makers = default_makers(kind)
    if any(field not in held and field not in makers for field in now) or (held and held.keys().isdisjoint(now)):
        raise IncompatibleStateError(
            f"stored values of {kind.__module__}:{kind.__qualname__} do not fit the class as it is now",
            given=f"fields {', '.join(map(str, held))}",
            expected=f"fields {', '.join(now)}; a new one needs a default",
            hint="give the new field a default, or a class such as list as its factory (reading state calls no "
            "function of the user's), or use a new checkpoint",
        )
    return [held[field] if field in held else [makers[field]() for _ in range(count)] for field in now]


def _only_sets_fields(kind: type[Any]) -> bool:
    """Returns whether the constructor of a class takes its fields in order, and runs no code that the user wrote."""
    return _sets_fields_alone(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _sets_fields_alone(kind: type[Any]) -> bool:
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


def _is_empty_tuple(kind: type[Any]) -> bool:
    return issubclass(kind, tuple) and kind.__bases__[0] is tuple and getattr(kind, "_fields", None) == ()


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
    """Functions that make the default of each field that has one, without a call of a function of the user's.

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
