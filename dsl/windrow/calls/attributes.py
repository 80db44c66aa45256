"""Asks objects of users for attributes: their ``__getattr__`` and their properties may raise anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["attribute_of", "holds"]


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
