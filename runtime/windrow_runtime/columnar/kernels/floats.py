"""Arithmetic that keeps what rounding takes away, on whole arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from windrow_runtime.columnar.groups import Groups

__all__ = ["Floats", "exact_totals", "quotient", "two_sum"]

Floats = NDArray[np.float64]

_SMALL: Final = 4096
"""Groups of so many rows need one extraction: what the second would keep lies 2 ** 70 times below the largest value."""


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum of two floats, and what its rounding took away: together they are the exact sum (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def quotient(total: Floats, lost: Floats, divisor: Floats) -> Floats:
    """``(total + lost) / divisor``, rounded once but for the rarest cases; ``total`` below 2 ** 900."""
    found = total / divisor
    product = found * divisor
    rest = ((total - product) - _product_error(found, divisor, product)) + lost
    return found + rest / divisor


def _product_error(a: Floats, b: Floats, product: Floats) -> Floats:
    """What rounding took away from ``a * b`` (Dekker)."""
    a_upper, a_lower = _split(a)
    b_upper, b_lower = _split(b)
    return ((a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper) + a_lower * b_lower


def _split(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * 134217729.0  # 2 ** 27 + 1
    upper = scaled - (scaled - values)
    return upper, values - upper


def exact_totals(groups: Groups, values: Floats, exponents: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Sums of finite floats, as accurate as if they were added with twice the digits and then rounded.

    Error-free vector extraction (Rump, Ogita, Oishi): added to and taken from a power of two above all sums of a
    group, a float keeps the digits that such sums are exact in. The digits that it lost are added apart.

    Args:
        groups: The group of each value.
        values: The floats.
        exponents: For each group a power of two above the magnitude of each of its values.

    Returns:
        The total of each group, and what its rounding took away.
    """
    bits = exponents + int(groups.largest + 2).bit_length()
    lost = np.zeros(groups.count)
    found = np.zeros(groups.count)
    for _ in range(1 if groups.largest <= _SMALL else 2):
        upper = np.ldexp(1.0, bits)[groups.ids]
        kept = (upper + values) - upper
        found, more = two_sum(found, groups.totals(kept))
        lost += more
        values = values - kept
        if not values.any():
            break
        # The digits that are left lie this much lower.
        bits = np.maximum(bits - 53 + int(groups.largest + 2).bit_length(), -1074)
    else:
        lost += groups.totals(values)
    return two_sum(found, lost)
