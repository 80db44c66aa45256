"""Reads and sets the attributes of objects past the methods of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any

# Any throughout this module: objects of the user's classes.


def attributes_of(instance: object) -> dict[str, Any]:
    """Returns the attributes of an object, of its slots and of its own dictionary."""
    found: dict[str, Any] = {}
    for name, member in slots_of(type(instance)).items():
        try:
            found[name] = member.__get__(instance)
        except AttributeError:
            continue  # the slot is empty
    held = getattr(instance, "__dict__", None)
    return {**found, **held} if isinstance(held, dict) else found


def set_attributes(instance: object, attributes: Mapping[Any, Any]) -> None:
    """Give an object the attributes that :func:`attributes_of` found. Its class and its methods stay as they are.

    Raises TypeError if a name is not a text, and AttributeError if the object has no place for an attribute.
    """
    slots = slots_of(type(instance))
    for name, value in attributes.items():
        if type(name) is not str:
            raise TypeError(f"an attribute is named by a {type(name).__name__}")
        if name in slots:
            slots[name].__set__(instance, value)
        else:
            # Not setattr: it would also set the class of the object, or call a property.
            object.__getattribute__(instance, "__dict__")[name] = value


def slots_of(kind: type[Any]) -> Mapping[str, MemberDescriptorType]:
    """The slots of a class and of its bases, by name."""
    return _slots_of(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _slots_of(kind: type[Any]) -> Mapping[str, MemberDescriptorType]:
    return {
        name: member
        for base in reversed(kind.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType)
    }
