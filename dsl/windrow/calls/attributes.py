"""Asks objects of users for attributes: their ``__getattr__`` and their properties may raise anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any


# Any: attributes of every type.
def attribute_of(value: object, name: str, default: Any = None) -> Any:
    """The attribute of an object, as ``getattr`` gives it.

    Args:
        value: The object.
        name: The name of the attribute.
        default: What stands for an attribute that is not there, or whose look-up fails in whatever way.
    """
    try:
        return getattr(value, name, default)
    except Exception:  # the user's code says in its own way that there is none
        return default


def holds(check: Callable[[Any], bool], value: object) -> bool:
    """Whether a check of a library holds for an object; one that fails on the object's attributes does not.

    Args:
        check: A function such as those of ``inspect``.
        value: The object.
    """
    try:
        return check(value)
    except Exception:  # as above
        return False


# Any: as above.
def attributes_of(instance: object) -> dict[str, Any]:
    """Returns the attributes of an object, in its slots and in its dictionary."""
    slot_values: dict[str, Any] = {}
    for name, member in slots_of(type(instance)).items():
        try:
            slot_values[name] = member.__get__(instance)
        except AttributeError:
            continue  # the slot is empty
    own = attribute_of(instance, "__dict__")
    return {**slot_values, **own} if isinstance(own, dict) else slot_values


def slots_of(class_: type[Any]) -> Mapping[str, MemberDescriptorType]:
    """Returns the slots of a class and of its bases, by name. Members of types of C, often read-only, are no slots."""
    return _slots_of(class_)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _slots_of(class_: type[Any]) -> Mapping[str, MemberDescriptorType]:
    return {
        name: member
        for base in reversed(class_.__mro__)
        if "__slots__" in vars(base)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType)
    }
