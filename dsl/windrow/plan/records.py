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


def is_named_tuple_class(class_: type) -> bool:
    """Whether a class is a named tuple, or derived from one."""
    return issubclass(class_, tuple) and hasattr(class_, "_fields")


def is_record_class(class_: type) -> bool:
    """Whether a class says what its values hold: a dataclass, a named tuple, a msgspec.Struct, or one of attrs."""
    return is_named_tuple_class(class_) or any(hasattr(class_, mark) for mark in _MARKS)


# Marks of classes whose packages need not be installed.
_MARKS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")


def hook_of(class_: type[Any]) -> str | None:
    """The code of the user's that runs when a record of a class is made, or when its fields are read.

    Columns hold the fields alone, so that this code would not run. The answer is for the class as it is now.

    Returns:
        A few words, such as ``"__post_init__"``; None: making and reading records does nothing but keep their fields.
    """
    return making_hook(class_) or reading_hook(class_)


def making_hook(class_: type[Any]) -> str | None:
    """The code of the user's that runs when a record of a class is made; None: there is none.

    It is ``"__post_init__"`` where there is no other.
    """
    if is_users_method(type(class_), "__call__"):
        return "metaclass with a __call__"
    if issubclass(class_, tuple):
        is_plain = class_ is tuple or (
            # A class derived from a named tuple may replace what makes it.
            class_.__bases__[0] is tuple
            and getattr(class_.__new__, "__module__", None) == f"namedtuple_{class_.__name__}"
            and not is_users_method(class_, "__init__")
        )
        return None if is_plain else "constructor of its own"
    if is_users_method(class_, "__new__"):
        return "constructor of its own"
    if dataclasses.is_dataclass(class_):
        if not has_generated(class_, "__init__"):
            return "constructor of its own"
        maker: Any = _definer(class_, "__init__")
        parameters = vars(maker).get("__dataclass_params__")
        # The constructor of a frozen dataclass sets its fields past a method of the class.
        if not (parameters is not None and parameters.frozen) and is_users_method(class_, "__setattr__"):
            return "__setattr__"
    # The last one: those who call it themselves ask for others.
    return "__post_init__" if hasattr(class_, "__post_init__") else None


def reading_hook(class_: type[Any]) -> str | None:
    """The code of the user's that runs when a field of a record is read; None: there is none."""
    methods = ("__getattribute__", *_TUPLE_READERS) if issubclass(class_, tuple) else ("__getattribute__",)
    for method in methods:
        if is_users_method(class_, method):
            return method
    if issubclass(class_, tuple):
        names: tuple[str, ...] = getattr(class_, "_fields", ())
        acting = [
            name for place, name in enumerate(names) if not _is_place(inspect.getattr_static(class_, name), place)
        ]
    elif dataclasses.is_dataclass(class_):
        acting = [each.name for each in dataclasses.fields(class_) if _acts(class_, each.name)]
    else:
        acting = [name for name in getattr(class_, "__struct_fields__", ()) if _acts(class_, name)]
    return "property in the place of a field" if acting else None


_TUPLE_READERS: Final = ("__getitem__", "__iter__", "__len__", "__contains__")


def has_generated(record: type[Any], method: str) -> bool:
    """Whether a dataclass's method is the one that the decorator wrote."""
    return is_generated(getattr(record, method, None))


def _definer(class_: type[Any], method: str) -> type[Any] | None:
    """The class among a class and its bases that has a method."""
    return next((base for base in class_.__mro__ if method in vars(base)), None)


def is_users_method(class_: type[Any], method: str) -> bool:
    """Whether a method is neither Python's nor that of a library of records."""
    definer = _definer(class_, method)
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


def _acts(class_: type[Any], name: str) -> bool:
    """Whether an attribute of a class changes or checks a value that is assigned to it; a plain slot only keeps it."""
    attribute = inspect.getattr_static(class_, name, None)
    if isinstance(attribute, MemberDescriptorType):
        return attribute.__name__ != name
    if is_of_windrow(type(attribute).__module__):
        return False
    # Any other descriptor comes after the attributes of an object.
    return hasattr(type(attribute), "__set__") or hasattr(type(attribute), "__delete__")
