"""Keys must have a hash: what the plan finds in annotations, and what both engines find in a key."""

from __future__ import annotations

import types
import typing
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Union

from windrow.errors import InvalidArgumentError

__all__ = ["HINT", "check_hashable", "unhashable_part"]

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


# Any: keys of every type.
def check_hashable(keys: Sequence[Any], where: str) -> None:
    """Refuse keys that have no hash.

    Args:
        keys: The keys.
        where: The step.

    Raises:
        InvalidArgumentError: If one has none.
    """
    try:
        deque(map(hash, keys), maxlen=0)
    except TypeError as error:
        raise InvalidArgumentError(
            "a key cannot be hashed",
            given=_unhashable(keys),
            expected="a key that stays the same, with a hash",
            where=where,
            hint=HINT,
        ) from error


def _unhashable(keys: Sequence[Any]) -> str:
    for key in keys:
        try:
            hash(key)
        except TypeError:
            return f"{key!r:.200}"
    return "a key"
