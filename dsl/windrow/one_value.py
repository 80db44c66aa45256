"""What the type checker sees where a function that emits records returns one value instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

__all__ = ["WRAP_IT", "NotRecords", "OneValue"]

# Any: dicts of every type.
OneValue: TypeAlias = "str | bytes | bytearray | Mapping[Any, Any]"
"""What can be iterated, but is one value: the items of a text are characters, those of a dict its keys."""

WRAP_IT: Final = (
    "the function returns one value, whose items would be taken for records: return a list, [value]"
)


class NotRecords:
    """The type of ``flat_map`` and ``apply`` with a function that returns a text, bytes or a dict.

    It has none of a stream's methods, so type checkers refuse the next call. The plan refuses the step.
    """
