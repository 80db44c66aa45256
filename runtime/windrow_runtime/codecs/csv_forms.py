"""Defines how cells of CSV spell null, truth values and numbers, by the options of a source."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.value_type import Kind

_INTEGER: Final = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER: Final = 64
_FEWEST_INEXACT: Final = 16
"""The digits of the smallest whole number that is no float."""
_LONGEST_FLOAT: Final = 400
"""More characters than a whole number has that is a float."""
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}


def _decimal_of(number: str) -> Decimal | None:
    """The value of a decimal number; None where its exponent is beyond those of decimals."""
    try:
        return Decimal(number)
    except InvalidOperation:
        return None


def number_of(cell: str) -> object:
    """Reads a cell as an int or a decimal with all its digits; any other text stays as it is."""
    if _INTEGER.fullmatch(cell):
        return int(cell)
    value = _decimal_of(cell) if len(cell) <= _LONGEST_NUMBER and _FLOAT.fullmatch(cell) else None
    return cell if value is None else value


@dataclass(frozen=True, slots=True)
class CsvForms:
    """The forms that a source takes for null, truth values and numbers; the defaults are strict."""

    nulls: frozenset[str] = frozenset({""})
    true_values: frozenset[str] = frozenset({"true"})  # in small letters
    false_values: frozenset[str] = frozenset({"false"})
    float_names: bool = False
    integral_floats: bool = False
    decimal: str = "."
    thousands: str | None = None

    def converter(self, kind: Kind, path: str) -> Callable[[str], object] | None:
        """Makes the converter from the text of a cell to its value in JSON, for kinds with forms of their own here.

        A text in no such form stays as it is, and the parser says what it expected; or it is an :class:`UnfitError`.
        """
        if kind is Kind.DECIMAL and (self.decimal != "." or self.thousands is not None):
            return lambda cell: self._decimal(cell, path)
        converters: dict[Kind, Callable[[str], object]] = {
            Kind.NONE: lambda cell: cell or None,
            Kind.BOOL: self._bool,
            Kind.INT: self._int,
            Kind.FLOAT: self._float,
        }
        return converters.get(kind)

    def _bool(self, cell: str) -> object:
        lower = cell.lower()
        return True if lower in self.true_values else False if lower in self.false_values else cell

    def _plain(self, cell: str) -> str | None:
        """The number as Python writes it; None: the text is no number of this form."""
        if self.decimal == "." and self.thousands is None:
            return cell
        match = _number_pattern(self.decimal, self.thousands).fullmatch(cell[:_LONGEST_NUMBER])
        if match is None or len(cell) > _LONGEST_NUMBER or not (match[2] or match[3]):
            return None
        whole = (match[2] or "").replace(self.thousands or " ", "")
        return f"{match[1]}{whole}{'' if match[3] is None else f'.{match[3]}'}{match[4] or ''}"

    def _int(self, cell: str) -> object:
        number = self._plain(cell)
        if number is None:
            return cell
        if _INTEGER.fullmatch(number):
            return int(number)
        if self.integral_floats and len(number) <= _LONGEST_NUMBER and _FLOAT.fullmatch(number):
            value = _decimal_of(number)
            if value is not None and value.adjusted() < 20 and value == value.to_integral_value():
                return int(value)
        return cell

    def _float(self, cell: str) -> object:
        number = self._plain(cell)
        if self.float_names:
            sign = cell[:1] if cell[:1] in "+-" else ""
            name = _NOT_FINITE.get(cell[len(sign) :].lower())
            if name is not None:
                return f"-{name}" if sign == "-" and name == "Infinity" else name
        if number is None or _FLOAT.fullmatch(number) is None:
            return cell
        if number.lstrip("+-").isdigit() and _FEWEST_INEXACT <= len(number) <= _LONGEST_FLOAT:
            return int(number)  # the parser says whether a float has these digits
        value = float(number)
        # An int beyond all floats: the parser says that it is out of range.
        return 10**400 if value in (float("inf"), float("-inf")) else value

    def _decimal(self, cell: str, path: str) -> object:
        number = self._plain(cell)
        if number is None:
            raise UnfitError(path, f"{short_repr(cell)} is not a decimal number with {self.decimal!r}")
        return number


@lru_cache(maxsize=100)
def _number_pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    point, group = re.escape(decimal), re.escape(thousands or "")
    grouped = rf"|\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{3}}" if thousands is not None else ""
    return re.compile(rf"([+-]?)(\d+{grouped})?(?:{point}(\d*))?([eE][+-]?\d+)?", re.ASCII)


STRICT: Final = CsvForms()
