"""Which windows a pane is in, for many panes at once.

A pane is the greatest common divisor of size and slide: all its elements are in the same windows. A tumbling window is
one pane; sliding windows share theirs::

    size 60, slide 20   panes   |0   |20  |40  |60  |80
                        windows |----0-------|
                                     |----20------|
                                          |----40------|
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["FARTHEST", "Panes", "cleanups", "gone"]

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

FARTHEST = 1 << 61
"""Timestamps and sizes up to here, in milliseconds, can be added without leaving 64 bits: 73 million years."""


def gone(last: Ints, lateness: int, watermark: int) -> Mask:
    """Which windows the watermark has cleaned up.

    Args:
        last: Their last timestamps, in milliseconds.
        lateness: How long they are kept behind them; from ``FARTHEST`` on, for ever.
        watermark: The watermark.
    """
    if lateness >= FARTHEST:
        return np.zeros(len(last), np.bool_)
    # Compared so that nothing is added to the end of time.
    return last <= max(watermark - lateness, MIN_TIMESTAMP)


def cleanups(last: Ints, lateness: int) -> Ints:
    """When windows go, by their last timestamps; the end of time if that is never."""
    return np.full(len(last), MAX_TIMESTAMP) if lateness >= FARTHEST else last + lateness


@dataclass(frozen=True, slots=True)
class Panes:
    """The windows of a step.

    Attributes:
        size: The size of windows, in milliseconds; 0: there is one window, of all time.
        slide: The distance of their starts; that of tumbling windows is their size.
        offset: The shift of their starts.
        lateness: How long windows are kept behind their end, in milliseconds; ``MAX_TIMESTAMP``: for ever.
    """

    size: int
    slide: int
    offset: int
    lateness: int

    @property
    def is_global(self) -> bool:
        """Whether there is one window, of all time."""
        return not self.size

    @property
    def pane(self) -> int:
        """The length of a pane, in milliseconds."""
        return gcd(self.size, self.slide)

    @property
    def windows_each(self) -> int:
        """In how many windows a pane is at most."""
        return 1 if self.is_global else -(-self.size // self.slide)

    def panes_of(self, stamps: Ints) -> Ints:
        """The start of each timestamp's pane."""
        if self.is_global:
            return np.zeros(len(stamps), np.int64)
        return stamps - (stamps - self.offset) % self.pane

    def last_windows(self, panes: Ints) -> Ints:
        """The start of the last window that each pane is in."""
        return panes if self.is_global else panes - (panes - self.offset) % self.slide

    def windows(self, panes: Ints) -> tuple[Ints, Ints]:
        """All windows that panes are in: the places of the panes, and the starts of windows, side by side."""
        places = np.arange(len(panes))
        last = self.last_windows(panes)
        if self.windows_each == 1:
            return places, last
        steps = np.arange(self.windows_each) * self.slide
        starts = last[:, None] - steps[None, :]
        inside = starts > (panes - self.size)[:, None]
        rows, columns = np.nonzero(inside)
        return places[rows], starts[rows, columns]

    def last_times(self, windows: Ints) -> Ints:
        """The last timestamp of windows, by their starts: they fire when the watermark has reached it."""
        if self.is_global:
            return np.full(len(windows), MAX_TIMESTAMP)
        return windows + (self.size - 1)

    def gone(self, panes: Ints, watermark: int) -> Mask:
        """Which panes have no window left that the watermark has not cleaned up."""
        if self.is_global:
            return np.zeros(len(panes), np.bool_)
        return gone(self.last_times(self.last_windows(panes)), self.lateness, watermark)

    def next_times(self, panes: Ints, watermark: int) -> Ints:
        """When each pane has a window that fires or goes next; the end of time if that is never."""
        times = np.full(len(panes), MAX_TIMESTAMP)
        places, windows = self.windows(panes)
        for moments in (self.last_times(windows), self._cleanups(windows)):
            ahead = moments > watermark
            np.minimum.at(times, places[ahead], moments[ahead])
        return times

    def _cleanups(self, windows: Ints) -> Ints:
        last = self.last_times(windows)
        return last if self.is_global else cleanups(last, self.lateness)
