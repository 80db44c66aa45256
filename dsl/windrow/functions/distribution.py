"""Defines what a histogram has counted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from windrow.errors import InvalidArgumentError

USUAL_BOUNDARIES: Final = tuple(map(float, (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000)))
"""The boundaries of a histogram that is given none: those of OpenTelemetry."""


def checked_number(value: float, what: str) -> float:
    """Returns a finite number as a float.

    Raises:
        InvalidArgumentError: For anything else.
    """
    # A plain comparison of types is several times as fast as a look at abstract classes.
    if (type(value) is float or type(value) is int or _is_number(value)) and math.isfinite(value):
        return float(value)
    raise InvalidArgumentError(f"{what} takes finite numbers", given=repr(value), expected="an int or a float")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def checked_boundaries(boundaries: Sequence[float], name: str) -> tuple[float, ...]:
    """Returns the boundaries of a histogram as floats.

    Raises:
        InvalidArgumentError: If there are none, or they do not rise.
    """
    numbers = tuple([checked_number(each, f"the boundaries of histogram {name!r}") for each in boundaries])
    if not numbers or any(before >= after for before, after in pairwise(numbers)):
        raise InvalidArgumentError(
            f"the boundaries of histogram {name!r} do not rise",
            given=list(boundaries),
            expected="at least one, each above the one before",
        )
    return numbers


@dataclass(slots=True)
class Distribution:
    """What a histogram has counted: how many values lie in each bucket, and their sum.

    Attributes:
        boundaries: The highest value of each bucket but the last, which has no end.
        counts: How many values lie in each bucket: one more than boundaries.
        total: The sum of all values.
        lowest: The lowest value; infinity while there is none.
        highest: The highest value; minus infinity while there is none.
    """

    boundaries: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf

    def __post_init__(self) -> None:
        if not self.counts:
            self.counts = [0] * (len(self.boundaries) + 1)

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """The mean of all values; not a number while there is none."""
        count = self.count
        return self.total / count if count else math.nan

    def quantile(self, part: float) -> float:
        """Estimates the value below which a part of all values lies, as if values were even within a bucket.

        Args:
            part: The part, from 0 to 1; 0.5 gives the median.

        Returns:
            A value between the lowest and the highest one; not a number while there is none.

        Raises:
            InvalidArgumentError: If the part is below 0 or above 1.
        """
        if not 0 <= checked_number(part, "quantile") <= 1:
            raise InvalidArgumentError("a quantile is a part of all values", given=repr(part), expected="0 to 1")
        left, lower = part * self.count, self.lowest
        for count, boundary in zip(self.counts, (*self.boundaries, self.highest), strict=True):
            upper = min(boundary, self.highest)
            if count and left <= count:
                return lower + (upper - lower) * max(left, 0.0) / count
            left -= count
            lower = max(lower, upper) if boundary >= self.lowest else lower
        return self.highest if self.count else math.nan

    def record(self, value: float) -> None:
        """Count a value.

        Args:
            value: The value, in the unit of the boundaries.
        """
        self.counts[bisect_left(self.boundaries, value)] += 1
        self.total += value
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)

    def merged(self, other: Distribution) -> Distribution:
        """Returns the distribution of the values of both.

        If a program was restarted with other boundaries, the new ones begin anew.

        Args:
            other: A distribution that was recorded later, or in another task.
        """
        if other.boundaries != self.boundaries:
            return other
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        lowest, highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        return Distribution(self.boundaries, counts, self.total + other.total, lowest, highest)
