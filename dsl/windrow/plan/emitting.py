"""Functions that emit records must not return one value, such as a text, whose items would be taken for records.

Type checkers refuse such a function by its annotations, the plan by its annotations too, and the run by its result.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from windrow.errors import InvalidArgumentError
from windrow.plan.records import is_named_tuple_class

__all__ = ["HINT", "WRAP_IT", "NotRecords", "OneValue", "is_single", "records_of"]

# Any: dicts of every type.
OneValue: TypeAlias = "str | bytes | bytearray | Mapping[Any, Any]"
"""What can be iterated, but is one value: the items of a text are characters, those of a dict its keys."""

_SINGLE = (str, bytes, bytearray, memoryview, Mapping)

WRAP_IT: Final = "the function returns one value, whose items would be taken for records: return a list, [value]"
"""What type checkers show."""

HINT: Final = "return a list of what is to be emitted: [value] for one record, [] for none"


class NotRecords:
    """The type of ``flat_map`` and ``apply`` with a function that returns a text, bytes or a dict.

    It has none of a stream's methods, so type checkers refuse the next call. The plan refuses the step.
    """


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
