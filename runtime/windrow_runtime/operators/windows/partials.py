"""Partials are accumulators that were folded where their elements were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

# Any: keys, elements and accumulators of every type.


class Partials(NamedTuple):
    """Accumulators, each of some elements of one key and pane that one task saw, in order.

    All elements of a pane are in the same windows; a tumbling window is one pane.

    Attributes:
        keys: Their keys.
        values: The accumulators.
        starts: The starts of the panes, in milliseconds. Those of one pane come together.
        counts: How many elements each stands for.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    starts: Sequence[int]
    counts: Sequence[int]

    @property
    def timestamps(self) -> Sequence[int | None]:
        """The starts, which stand for timestamps."""
        return self.starts

    def pick(self, places: Sequence[int]) -> Partials:
        """Returns the accumulators at some places."""
        keys, values, starts, counts = ([column[place] for place in places] for column in self)
        return Partials(keys, values, starts, counts)
