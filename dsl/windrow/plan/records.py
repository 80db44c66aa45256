"""Recognises record classes, and those among them that do nothing but keep their fields."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from types import MemberDescriptorType
from typing import Any, Final

from windrow.facts.code import is_generated
from windrow.facts.packages import is_of_windrow

# Any in this module: classes of the user's.


def is_named_tuple_class(kind: type) -> bool:
    """Whether a class is a named tuple, or derived from one."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_record_class(kind: type) -> bool:
    """Whether a class says what its values hold: a dataclass, a named tuple, a msgspec.Struct, or one of attrs."""
    return is_named_tuple_class(kind) or any(hasattr(kind, mark) for mark in _MARKS)


# Marks of classes whose packages need not be installed.
_MARKS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")


def hook_of(kind: type[Any]) -> str | None:
    """The code of the user's that runs when a record of a class is made, or when its fields are read.

    Columns hold the fields alone, so that this code would not run. The answer is for the class as it is now.

    Returns:
        A few words, such as ``"__post_init__"``; None: making and reading records does nothing but keep their fields.
    """
    return making_hook(kind) or reading_hook(kind)


def making_hook(kind: type[Any]) -> str | None:
    """The code of the user's that runs when a record of a class is made; None: there is none.

    It is ``"__post_init__"`` where there is no other.
    """
    if is_users_method(type(kind), "__call__"):
        return "metaclass with a __call__"
    if issubclass(kind, tuple):
        is_plain = kind is tuple or (
            # A class derived from a named tuple may replace what makes it.
            kind.__bases__[0] is tuple
            and getattr(kind.__new__, "__module__", None) == f"namedtuple_{kind.__name__}"
            and not is_users_method(kind, "__init__")
        )
        return None if is_plain else "constructor of its own"
    if is_users_method(kind, "__new__"):
        return "constructor of its own"
    if dataclasses.is_dataclass(kind):
        if not has_generated(kind, "__init__"):
            return "constructor of its own"
        maker: Any = _definer(kind, "__init__")
        parameters = vars(maker).get("__dataclass_params__")
        # The constructor of a frozen dataclass sets its fields past a method of the class.
        if not (parameters is not None and parameters.frozen) and is_users_method(kind, "__setattr__"):
            return "__setattr__"
    # The last one: those who call it themselves ask for others.
    return "__post_init__" if hasattr(kind, "__post_init__") else None


def reading_hook(kind: type[Any]) -> str | None:
    """The code of the user's that runs when a field of a record is read; None: there is none."""
    methods = ("__getattribute__", *_TUPLE_READERS) if issubclass(kind, tuple) else ("__getattribute__",)
    for method in methods:
        if is_users_method(kind, method):
            return method
    if issubclass(kind, tuple):
        names: tuple[str, ...] = getattr(kind, "_fields", ())
        acting = [name for place, name in enumerate(names) if not _is_place(inspect.getattr_static(kind, name), place)]
    elif dataclasses.is_dataclass(kind):
        acting = [each.name for each in dataclasses.fields(kind) if _acts(kind, each.name)]
    else:
        acting = [name for name in getattr(kind, "__struct_fields__", ()) if _acts(kind, name)]
    return "property in the place of a field" if acting else None


_TUPLE_READERS: Final = ("__getitem__", "__iter__", "__len__", "__contains__")


def has_generated(record: type[Any], method: str) -> bool:
    """Whether a dataclass's method is the one that the decorator wrote."""
    return is_generated(getattr(record, method, None))


def _definer(kind: type[Any], method: str) -> type[Any] | None:
    """The class among a class and its bases that has a method."""
    return next((base for base in kind.__mro__ if method in vars(base)), None)


def is_users_method(kind: type[Any], method: str) -> bool:
    """Whether a method is neither Python's nor that of a library of records."""
    definer = _definer(kind, method)
    if definer is None or definer.__module__ in _MAKERS:
        return False
    # Whoever wrote a Struct has imported msgspec, so there is no need to import it here.
    msgspec = sys.modules.get("msgspec")
    return msgspec is None or definer not in (msgspec.Struct, msgspec.StructMeta)


_MAKERS: Final = frozenset({"builtins", "typing", "typing_extensions", "abc", "_typing", "enum"})


def _is_place(attribute: object, place: int) -> bool:
    """Whether an attribute of a named tuple's class gives the item at a place."""
    if type(attribute).__name__ != "_tuplegetter":
        return False
    # Any: what it is pickled as, of which the first argument is the place.
    reduced: Any = attribute.__reduce__()
    return bool(reduced[1][0] == place)


def _acts(kind: type[Any], name: str) -> bool:
    """Whether an attribute of a class changes or checks a value that is assigned to it; a plain slot only keeps it."""
    attribute = inspect.getattr_static(kind, name, None)
    if isinstance(attribute, MemberDescriptorType):
        return attribute.__name__ != name
    if is_of_windrow(type(attribute).__module__):
        return False
    # Any other descriptor comes after the attributes of an object.
    return hasattr(type(attribute), "__set__") or hasattr(type(attribute), "__delete__")
