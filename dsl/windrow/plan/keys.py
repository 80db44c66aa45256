"""Keys must have a hash: what the plan finds in annotations."""

from __future__ import annotations

import types
import typing
from collections.abc import Hashable
from typing import Annotated, Union

__all__ = ["HINT", "unhashable_part"]

HINT = "use a tuple for a list, a frozenset for a set, a frozen dataclass for one that changes"


def unhashable_part(kind: object) -> object | None:
    """The type, or the type within it, whose values have no hash; None where all have one, or nobody can tell."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin is Annotated:
        return unhashable_part(arguments[0])
    if origin in (tuple, frozenset, Union, types.UnionType):
        return next((part for part in map(unhashable_part, arguments) if part is not None), None)
    plain = origin or kind
    return kind if isinstance(plain, type) and not issubclass(plain, Hashable) else None
