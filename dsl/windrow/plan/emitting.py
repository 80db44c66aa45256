"""What functions that emit records must not return: one value whose items are no records."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.plan.records import is_named_tuple_class

__all__ = ["HINT", "is_single", "records_of"]

# What can be iterated, but is one value: the items of a text are characters, those of a dict its keys.
_SINGLE = (str, bytes, bytearray, memoryview, Mapping)

HINT = "return a list of what is to be emitted: [value] for one record, [] for none"


def is_single(kind: object) -> bool:
    """Whether an annotated result is one value that only looks like several."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(map(is_single, typing.get_args(kind)))
    kind = typing.get_origin(kind) or kind
    return isinstance(kind, type) and (issubclass(kind, _SINGLE) or is_named_tuple_class(kind))


# Any: records of every type.
def records_of(result: Iterable[Any]) -> Iterable[Any]:
    """The records that a function returned.

    Raises:
        InvalidArgumentError: If it returned one value instead, whose items would be taken for records.
    """
    kind = type(result)
    if kind is not list and (isinstance(result, _SINGLE) or is_named_tuple_class(kind)):
        raise InvalidArgumentError(
            "a function that emits records returned one value",
            given=f"{result!r:.200}, a {kind.__name__}",
            expected="an iterable of records, such as a list",
            hint=HINT,
        )
    return result
