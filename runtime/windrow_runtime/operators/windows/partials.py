"""Accumulators that were folded where elements were read, and cross the exchange in place of these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from windrow_runtime.operators.windows.general import WindowOperator

# Any in this module: keys and accumulators of every type.


class Partials(NamedTuple):
    """Accumulators, each of elements of one key, in order.

    Those of tumbling and sliding windows are each of a pane, all of whose elements are in the same windows; a tumbling
    window is one pane. Those of one pane come together. Those of sessions are each of elements that make one session by
    themselves. Nobody else holds the accumulators.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    starts: Sequence[int]  # of panes or sessions, in milliseconds
    ends: Sequence[int]  # of sessions; none of panes
    counts: Sequence[int]  # how many elements each accumulator stands for

    def pick(self, places: Sequence[int]) -> Partials:
        """Returns the accumulators at some places."""
        return Partials(*([column[place] for place in places] if column else () for column in self))


class PartialsOperator(WindowOperator):
    """A window operator that takes accumulators beside elements."""

    @abstractmethod
    def merge_batch(self, partials: Partials) -> None:
        """Takes accumulators, under the current watermark."""
