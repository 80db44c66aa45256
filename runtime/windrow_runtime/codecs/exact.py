"""Says whether a type holds a scalar exactly: each adapter asks here before it reads a value or writes one.

An adapter never rounds, cuts or wraps a value. What a type does not hold is an ``UnfitError`` with the path of the
field: a source makes a malformed record of it, a sink an error.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
from collections.abc import Callable
from decimal import Decimal
from operator import index
from typing import Any, Final, SupportsFloat, SupportsIndex

from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.value_type import INT_MAX, INT_MIN, Kind, ValueType

# Any in this module: numbers of Python, of numpy and of decimal have no common type.

MICROS: Final = 1_000_000
NANOS: Final = 1_000_000_000
"""How many units a count of a moment or of a time span has in a second."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_DIGITS: Final = decimal.Context(prec=100, traps=[decimal.Inexact, decimal.InvalidOperation])
_LARGEST_SINGLE: Final = float.fromhex("0x1.fffffep127")
_ROUNDED_TO_ZERO: Final = 2.0**-150


class NumberForm(enum.Enum):
    """The forms of numbers that hold less than the types of Python, as others' schemas have them."""

    INT32 = (-(2**31), 2**31 - 1)
    UINT32 = (0, 2**32 - 1)
    INT64 = (INT_MIN, INT_MAX)
    UINT64 = (0, 2**64 - 1)
    FLOAT32 = (-_LARGEST_SINGLE, _LARGEST_SINGLE)


def exactly(datum: Any, value: ValueType, path: str, per_second: int = MICROS) -> Any:
    """Returns the value of a scalar type that equals a datum; an ``UnfitError`` if the type has none.

    Args:
        datum: A value, or the number for which another format has a value: a count of days, or of a unit of time.
        value: The type; of other kinds than scalars each datum is returned as it is.
        path: The path of the field, for the error.
        per_second: How many units of a count of time are in a second.
    """
    hold = _HOLDS.get(value.kind)
    return datum if hold is None else hold(datum, value, path, per_second)


def as_plain(datum: Any, value: ValueType, path: str) -> Any:
    """Returns a value of a type's own class for one of another class that the type admits, such as a number of numpy.

    Decimals keep their digits, as formats differ in how many they have; other kinds than scalars stay as they are.
    """
    return datum if value.kind is Kind.DECIMAL else exactly(datum, value, path)


def stored(number: Any, form: NumberForm, path: str) -> Any:
    """Returns a number that a narrower form holds; an ``UnfitError`` if it is beyond the form, or no number of it.

    A float of 32 bits is the nearest one, as the user's schema asks for 24 digits; none becomes infinite or 0.
    """
    if form is not NumberForm.FLOAT32:
        number = _whole(number, path)
    low, high = form.value
    if form is NumberForm.FLOAT32 and 0 < abs(number) <= _ROUNDED_TO_ZERO:
        raise UnfitError(path, f"{short_repr(number)} is nearer to zero than each {form.name.lower()}")
    if low <= number <= high or (form is NumberForm.FLOAT32 and not math.isfinite(number)):
        return number
    raise UnfitError(path, f"{short_repr(number)} is beyond {form.name.lower()}", f"{low} to {high}")


def float_of_digits(number: int, path: str) -> float:
    """Returns the float that the digits of a text name; an ``UnfitError`` if it is another number.

    JavaScript and others write a large float with the fewest digits that name it, and zeros after them, so the digits
    of a text are another number than the float, which they name all the same.
    """
    try:
        nearest = float(number)
    except OverflowError:
        raise UnfitError(path, "the number is out of range") from None
    if nearest != number and Decimal(repr(nearest)) != number:
        raise UnfitError(path, f"{short_repr(number)} is no float: the nearest one is {nearest}")
    return nearest


def _wrong(datum: object, value: ValueType, path: str) -> UnfitError:
    return UnfitError(path, f"{short_repr(datum)} is a {type(datum).__name__}", str(value))


def _whole(number: Any, path: str) -> int:
    if type(number) is int:
        return number
    if isinstance(number, SupportsIndex) and not isinstance(number, bool):
        return index(number)
    if isinstance(number, (float, Decimal)) and math.isfinite(number) and number == int(number):
        return int(number)
    raise UnfitError(path, f"{short_repr(number)} is no whole number")


