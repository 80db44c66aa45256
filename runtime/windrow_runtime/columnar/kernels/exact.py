"""Adds the numbers of groups exactly: floats with what their rounding takes away, ints that outgrow 64 bits.

An int that outgrows 64 bits is made of words of 64 bits, the lowest first, in two's complement: the last one has the
sign. Each step takes at most 2 ** 31 rows, so that sums of 32-bit digits fit into 64 bits, and nothing wraps around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from windrow_runtime.columnar.array_types import Floats, Ints, Mask
from windrow_runtime.columnar.rows.groups import Groups

_SMALL: Final = 4096
"""Groups of up to this many rows need one extraction: a second would keep digits 2 ** 70 times below the largest."""


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
    """The part that rounding took away from ``a * b`` (Dekker)."""
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

    For each group ``exponents`` has a power of two above the magnitude of each of its values. Returned are the total of
    each group, and what its rounding took away.
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


# Ints

_DIGIT: Final = 0xFFFFFFFF


def wide_totals(groups: Groups, words: Sequence[NDArray[Any]], width: int) -> list[Ints]:
    """The total of each group, in ``width`` words; the caller knows that they are enough.

    Numbers of one word may be of any type of ints.
    """
    kept = list(words)
    while len(kept) > 1 and bool((kept[-1] == kept[-2] >> 63).all()):
        kept.pop()  # it only repeats the signs
    *lower, top = kept
    digits = [digit for word in lower for digit in (word & _DIGIT, (word >> 32) & _DIGIT)]
    farthest = max(abs(int(top.min())), abs(int(top.max()))) if len(top) else 0
    if farthest * groups.largest < 1 << 62:  # a carry comes on top
        digits.append(top.astype(np.int64, copy=False))
    else:
        digits += [
            (top & top.dtype.type(_DIGIT)).astype(np.int64, copy=False),
            (top >> 32).astype(np.int64, copy=False),
        ]
    sums = [groups.int_totals(digit) for digit in digits]
    return _carried(sums, width)


def fits(words: Sequence[Ints]) -> Mask:
    """Marks the numbers that fit into 64 bits."""
    sign = words[0] >> 63
    found = np.ones(len(sign), dtype=np.bool_)
    for word in words[1:]:
        found &= word == sign
    return found


def whole(words: Sequence[int]) -> int:
    """A number of its words."""
    found = words[-1]
    for word in reversed(words[:-1]):
        found = (found << 64) | (word & 0xFFFFFFFFFFFFFFFF)
    return found


def _carried(sums: list[Ints], width: int) -> list[Ints]:
    """Words of sums of 32-bit digits, the lowest first; the last sum has the sign."""
    if len(sums) == 1:
        sign = sums[0] >> 63
        return [sums[0], *[sign] * (width - 1)]
    digits: list[Ints] = []
    carry = np.zeros_like(sums[0])
    for sum_of_digits in [*sums, *[np.zeros_like(carry)] * (2 * width - len(sums))]:
        # Neither can overflow: a sum of digits is below 2 ** 63, and the carry below 2 ** 32.
        moved = sum_of_digits + carry
        digits.append(moved & _DIGIT)
        carry = moved >> 32
    return [(upper << 32) | lower for lower, upper in zip(digits[::2], digits[1::2], strict=True)]
