"""Says how types are called in plans and errors."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Union, get_args, get_origin

from windrow.functions.marked import Tagged

__all__ = ["type_name"]


def type_name(kind: object) -> str:
    """How a type is called in a plan."""
    if kind is None:
        return "?"
    if get_origin(kind) is Tagged:
        return " or ".join(dict.fromkeys(map(type_name, get_args(kind))))
    if get_origin(kind) in (Union, UnionType):
        return " | ".join("None" if member is NoneType else type_name(member) for member in get_args(kind))
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
