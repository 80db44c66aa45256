"""Finds areas for circles and labels that do not overlap others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Area) -> bool:
        """Returns whether two rectangles share more than an edge."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def contains(self, other: Area) -> bool:
        """Returns whether another rectangle lies inside of this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )

    def crosses(self, other: Area) -> bool:
        """Returns whether the rectangle overlaps an edge of another one."""
        return self.covers(other) and not other.contains(self)


@dataclass(slots=True)
class Taken:
    """The areas of a panel that are occupied already."""

    areas: list[Area] = field(default_factory=list)

    def choose(self, candidates: Iterable[Area]) -> Area | None:
        """Occupies and returns the first free candidate; None if none is free."""
        for area in candidates:
            if not any(area.covers(other) for other in self.areas):
                self.areas.append(area)
                return area
        return None
