"""Adds numbers exactly, or with compensated rounding, for sums and means.

Ints are added as ints, of any size. Floats are added with Neumaier's compensation: the total carries the sum of what
rounding took away, so that neither the order of elements nor the order of merges shows in the result, but for the last
bits. Decimals are added without rounding. Time spans are added in microseconds and as exactly: a total counts how often
it went beyond 64 bits, so on the way it may be larger than any time span.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from numbers import Real
from typing import Any, Final

from windrow.calls.results import UnfitValueError
from windrow.errors import AggregateOverflowError

# Any in this module: totals are of the type of what is added, and begin as the int 0.

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1

_MICROSECOND: Final = timedelta(microseconds=1)
_ERA: Final = timedelta(microseconds=2**63)
"""A total of time spans stays below one era: whole eras are taken out of it, and are counted in ``lost``."""

_EXACT: Final = Context(prec=200, traps=[DivisionByZero, Inexact, InvalidOperation, Overflow])
"""Decimals are added in it: what does not fit into 200 digits is an error, not a rounded number."""


def add_number(total: Any, lost: float, value: Any) -> tuple[Any, float]:
    """``value`` added to a total: an int or a float.

    Args:
        total: The total so far: an int as long as only ints were added.
        lost: What rounding took away so far.
        value: What is added.
    """
    class_ = type(value)
    if class_ is float and type(total) is float:
        moved = total + value
        if abs(total) >= abs(value):
            return moved, lost + ((total - moved) + value)
        return moved, lost + ((value - moved) + total)
    if class_ is int and type(total) is int:
        return total + value, lost
    value = as_number(value)
    if type(value) is int and type(total) is int:
        return total + value, lost
    if type(total) is int:
        total, lost = _halves(total)
    for part in _halves(value):
        total, lost = add_number(total, lost, part)
    return total, lost


def add_value(total: Any, lost: float, value: Any) -> tuple[Any, float]:
    """As :func:`add_number`, for decimals and time spans as well."""
    class_ = type(value)
    if (class_ is float or class_ is int) and type(total) is class_:
        return add_number(total, lost, value)
    if isinstance(value, Decimal):
        return _EXACT.add(_same(total, value), value), lost
    if isinstance(value, timedelta):
        return _add_span(_same(total, value), lost, value)
    if isinstance(total, (Decimal, timedelta)):
        raise _mixed(total, value)
    return add_number(total, lost, value)


def _add_span(total: Any, eras: float, span: Any) -> tuple[Any, float]:
    if type(total) is not timedelta or type(span) is not timedelta:
        return total + span, eras  # the time spans of libraries have bounds of their own
    if not -_ERA < span < _ERA:
        more, span = divmod(span, _ERA)
        eras += more
    total += span
    if not -_ERA < total < _ERA:
        more, total = divmod(total, _ERA)
        eras += more
    return total, eras


def merge_totals(total: Any, lost: float, other: Any, other_lost: float) -> tuple[Any, float]:
    """Two totals as one."""
    total, lost = add_value(total, lost, other)
    return total, lost + other_lost


def compensated(total: Any, lost: float) -> Any:
    """The sum that a total stands for."""
    # Behind an infinity the compensation is no number.
    return total + lost if type(total) is float and math.isfinite(total) else total


def span_total(microseconds: int) -> tuple[timedelta, float]:
    """Splits a number of microseconds into a time span and a count of eras, of 2 ** 63 microseconds each."""
    eras = 0 if -(2**63) < microseconds < 2**63 else microseconds >> 63
    return timedelta(microseconds=microseconds - (eras << 63)), float(eras)


def summed(total: Any, lost: float, describe: Callable[[], str]) -> Any:
    """The sum that a total stands for; an int or a time span must fit into 64 bits, as everywhere in columns.

    Args:
        total: The sum, as ``add_value`` keeps it.
        lost: What rounding took from a sum of floats; for time spans, how often the sum went beyond 64 bits.
        describe: Describes the aggregate for the error. A description takes far longer than a sum.

    Raises:
        AggregateOverflowError: If it does not.
    """
    if type(total) is timedelta:
        if not lost and -_ERA < total < _ERA:
            return total
        return checked_span(total // _MICROSECOND + (int(lost) << 63), describe)
    return checked_int(compensated(total, lost), describe)


def checked_span(microseconds: int, describe: Callable[[], str]) -> timedelta:
    """A time span of a number of microseconds.

    Raises:
        AggregateOverflowError: If they do not fit into 64 bits.
    """
    if not _INT_MIN <= microseconds <= _INT_MAX:
        raise AggregateOverflowError(
            f"the result of {describe()} does not fit into 64 bits",
            given=f"{microseconds} microseconds",
            expected=f"a time span of {_INT_MIN} to {_INT_MAX} microseconds, about 292,000 years",
            hint="sum the seconds as floats: lambda r: r.span.total_seconds()",
        )
    return timedelta(microseconds=microseconds)


def checked_int(total: Any, describe: Callable[[], str]) -> Any:
    """A sum; an int must fit into 64 bits.

    Raises:
        AggregateOverflowError: If it does not.
    """
    if type(total) is int and not _INT_MIN <= total <= _INT_MAX:
        raise AggregateOverflowError(
            f"the result of {describe()} does not fit into 64 bits",
            given=str(total),
            expected=f"an int from {_INT_MIN} to {_INT_MAX}",
            hint="sum floats or decimals: lambda r: Decimal(r.number)",
        )
    return total


def as_number(value: Any) -> int | float:
    """A number as an int or a float: booleans, and the scalars of libraries, are made plain.

    Raises:
        UnfitValueError: If it is no number.
    """
    if isinstance(value, float):
        return float(value)
    index = getattr(type(value), "__index__", None)
    if index is not None:
        return int(index(value))
    if isinstance(value, Real):
        return float(value)
    raise UnfitValueError(
        "an aggregate of numbers got something else",
        given=f"{value!r:.200}",
        expected="int or float, or None; sum takes Decimal and timedelta, too",
        hint="let the selector give a number",
    )


def _halves(value: int | float) -> tuple[float, float]:
    """A number as a float and what the float leaves out."""
    near = float(value)
    return near, float(value - int(near)) if type(value) is int else 0.0


def _same(total: Any, value: Any) -> Any:
    """The total, for a value that is added to totals of its own type alone; the int 0 begins every total."""
    if type(total) is int and total == 0:
        return type(value)(0)
    if isinstance(total, type(value)):
        return total
    raise _mixed(total, value)


def _mixed(total: Any, value: Any) -> UnfitValueError:
    return UnfitValueError(
        "a sum got values that cannot be added to each other",
        given=f"{type(total).__name__} and {type(value).__name__}",
        expected="numbers, or decimals, or time spans",
        hint="let the selector give one type",
    )