def _int(datum: Any, value: ValueType, path: str, per_second: int) -> int:
    number = _whole(datum, path)
    if not INT_MIN <= number <= INT_MAX:
        raise UnfitError(path, f"{short_repr(datum)} does not fit 64 bits", str(value))
    return number


def _float(datum: Any, value: ValueType, path: str, per_second: int) -> float:
    if type(datum) is float:
        return datum
    if isinstance(datum, bool) or not isinstance(datum, SupportsFloat):
        raise _wrong(datum, value, path)
    try:
        nearest = float(datum)
    except OverflowError:
        nearest = math.inf
    if nearest != datum and not math.isnan(nearest):
        raise UnfitError(path, f"{short_repr(datum)} is no float: the nearest one is {nearest}", str(value))
    return nearest


def _decimal(datum: Any, value: ValueType, path: str, per_second: int) -> Decimal:
    """A number with as many digits after the point as its type says."""
    if isinstance(datum, bool) or not isinstance(datum, (int, Decimal)):
        raise _wrong(datum, value, path)
    before = value.precision - value.scale
    try:
        exact = Decimal(datum).quantize(Decimal(1).scaleb(-value.scale), context=_DIGITS)
    except decimal.DecimalException:
        exact = None
    if exact is None or not exact.is_finite() or exact.adjusted() >= before:
        digits = f"at most {before} digits before the point and {value.scale} after it"
        raise UnfitError(path, f"{datum} has not {digits}", str(value))
    return exact


def _text(datum: Any, value: ValueType, path: str, per_second: int) -> str:
    if not isinstance(datum, str):
        raise _wrong(datum, value, path)
    if not datum.isascii():
        try:
            datum.encode()
        except UnicodeEncodeError:
            raise UnfitError(path, f"{short_repr(datum)} has half a surrogate pair", str(value)) from None
    return str.__str__(datum)


def _check_pandas(datum: Any, path: str) -> None:
    """Refuses a time of pandas that has nanoseconds, which its base class of Python has not."""
    if getattr(datum, "nanosecond", 0) or getattr(datum, "nanoseconds", 0):
        raise UnfitError(path, f"{short_repr(datum)} is finer than a microsecond")


def _span(datum: Any, value: ValueType, path: str, per_second: int) -> datetime.timedelta:
    if isinstance(datum, datetime.timedelta):
        _check_pandas(datum, path)
        return datum
    micros, finer = divmod(_whole(datum, path) * MICROS, per_second)
    if finer:
        name = value.python_type.__name__
        raise UnfitError(path, f"{datum} of {per_second:,} a second is finer than a microsecond of {name}", str(value))
    try:
        return datetime.timedelta(microseconds=micros)
    except OverflowError as error:
        raise UnfitError(path, f"{datum} of {per_second:,} a second: {error}", str(value)) from None


def _moment(datum: Any, value: ValueType, path: str, per_second: int) -> datetime.datetime:
    if isinstance(datum, datetime.datetime):
        if datum.utcoffset() is None:
            raise UnfitError(path, f"{short_repr(datum)} has no time zone, so it names no moment", "an aware datetime")
        _check_pandas(datum, path)
        since = datum - _EPOCH
    else:
        since = _span(datum, value, path, per_second)
    try:
        return _EPOCH + since
    except OverflowError:
        raise UnfitError(path, f"{short_repr(datum)} is outside of the years 1 to 9999", str(value)) from None


def _date(datum: Any, value: ValueType, path: str, per_second: int) -> datetime.date:
    if isinstance(datum, datetime.date) and not isinstance(datum, datetime.datetime):
        return datum
    try:
        return datetime.date.fromordinal(_EPOCH_DAY + _whole(datum, path))
    except (ValueError, OverflowError):
        raise UnfitError(path, f"{datum} days since 1970 are outside of the years 1 to 9999", str(value)) from None


def _bool(datum: Any, value: ValueType, path: str, per_second: int) -> bool:
    if not value.admits(type(datum)):
        raise _wrong(datum, value, path)
    return bool(datum)


_HOLDS: Final[dict[Kind, Callable[[Any, ValueType, str, int], Any]]] = {
    Kind.BOOL: _bool,
    Kind.INT: _int,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.STR: _text,
    Kind.DATETIME: _moment,
    Kind.DATE: _date,
    Kind.TIMEDELTA: _span,
}
