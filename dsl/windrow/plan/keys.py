"""Finds the type of keys in a plan, and whether their values have a hash."""

from __future__ import annotations

import types
import typing
from collections.abc import Hashable
from typing import Annotated, Union

from windrow.functions.marked import SideKey
from windrow.plan.nodes import KeyByNode
from windrow.plan.types import made_type

HINT = "use a tuple for a list, a frozenset for a set, a frozen dataclass for one that changes"


def key_type(node: KeyByNode) -> object | None:
    """The type of the keys: as it was given, or as the selector takes them; None: it is not known."""
    if node.key_type is not None:
        return node.key_type
    if isinstance(node.selector, SideKey):
        # The keys of both streams are of one type.
        sides = typing.get_args(node.element_type) or (None, None)
        key_types = [made_type(selector, kind) for selector, kind in zip(node.selector.selectors, sides, strict=True)]
        return key_types[0] or key_types[1]
    return made_type(node.selector, node.element_type)


def unhashable_part(type_form: object) -> object | None:
    """The type, or the type within it, whose values have no hash; None where all have one, or nobody can tell."""
    origin = typing.get_origin(type_form)
    arguments = typing.get_args(type_form)
    if origin is Annotated:
        return unhashable_part(arguments[0])
    if origin in (tuple, frozenset, Union, types.UnionType):
        return next((part for part in map(unhashable_part, arguments) if part is not None), None)
    plain = origin or type_form
    return type_form if isinstance(plain, type) and not issubclass(plain, Hashable) else None
