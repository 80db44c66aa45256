"""Totals of ints that outgrow 64 bits: sums of their 32-bit digits, carried at the end, so that nothing wraps around.

Numbers are words of 64 bits side by side, the lowest first, in two's complement: the last one has the sign. Each step
takes at most 2 ** 31 rows, so that sums of digits fit into 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["Ints", "fits", "totals", "whole"]

Ints = NDArray[np.int64]

_DIGIT: Final = 0xFFFFFFFF


def totals(groups: Groups, words: Sequence[NDArray[Any]], width: int) -> list[Ints]:
    """The total of each group.

    Args:
        groups: The group of each number.
        words: The numbers. One word may be of any type of ints.
        width: How many words a total has; the caller knows that they are enough.
    """
    narrow = _narrowed(words)
    *lower, top = narrow
    digits = [digit for word in lower for digit in (word & _DIGIT, (word >> 32) & _DIGIT)]
    if _farthest(top) * groups.largest < 1 << 62:  # a carry comes on top
        digits.append(top.astype(np.int64, copy=False))
    else:
        digits += [
            (top & top.dtype.type(_DIGIT)).astype(np.int64, copy=False),
            (top >> 32).astype(np.int64, copy=False),
        ]
    sums = [groups.int_totals(digit) for digit in digits]
    return _carried(sums, width)


def fits(words: Sequence[Ints]) -> NDArray[np.bool_]:
    """Which numbers fit into 64 bits."""
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


def _narrowed(words: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The same numbers without the words that only repeat their signs."""
    kept = list(words)
    while len(kept) > 1 and bool((kept[-1] == kept[-2] >> 63).all()):
        kept.pop()
    return kept


def _farthest(word: NDArray[Any]) -> int:
    return max(abs(int(word.min())), abs(int(word.max()))) if len(word) else 0


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
