"""Refuses unusable results of users' functions: values that nobody has computed, and conditions without a truth value.

Runtimes turn the error into a :class:`~windrow.errors.UserFunctionError` with the step and the element.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Final

from windrow.errors import InvalidArgumentError

LAZY_TYPES: Final[frozenset[type]] = frozenset(
    {GeneratorType, CoroutineType, AsyncGeneratorType, map, filter, zip, enumerate, reversed}
)
"""The types of values that are computed when somebody asks for them, and only once."""


class UnusableResultError(InvalidArgumentError):
    """A value of the user's cannot be used: ``given`` says what it is, the message why."""


class UnfitValueError(InvalidArgumentError):
    """What a function took from an element does not fit its step; error policies of steps decide about that element."""


class NoTruthValueError(UnusableResultError, UnfitValueError):
    """A condition has no truth value for one element."""


def not_computed(result: object) -> UnusableResultError:
    """The error for a value that is computed only when somebody asks for it.

    Args:
        result: A value of one of :data:`LAZY_TYPES`.
    """
    is_awaited = isinstance(result, (CoroutineType, AsyncGeneratorType))
    if isinstance(result, CoroutineType):
        result.close()  # else Python warns that nobody has awaited it
    return UnusableResultError(
        "a value that is computed later can neither be sent to workers nor be read twice",
        given=f"a {type(result).__name__}",
        expected="the value itself, such as a list of what it would give",
        hint="map_async takes coroutine functions"
        if is_awaited
        else "flat_map emits each value that a function yields; list(...) keeps them in one element",
    )


# A value of a class of the user's, or of a library.
def truth(value: object) -> bool:
    """Whether a value that a function of the user's returned as a condition is true.

    Args:
        value: Anything that has a truth value; an array of one dimension or more has none.

    Raises:
        NoTruthValueError: If it has none.
        UnusableResultError: If nobody has computed it yet, such as a generator.
    """
    if value is True or value is False:
        return value
    class_ = type(value)
    if class_ in LAZY_TYPES:
        raise not_computed(value)
    reason = ""
    try:
        if not hasattr(class_, "__array__") or getattr(value, "ndim", 1) == 0:
            return bool(value)
    except Exception as error:  # the user's class, or a library's, may raise anything
        reason = f", {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    raise NoTruthValueError(
        f"a condition is neither true nor false{reason}",
        given=f"a {class_.__name__}",
        expected="True or False, or a value that Python takes for one of them",
        hint="say what a missing value means: value is not pandas.NA and value > 0; for arrays use .any() or .all()",
    )
