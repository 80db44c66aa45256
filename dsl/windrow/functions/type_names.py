"""Says how types are called in plans and errors."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Union, get_args, get_origin

from windrow.functions.marked import Tagged


def type_name(type_form: object) -> str:
    """How a type is called in a plan."""
    if type_form is None:
        return "?"
    if get_origin(type_form) is Tagged:
        return " or ".join(dict.fromkeys(map(type_name, get_args(type_form))))
    if get_origin(type_form) in (Union, UnionType):
        return " | ".join("None" if member is NoneType else type_name(member) for member in get_args(type_form))
    return type_form.__name__ if isinstance(type_form, type) and not hasattr(type_form, "__args__") else str(type_form)
