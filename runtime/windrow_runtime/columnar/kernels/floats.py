"""Arithmetic that keeps what rounding takes away, on whole arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["Floats", "exact_totals", "quotient", "two_sum"]

Floats = NDArray[np.float64]

_SMALL: Final = 4096
"""Groups of so many rows need one extraction: what the second would keep lies 2 ** 70 times below the largest value."""


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum of two floats, and what its rounding took away: together they are the exact sum (Knuth)."""
    total = a + b
    b_part = total - a
    lost = b - b_part
    # a - (total - b_part), without further arrays.
    np.subtract(total, b_part, out=b_part)
    np.subtract(a, b_part, out=b_part)
    lost += b_part
    return total, lost


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
    row_bits = int(groups.largest + 2).bit_length()
    uppers = [np.ldexp(1.0, exponents + row_bits)]
    if groups.largest > _SMALL:
        # The digits that are left lie this much lower.
        uppers.append(np.ldexp(1.0, np.maximum(exponents + 2 * row_bits - 53, -1074)))
    kept = [np.zeros(groups.count) for _ in uppers]
    lost = np.zeros(groups.count)
    for rows, ids in groups.blocks():
        rest = values[rows]
        for upper, totals in zip(uppers, kept, strict=True):
            above = upper[ids]
            digits = above + rest
            digits -= above
            np.add.at(totals, ids, digits)
            rest = rest - digits
        np.add.at(lost, ids, rest)
    if len(kept) == 2:
        kept[0], more = two_sum(kept[0], kept[1])
        lost += more
    return two_sum(kept[0], lost)
