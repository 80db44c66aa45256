"""Describes where the elements of a batch come from, by their indices; nothing is noted for an element."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

P = TypeVar("P")

Origin: TypeAlias = Callable[[int], "str | None"]
"""Describes where the element with an index comes from; None: nobody can tell."""

Parts: TypeAlias = list[tuple[int, Origin]]
"""The origins of the elements of a batch: the index from which on each holds, which it counts from."""


def origin_in(parts: Sequence[tuple[int, Origin]], index: int) -> str | None:
    """Describes where an element comes from."""
    place = bisect_right(parts, index, key=_first) - 1
    if place < 0:
        return None
    first, origin = parts[place]
    return origin(index - first)


def _first(part: tuple[int, Origin]) -> int:
    return part[0]


def counted_from(first: int, left_out: Sequence[int], describe: Callable[[int], str]) -> Origin:
    """Returns the origins of elements that are numbered from ``first``, without some, which count from 0.

    Args:
        first: The number of the first one.
        left_out: Those that are no elements, in order, such as malformed rows.
        describe: Describes where the one with a number comes from.
    """
    return partial(_counted, first, left_out, describe)


def _counted(first: int, left_out: Sequence[int], describe: Callable[[int], str], index: int) -> str:
    # As many numbers are left out before the element as are below its own.
    return describe(first + index + bisect_right(range(len(left_out)), index, key=lambda each: left_out[each] - each))


def positions_of(positions: Sequence[P], describe: Callable[[P], str]) -> Origin:
    """Returns the origins of elements with these positions."""
    return partial(_positioned, positions, describe)


def _positioned(positions: Sequence[P], describe: Callable[[P], str], index: int) -> str:
    return describe(positions[index])


def moved(origin: Origin, by: int) -> Origin:
    """Returns the origins of elements that begin at an index of others."""
    return partial(_moved, origin, by)


def _moved(origin: Origin, by: int, index: int) -> str | None:
    return origin(by + index)


def nowhere(index: int) -> None:
    """Says that nobody can tell where an element comes from."""
