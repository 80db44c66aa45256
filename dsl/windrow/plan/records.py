"""Tells classes of records from others."""

from __future__ import annotations

__all__ = ["is_named_tuple_class", "is_record_class"]


def is_named_tuple_class(kind: type) -> bool:
    """Whether a class is a named tuple, or derived from one."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_record_class(kind: type) -> bool:
    """Whether a class says what its values hold: a dataclass, a named tuple, a msgspec.Struct, or one of attrs."""
    return is_named_tuple_class(kind) or any(hasattr(kind, mark) for mark in _MARKS)


# Marks of classes whose packages need not be installed.
_MARKS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")
