"""Finds the pairs of two streams as ranges: each row of one stream pairs with adjacent rows of the other, once sorted.

The rows of the other stream are sorted by key and time, so that those within bounds around a row are adjacent::

    bounds -5 to 5    others of the key at   2   9   12   30
    row at 10                                   |------|        starts 1, counts 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from windrow_spark.columnar import Ints
from windrow_spark.columnar.rows.groups import Groups

_MOST_CELLS: Final = 1 << 62


class Ranges(NamedTuple):
    """Rows of one stream, each with the range of sorted rows of the other stream that pair with it."""

    rows: Ints  # row numbers, sorted so that ranges of adjacent rows are near each other
    others: Ints  # row numbers of the other stream, sorted so that the partners of a row are adjacent
    starts: Ints  # the index in `others` at which the range of each row begins
    counts: Ints  # the length of each range

    def portions(self, most: int) -> Iterator[tuple[Ints, Ints]]:
        """Yields at most ``most`` pairs at a time, as indices into ``rows`` and into ``others``."""
        ends = np.cumsum(self.counts)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, most):
            end = min(begin + most, total)
            # A portion may begin and end within the range of a row.
            first = int(np.searchsorted(ends, begin, side="right"))
            last = int(np.searchsorted(ends, end, side="left"))
            counts, starts = self.counts[first : last + 1].copy(), self.starts[first : last + 1].copy()
            skipped = begin - int(ends[first] - self.counts[first])
            counts[0] -= skipped
            starts[0] += skipped
            counts[-1] -= int(ends[last]) - end
            begins = np.cumsum(counts) - counts
            yield (
                np.repeat(np.arange(first, last + 1), counts),
                np.arange(end - begin) + np.repeat(starts - begins, counts),
            )


class Side(NamedTuple):
    """The rows of one stream: the key and the timestamp of each."""

    codes: Ints  # the number of each row's key
    stamps: Ints  # in milliseconds


def near_in_time(side: Side, other: Side, keys: int, lower: int, upper: int) -> Ranges:
    """Pairs rows that share a key if the other's timestamp is from ``lower`` to ``upper`` milliseconds later."""
    none = np.zeros(0, np.int64)
    if not len(side.codes) or not len(other.codes):
        return Ranges(none, none, none, none)
    origin, latest = int(other.stamps.min()), int(other.stamps.max())
    # The bounds of each row as distances from the earliest of the others, cut off where a row pairs with none or all.
    first = np.clip(side.stamps, origin - upper - 1, latest - lower + 1)
    low, high, distances = first + (lower - origin), first + (upper - origin) + 1, other.stamps - origin
    span = latest - origin + 2
    if span * keys > _MOST_CELLS:
        # Ranks take the place of timestamps that are too far apart: only their order matters.
        distinct = np.unique(distances)
        low, high, distances = (np.searchsorted(distinct, each) for each in (low, high, distances))
        span = len(distinct) + 1
    low, high = np.clip(low, 0, span - 1), np.clip(high, 0, span - 1)
    others = Groups(other.codes, keys).ordered_by(distances, span)
    line = other.codes[others] * span + distances[others]
    # Rows are sorted as well, so that consecutive binary searches touch memory that is near.
    rows = Groups(side.codes, keys).ordered_by(low, span)
    base = side.codes[rows] * span
    starts = np.searchsorted(line, base + low[rows])
    return Ranges(rows, others, starts, np.maximum(np.searchsorted(line, base + high[rows]) - starts, 0))
