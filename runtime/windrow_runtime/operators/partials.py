"""Contents of windows that were folded where their elements were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Partials"]

# Any: keys, elements and accumulators of every type.


class Partials(NamedTuple):
    """Contents of windows, each of some elements that one task saw, in order.

    Attributes:
        keys: Their keys.
        values: The accumulators, or the elements that a reduce has left.
        starts: The starts of the windows, in milliseconds.
        counts: How many elements each stands for.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    starts: Sequence[int]
    counts: Sequence[int]

    @property
    def timestamps(self) -> Sequence[int | None]:
        """What stands for timestamps: the starts."""
        return self.starts

    def pick(self, places: Sequence[int]) -> Partials:
        """Those at some places."""
        keys, values, starts, counts = ([column[place] for place in places] for column in self)
        return Partials(keys, values, starts, counts)
