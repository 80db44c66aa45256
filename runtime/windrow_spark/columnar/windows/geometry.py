"""Computes which windows slices are in, for many slices at once.

A slice is what lies between two places where windows begin or end: all its elements are in the same windows. A tumbling
window is one slice. Sliding windows share theirs, and cut each slide into two at most (Krishnamurthy et al., On-the-fly
sharing for streamed aggregation, 2006)::

    size 70, slide 30   slices   |0 |10   |30|40   |60|70   |90|
                        windows |---------0----------|
                                         |---------30---------|

A step may hold millions of slices, each in thousands of windows. So windows are computed, and only those that are asked
for are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows.spec import FARTHEST
from windrow_spark.columnar import Ints, Mask

_STARTS_AT_ONCE: Final = 10_000


def expired(last: Ints, lateness: int, watermark: int) -> Mask:
    """Marks the windows that the watermark has cleaned up, by their last timestamps; none if lateness is for ever."""
    if lateness >= FARTHEST:
        return np.zeros(len(last), np.bool_)
    # Compared so that nothing is added to the end of time.
    return last <= max(watermark - lateness, MIN_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Slices:
    """The tumbling or sliding windows of a step, or the window of all time; in milliseconds."""

    size: int  # 0: there is one window, of all time
    slide: int  # the distance of starts; that of tumbling windows is their size
    offset: int
    lateness: int  # how long windows are kept after their end; MAX_TIMESTAMP: for ever
    by_clock: bool = False  # whether elements are in them, or fire them, by processing time
    purges: bool = False  # whether their end drops what they hold; a late element then fires them with itself alone

    @property
    def is_global(self) -> bool:
        """Returns whether there is one window, of all time."""
        return not self.size

    @property
    def held(self) -> Slices:
        """The windows as the state keeps their contents: without lateness if their end drops these."""
        return replace(self, lateness=0) if self.purges else self

    @property
    def windows_each(self) -> int:
        """The largest number of windows that hold one slice."""
        return max(1, -(-self.size // self.slide))

    @property
    def typical_slide(self) -> int:
        """About how many milliseconds after one window the next one begins."""
        return self.slide

    @property
    def _cut(self) -> int:
        """The distance from the start of a window to the next end of another one; 0: windows end where others start."""
        return self.size % self.slide

    def numbers_of(self, stamps: Ints) -> Ints:
        """The number of each timestamp's slice, in order of time."""
        if self.is_global:
            return np.zeros(len(stamps), np.int64)
        shifted = stamps - self.offset
        slides: Ints = shifted // self.slide
        return 2 * slides + (shifted - slides * self.slide >= self._cut) if self._cut else slides

    def slices_at(self, numbers: Ints) -> Ints:
        """The starts of slices, by their numbers."""
        if not self._cut:
            return numbers * self.slide + self.offset
        return (numbers >> 1) * self.slide + (numbers & 1) * self._cut + self.offset

    def slices_of(self, stamps: Ints) -> Ints:
        """The start of each timestamp's slice."""
        return self.slices_at(self.numbers_of(stamps))

    def window_numbers(self, windows: Ints) -> Ints:
        """Numbers windows, given by their starts, in order of time."""
        return (windows - self.offset) // self.slide

    def windows_at(self, numbers: Ints) -> Ints:
        """The starts of windows, by their numbers."""
        return numbers * self.slide + self.offset

    def starts(self, windows: Ints) -> Ints:
        """The starts of windows, by what they are known by: their starts, where no two windows begin together."""
        return windows

    def ends(self, windows: Ints) -> Ints:
        """The ends of windows, by their starts; they are no longer in the windows."""
        return windows + self.size

    def last_windows(self, slices: Ints) -> Ints:
        """The start of the last window that each slice is in."""
        return slices - (slices - self.offset) % self.slide

    def first_windows(self, slices: Ints) -> Ints:
        """The start of the first window that each slice is in."""
        last = self.last_windows(slices)
        return last - (last - slices + max(self.size - 1, 0)) // self.slide * self.slide

    def last_times(self, windows: Ints) -> Ints:
        """The last timestamp of windows, by their starts: they fire when the watermark has reached it."""
        if self.is_global:
            return np.full(len(windows), MAX_TIMESTAMP)
        return windows + (self.size - 1)

    def expired(self, slices: Ints, watermark: int) -> Mask:
        """Marks the slices that have no window left that the watermark has not cleaned up."""
        if self.is_global:
            return np.zeros(len(slices), np.bool_)
        return expired(self.last_times(self.last_windows(slices)), self.lateness, watermark)

    def on_time(self, watermark: int, slices: Ints) -> Mask:
        """Marks the slices whose elements are on time: none is late, nor fires a window that has fired, by then."""
        first = self.first_windows(slices) if self.lateness else self.last_windows(slices)
        return self.last_times(first) > watermark

    def next_times(self, slices: Ints, watermark: int) -> Ints:
        """The time at which a window of each slice next fires or is cleaned up; MAX_TIMESTAMP: never."""
        times = np.full(len(slices), MAX_TIMESTAMP)
        if self.is_global:
            return times
        first, last = self.first_windows(slices), self.last_windows(slices)
        for delay in {0, self.lateness}:
            if delay < FARTHEST:
                starts = np.maximum(first, self._between(watermark - delay, MAX_TIMESTAMP)[0])
                fires_later = starts <= last
                np.minimum(times, starts + (self.size - 1 + delay), out=times, where=fires_later)
        return times

    def ending(self, slices: Ints, after: int, until: int) -> Iterator[Ints]:
        """Yields, in portions, the starts of windows of ascending slices that end in ``(after, until]``."""
        first, last = self._ranges(slices, after, until)
        # First and last windows ascend with slices, so each slice adds windows after those of the one before.
        first[1:] = np.maximum(first[1:], last[:-1] + self.slide)
        counts = np.maximum((last - first) // self.slide + 1, 0)
        # The windows of each slice are a run; these are the numbers of the windows with which runs begin.
        bounds = np.concatenate([[0], np.cumsum(counts)])
        for low in range(0, int(bounds[-1]), _STARTS_AT_ONCE):
            numbers = np.arange(low, min(low + _STARTS_AT_ONCE, int(bounds[-1])))
            runs = np.searchsorted(bounds, numbers, side="right") - 1
            yield first[runs] + (numbers - bounds[runs]) * self.slide

    def windows(self, slices: Ints, after: int, until: int) -> tuple[Ints, Ints]:
        """Pairs the index of each slice with the starts of its windows that end in ``(after, until]``, latest first."""
        first, last = self._ranges(slices, after, until)
        counts = np.maximum((last - first) // self.slide + 1, 0)
        places = np.repeat(np.arange(len(slices)), counts)
        steps = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, last[places] - steps * self.slide

    def any_ends(self, first: int, last: int, after: int, until: int) -> bool:
        """Returns whether a window with a slice from ``first`` to ``last`` may end in ``(after, until]``."""
        firsts, lasts = self._ranges(np.array([first, last]), after, until)
        return bool(firsts[0] <= lasts[1])

    def held_by(self, slices: Ints, starts: Ints) -> tuple[Ints, Ints]:
        """The bounds of each window's slices among ascending ones: the index of the first, and that after the last."""
        return np.searchsorted(slices, starts), np.searchsorted(slices, starts + max(self.size, 1))

    def _ranges(self, slices: Ints, after: int, until: int) -> tuple[Ints, Ints]:
        """The first and last window of each slice that end in ``(after, until]``; first > last if none does."""
        if self.is_global:
            ends = after < MAX_TIMESTAMP <= until
            return slices.copy(), slices - int(not ends)
        low, high = self._between(after, until)
        first, last = self.first_windows(slices), self.last_windows(slices)
        if low > high:
            return first, first - self.slide
        return np.maximum(first, low), np.minimum(last, high)

    def _between(self, after: int, until: int) -> tuple[int, int]:
        """The starts of the first and the last window that end in ``(after, until]``."""
        # No window of an element begins beyond these bounds, and what is computed from them stays in 64 bits.
        low, high = (min(max(watermark - self.size, -2 * FARTHEST), 2 * FARTHEST) + 1 for watermark in (after, until))
        low += 1
        return low + (self.offset - low) % self.slide, high - (high - self.offset) % self.slide
