"""Says how many digits the decimals of a field have in columns."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import InvalidArgumentError

__all__ = ["DecimalType"]

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class DecimalType:
    """The digits that a ``Decimal`` field has in columns of Arrow, Parquet and Spark, as a note of its annotation.

    ``amount: Annotated[Decimal, DecimalType(10, 2)]`` is a column of the type ``DECIMAL(10, 2)``. A field without it is
    one of ``DECIMAL(38, 18)``. A number of a source's column that has more digits is a malformed record. Objects with
    attributes of these names, such as Spark's and Arrow's types of decimals, may stand in its place.

    Args:
        precision: How many digits a number has at most, 1 to 38.
        scale: How many of them are behind the point.

    Raises:
        InvalidArgumentError: If there is no such type.
    """

    precision: int
    scale: int = 0

    def __post_init__(self) -> None:
        for given in (self.precision, self.scale):
            if type(given) is not int or given < 0:
                raise InvalidArgumentError("digits are counted", given=given, expected="an int of 0 or more")
        if not max(self.scale, 1) <= self.precision <= _MOST_DIGITS:
            raise InvalidArgumentError(
                "no column has such decimals",
                given=self,
                expected=f"a precision of 1 to {_MOST_DIGITS}, and a scale of 0 to the precision",
            )
