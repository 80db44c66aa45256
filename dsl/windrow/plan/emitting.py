"""Refuses functions that should emit records and return one value: the items of a text would be taken for records.

Type checkers refuse such a function by its annotations, the plan by its annotations too, and the run by its result.
"""

from __future__ import annotations

import types
import typing
from collections import UserString
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from windrow.calls.attributes import attribute_of
from windrow.errors import InvalidArgumentError
from windrow.facts.code import facts
from windrow.plan.fitting import is_value_of
from windrow.plan.records import is_named_tuple_class

# Any: dicts of every type.
OneValue: TypeAlias = "str | bytes | bytearray | Mapping[Any, Any] | tuple[Any, Any, *tuple[Any, ...]]"
"""What can be iterated, but is one value: the items of a text are characters, those of a dict its keys.

So is a tuple of two parts or more whose number is fixed; ``tuple[int, ...]`` is as good as a list.
"""

_SINGLE = (str, bytes, bytearray, memoryview, Mapping, UserString)

WRAP_IT: Final = "the function returns one value, whose items would be taken for records: return a list, [value]"
"""What type checkers show."""

TUPLE_HINT: Final = "yield (a, b), or return [(a, b)], for one record that is a tuple; return [a, b] for two records"

HINT: Final = "return a list of what is to be emitted: [value] for one record, [] for none"


class NotRecords:
    """The type of ``flat_map``, ``apply`` and ``map_batches`` with a function that returns one value, such as a text.

    It has none of a stream's methods, so type checkers refuse the next call. The plan refuses the step.
    """


def is_single(type_form: object) -> bool:
    """Whether an annotated result is one value that only looks like several."""
    if typing.get_origin(type_form) in (typing.Union, types.UnionType):
        return any(map(is_single, typing.get_args(type_form)))
    if is_fixed_tuple(type_form):
        return True
    type_form = typing.get_origin(type_form) or type_form
    return isinstance(type_form, type) and (issubclass(type_form, _SINGLE) or is_named_tuple_class(type_form))


def is_fixed_tuple(type_form: object) -> bool:
    """Whether an annotated result is a tuple of a fixed number of parts, two or more: one record, not several."""
    if typing.get_origin(type_form) in (typing.Union, types.UnionType):
        return any(map(is_fixed_tuple, typing.get_args(type_form)))
    arguments = typing.get_args(type_form)
    if typing.get_origin(type_form) is not tuple or len(arguments) < 2:
        return False
    return Ellipsis not in arguments and not any(typing.get_origin(each) is typing.Unpack for each in arguments)


def gives_one_tuple(function: object) -> bool:
    """Whether the code of a function returns a tuple of two parts or more wherever it returns something."""
    function = attribute_of(function, "__func__", function)
    return isinstance(function, types.FunctionType) and facts(function).gives_one_tuple


# Any: records of every type.
def records_of(result: Iterable[Any], type_form: object | None = None) -> Iterable[Any]:
    """The records that a function returned.

    Args:
        result: What it returned.
        type_form: The type of the records; None: not known.

    Raises:
        InvalidArgumentError: If it returned one value instead, whose items would be taken for records. A tuple is one
            value where its parts are no records of that type.
    """
    returned = type(result)
    if returned is list or returned is types.GeneratorType:
        return result
    if returned is tuple:
        parts: tuple[Any, ...] = result  # type: ignore[assignment]  # as its class says
        if type_form is None or len(parts) < 2 or all(is_value_of(part, type_form) for part in parts):
            return result
        expected, hint = f"an iterable of records of type {type_form}", TUPLE_HINT
    elif isinstance(result, (tuple, *_SINGLE)):
        # A class of tuples has fields, as a named tuple, a row of Spark's and a moment of the time module have.
        expected, hint = "an iterable of records, such as a list", HINT
    elif hasattr(returned, "__dataframe__"):
        # The protocol of tables, which pandas, Polars and Arrow have: iterated they give columns, or their names.
        expected, hint = "an iterable of records, such as a list", "frame.itertuples(index=False) gives the rows"
    else:
        return result
    raise InvalidArgumentError(
        "a function that emits records returned one value",
        given=f"{result!r:.200}, a {returned.__name__}",
        expected=expected,
        hint=hint,
    )
