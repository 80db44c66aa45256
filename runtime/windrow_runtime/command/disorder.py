"""Counts how far elements are behind the highest timestamp before them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Disorder:
    """Collects the distances of elements behind the highest timestamp before them, in milliseconds.

    Attributes:
        elements: The number of elements, those in order included.
    """

    def __init__(self) -> None:
        self.elements = 0
        self._lowest: int | None = None
        self._highest: int | None = None
        self._distances = array("q")  # of the elements that are behind
        self._is_sorted = True

    def add(self, timestamp: int) -> int:
        """Takes the next element; returns how far it is behind, or 0."""
        highest = timestamp if self._highest is None else max(timestamp, self._highest)
        self._lowest = timestamp if self._lowest is None else min(timestamp, self._lowest)
        self._highest = highest
        self.count(highest - timestamp)
        return highest - timestamp

    def count(self, distance: int) -> None:
        """Takes an element that is so far behind."""
        self.elements += 1
        if distance > 0:
            self._distances.append(distance)
            self._is_sorted = False

    @property
    def behind(self) -> int:
        """The number of elements that are behind."""
        return len(self._distances)

    @property
    def most(self) -> int:
        """How far the last of them is behind."""
        return self._sorted()[-1] if self._distances else 0

    def beyond(self, bound: int) -> int:
        """Returns how many elements are further behind than a bound, which a strategy with it counts as late."""
        return self.behind - bisect_right(self._sorted(), bound)

    def least_bound(self, share: float) -> int:
        """Returns the least bound that loses no more than a share of all elements."""
        lost = int(share * self.elements + 1e-9)  # 0.1 % of 1,000 elements is one, whatever floats say
        return 0 if lost >= self.behind else self._sorted()[self.behind - lost - 1]

    def shown_range(self) -> str:
        """Describes the lowest and the highest timestamp, in UTC."""
        return " to ".join(_shown(time) for time in (self._lowest, self._highest) if time is not None)

    def _sorted(self) -> array[int]:
        if not self._is_sorted:
            self._distances = array("q", sorted(self._distances))
            self._is_sorted = True
        return self._distances


def _shown(millis: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{millis} ms"
