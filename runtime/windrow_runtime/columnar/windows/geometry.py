"""Defines the windows of steps on columns, and computes which windows tiles are in, for many tiles at once.

A tile is what lies between two places where windows begin or end: all its elements are in the same windows. A tumbling
window is one tile. Sliding windows share theirs, and cut each slide into two at most (Krishnamurthy et al., On-the-fly
sharing for streamed aggregation, 2006)::

    size 70, slide 30   tiles   |0 |10   |30|40   |60|70   |90|
                        windows |---------0----------|
                                         |---------30---------|

A step may hold millions of tiles, each in thousands of windows. So windows are computed, and only those that are asked
for are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from windrow.evictors import CountEvictor
from windrow.plan import WindowNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    MergingPurgingTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.windows.shape import (
    AlignedWindows,
    GapWindows,
    WindowOfAllTime,
    WindowShape,
    decline_panes,
    shape_assigned,
    shape_of,
    trigger_of,
)

# Any in this module: triggers of elements and windows of every type.

FARTHEST = 1 << 61
"""Timestamps and sizes up to here, in milliseconds, can be added without leaving 64 bits: 73 million years."""

_STARTS_AT_ONCE: Final = 10_000


def gone(last: Ints, lateness: int, watermark: int) -> Mask:
    """Marks the windows that are cleaned up, by their last timestamps; ``FARTHEST`` lateness is for ever."""
    if lateness >= FARTHEST:
        return np.zeros(len(last), np.bool_)
    # Compared so that nothing is added to the end of time.
    return last <= max(watermark - lateness, MIN_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tumbling or sliding windows of a step, or the window of all time; in milliseconds."""

    size: int  # 0: there is one window, of all time
    slide: int  # the distance of starts; that of tumbling windows is their size
    offset: int
    lateness: int  # how long windows are kept behind their end; MAX_TIMESTAMP: for ever
    by_clock: bool = False  # whether elements are in them, or fire them, by processing time
    purges: bool = False  # whether their end drops what they hold; a late element then fires them with itself alone

    @property
    def is_global(self) -> bool:
        """Returns whether there is one window, of all time."""
        return not self.size

    @property
    def held(self) -> Tiles:
        """The windows as the state holds what is in them: it need not keep what their end drops."""
        return replace(self, lateness=0) if self.purges else self

    @property
    def windows_each(self) -> int:
        """In how many windows a tile is at most."""
        return max(1, -(-self.size // self.slide))

    @property
    def _cut(self) -> int:
        """The distance behind a start of windows at which others end; 0: they end where others start."""
        return self.size % self.slide

    def numbers_of(self, stamps: Ints) -> Ints:
        """The number of each timestamp's tile, in order of time."""
        if self.is_global:
            return np.zeros(len(stamps), np.int64)
        shifted = stamps - self.offset
        slides: Ints = shifted // self.slide
        return 2 * slides + (shifted - slides * self.slide >= self._cut) if self._cut else slides

    def tiles_at(self, numbers: Ints) -> Ints:
        """The starts of tiles, by their numbers."""
        if not self._cut:
            return numbers * self.slide + self.offset
        return (numbers >> 1) * self.slide + (numbers & 1) * self._cut + self.offset

    def tiles_of(self, stamps: Ints) -> Ints:
        """The start of each timestamp's tile."""
        return self.tiles_at(self.numbers_of(stamps))

    def last_windows(self, tiles: Ints) -> Ints:
        """The start of the last window that each tile is in."""
        return tiles - (tiles - self.offset) % self.slide

    def first_windows(self, tiles: Ints) -> Ints:
        """The start of the first window that each tile is in."""
        last = self.last_windows(tiles)
        return last - (last - tiles + max(self.size - 1, 0)) // self.slide * self.slide

    def last_times(self, windows: Ints) -> Ints:
        """The last timestamp of windows, by their starts: they fire when the watermark has reached it."""
        if self.is_global:
            return np.full(len(windows), MAX_TIMESTAMP)
        return windows + (self.size - 1)

    def gone(self, tiles: Ints, watermark: int) -> Mask:
        """Marks the tiles that have no window left that the watermark has not cleaned up."""
        if self.is_global:
            return np.zeros(len(tiles), np.bool_)
        return gone(self.last_times(self.last_windows(tiles)), self.lateness, watermark)

    def ahead_of(self, watermark: int, tiles: Ints) -> Mask:
        """Marks the tiles whose elements are on time: none is late, nor fires a window that has fired, by then."""
        first = self.first_windows(tiles) if self.lateness else self.last_windows(tiles)
        return self.last_times(first) > watermark

    def next_times(self, tiles: Ints, watermark: int) -> Ints:
        """The time at which each tile has a window that fires or goes next; the end of time if that is never."""
        times = np.full(len(tiles), MAX_TIMESTAMP)
        if self.is_global:
            return times
        first, last = self.first_windows(tiles), self.last_windows(tiles)
        for delay in {0, self.lateness}:
            if delay < FARTHEST:
                found = np.maximum(first, self._between(watermark - delay, MAX_TIMESTAMP)[0])
                ahead = found <= last
                np.minimum(times, found + (self.size - 1 + delay), out=times, where=ahead)
        return times

    def ending(self, tiles: Ints, after: int, until: int) -> Iterator[Ints]:
        """The starts, some at a time, of windows of ascending tiles that end behind ``after``, not behind ``until``."""
        first, last = self._ranges(tiles, after, until)
        # Both ends rise with tiles, so each begins new windows behind those of the one before.
        first[1:] = np.maximum(first[1:], last[:-1] + self.slide)
        counts = np.maximum((last - first) // self.slide + 1, 0)
        # The windows of each tile are a run; these are the numbers of the windows with which runs begin.
        bounds = np.concatenate([[0], np.cumsum(counts)])
        for low in range(0, int(bounds[-1]), _STARTS_AT_ONCE):
            numbers = np.arange(low, min(low + _STARTS_AT_ONCE, int(bounds[-1])))
            runs = np.searchsorted(bounds, numbers, side="right") - 1
            yield first[runs] + (numbers - bounds[runs]) * self.slide

    def windows(self, tiles: Ints, after: int, until: int) -> tuple[Ints, Ints]:
        """Places of tiles, and starts of the windows that end behind ``after``, not ``until``: latest first."""
        first, last = self._ranges(tiles, after, until)
        counts = np.maximum((last - first) // self.slide + 1, 0)
        places = np.repeat(np.arange(len(tiles)), counts)
        steps = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, last[places] - steps * self.slide

    def any_ends(self, first: int, last: int, after: int, until: int) -> bool:
        """Returns whether a window with a tile from ``first`` to ``last`` may end behind ``after`` up to ``until``."""
        firsts, lasts = self._ranges(np.array([first, last]), after, until)
        return bool(firsts[0] <= lasts[1])

    def held_by(self, tiles: Ints, starts: Ints) -> tuple[Ints, Ints]:
        """The tiles, of ascending ones, that windows hold: from one place up to another, which is not among them."""
        return np.searchsorted(tiles, starts), np.searchsorted(tiles, starts + max(self.size, 1))

    def _ranges(self, tiles: Ints, after: int, until: int) -> tuple[Ints, Ints]:
        """The first and last window of each tile that end between two watermarks; first is behind last if none does."""
        if self.is_global:
            ends = after < MAX_TIMESTAMP <= until
            return tiles.copy(), tiles - int(not ends)
        low, high = self._between(after, until)
        first, last = self.first_windows(tiles), self.last_windows(tiles)
        if low > high:
            return first, first - self.slide
        return np.maximum(first, low), np.minimum(last, high)

    def _between(self, after: int, until: int) -> tuple[int, int]:
        """The starts of the first and the last window that end behind one watermark and not behind the other."""
        # No window of an element begins beyond these bounds, and what is computed from them stays in 64 bits.
        low, high = (min(max(watermark - self.size, -2 * FARTHEST), 2 * FARTHEST) + 1 for watermark in (after, until))
        low += 1
        return low + (self.offset - low) % self.slide, high - (high - self.offset) % self.slide


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a step; in milliseconds."""

    gap: int
    lateness: int  # how long sessions are kept behind their end; MAX_TIMESTAMP: for ever
    by_clock: bool = False  # whether they are sessions of processing time


@dataclass(frozen=True, slots=True)
class Counted:
    """Windows that fire whenever a fixed number of elements has come to them."""

    tiles: Tiles  # the windows that the elements are in; those of all time make count windows
    every: int  # how many elements come to a window between two firings
    size: int | None  # how many of its last elements a firing takes; None: all

    @property
    def lateness(self) -> int:
        """How long windows are kept behind their end."""
        return self.tiles.lateness

    @property
    def by_clock(self) -> bool:
        """Returns whether they go by processing time."""
        return self.tiles.by_clock

    @property
    def piece(self) -> int:
        """The number of elements that are folded together: firings begin and end where such pieces do."""
        return self.every if self.size is None else gcd(self.every, self.size)

    @property
    def pieces_each(self) -> int:
        """The number of pieces that a firing takes; one that takes all elements has them in one."""
        return 1 if self.size is None else self.size // self.piece


@dataclass(frozen=True, slots=True)
class Timed:
    """Windows that fire at their end, and at every interval before it."""

    tiles: Tiles  # the windows that the elements are in
    interval: int | None  # in milliseconds; None: they fire at their end alone
    purges: bool  # whether a firing drops the contents

    @property
    def lateness(self) -> int:
        """How long windows are kept behind their end."""
        return self.tiles.lateness

    @property
    def by_clock(self) -> bool:
        """Returns whether they go by processing time."""
        return self.tiles.by_clock


Windows: TypeAlias = Tiles | Sessions | Counted | Timed


def may_be_late(windows: Windows) -> bool:
    """Returns whether elements are late by their timestamps."""
    tiles = windows.tiles if isinstance(windows, (Counted, Timed)) else windows
    return not (tiles.by_clock or (isinstance(tiles, Tiles) and tiles.is_global))


def needs_timestamps(windows: Windows) -> bool:
    """Returns whether the timestamps of elements decide which windows they are in, or when these fire."""
    return may_be_late(windows) or (isinstance(windows, Timed) and not windows.tiles.by_clock)


def windows_of(node: WindowNode) -> Windows:
    """The windows of a step as numbers; declined if an assigner, a trigger or an evictor has to see each element."""
    decline_panes(node)
    trigger = trigger_of(node)
    purges = type(trigger) in (PurgingTrigger, MergingPurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) and purges else trigger
    # Exact types: a class that is derived from one of these may do anything.
    if type(inner) is CountTrigger and (node.evictor is None or type(node.evictor) is CountEvictor):
        return _counted(node, inner.max_count, purges=purges)
    if node.evictor is None and type(inner) in _TIMED:
        return _timed(node, inner, purges=purges)
    if node.evictor is None and type(inner) is EventTimeTrigger and purges and node.allowed_lateness:
        windows = _assigned(node, shape_assigned(node))
        if isinstance(windows, Tiles) and not (windows.is_global or windows.by_clock):
            return replace(windows, purges=True)
    return _assigned(node, shape_of(node))


_TIMED = (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger, ProcessingTimeTrigger)


def _counted(node: WindowNode, every: int, *, purges: bool) -> Counted:
    tiles = _assigned(node, shape_assigned(node))
    if isinstance(tiles, Sessions):
        raise DeclinedError("sessions that count their elements may merge at each of them")
    size = every if purges else None
    if node.evictor is not None:
        assert isinstance(node.evictor, CountEvictor), "no other one is counted"
        size = node.evictor.max_count
        if node.evictor.do_evict_after:
            # What is left behind a firing is there at the next one, with the elements that came since.
            size += every
        size = min(size, every) if purges else size
        if not size:
            raise DeclinedError("the evictor leaves no element")
    return Counted(tiles, every, size)


def _timed(node: WindowNode, trigger: Trigger[Any, Any], *, purges: bool) -> Timed | Sessions:
    tiles = _assigned(node, shape_assigned(node))
    if isinstance(tiles, Sessions):
        if tiles.by_clock and isinstance(trigger, ProcessingTimeTrigger):
            # They are cleaned up when their end fires them.
            return tiles
        raise DeclinedError(f"{trigger.describe()} is asked where sessions merge")
    continuous = (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)
    interval = trigger.interval if isinstance(trigger, continuous) else None
    by_clock = trigger.uses_processing_time
    if tiles.is_global and interval is not None:
        return Timed(replace(tiles, by_clock=by_clock), interval, purges)
    if tiles.is_global or tiles.by_clock != by_clock:
        raise DeclinedError(f"{trigger.describe()} goes by another time than the windows")
    if interval is not None and tiles.windows_each > 1:
        if tiles.lateness:
            raise DeclinedError("a late element fires some of its windows at once, and others at intervals")
        # The timer for the end is set with the first element, and that of an interval at the firing before.
        if (tiles.offset + tiles.size - 1) % gcd(tiles.slide, interval) == 0:
            raise DeclinedError("windows that slide may end when others fire at intervals")
    return Timed(tiles, interval, purges)


def _assigned(node: WindowNode, shape: WindowShape | None) -> Tiles | Sessions:
    """The windows that elements are assigned to."""
    lateness = node.allowed_lateness or 0
    if isinstance(shape, WindowOfAllTime):
        return Tiles(0, 1, 0, 0)
    if isinstance(shape, GapWindows) and shape.gap is not None:
        if shape.gap > FARTHEST:
            raise DeclinedError("the gap is too long for columns")
        return Sessions(shape.gap, lateness, shape.by_clock)
    if not isinstance(shape, AlignedWindows):
        raise DeclinedError(f"{node.assigner.describe()} has no form on columns")
    if shape.slide > shape.size:
        # Whether an element between two windows is late depends on its own timestamp.
        raise DeclinedError("there are gaps between windows")
    if shape.size > FARTHEST:
        raise DeclinedError("windows are too large for columns")
    return Tiles(shape.size, shape.slide, shape.offset, lateness, shape.by_clock)


W = TypeVar("W", Tiles, Sessions, Counted, Timed)


@dataclass(frozen=True)
class ColumnOperator(Generic[W]):
    """Runs a step over columns, on some keys at a time."""

    windows: W
    kernel: Kernel
    key_type: pa.DataType

    places: ClassVar[Sequence[str]]  # the columns of state between the key and the kernel's

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of state: key, place in time, and the kernel's."""
        fields = [pa.field("key", self.key_type), *[pa.field(name, pa.int64()) for name in self.places]]
        fields += [pa.field(f"s{place}", kind) for place, kind in enumerate(self.kernel.state_types)]
        return pa.schema(fields)

    @cached_property
    def folded_schema(self) -> pa.Schema:
        """The columns of elements that were folded before the exchange: those of state, and how many there were."""
        return pa.schema([*self.schema, pa.field("elements", pa.int64())])

    def check(self, rows: pa.RecordBatch) -> None:
        """Raises a CheckpointError if rows that were stored are none of this step."""
        if any(rows.column(name).null_count for name in self.places):
            raise damaged_state("a row of state has no place in time")

    def rows(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of state of their columns."""
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True)
class Fired:
    """Windows that fired, as columns side by side; in milliseconds."""

    keys: pa.Array
    starts: Ints  # of no meaning for the window of all time
    ends: Ints
    stamps: Ints  # the last timestamps of the windows, which the results carry
    results: pa.Array

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, start: int, count: int) -> Fired:
        """Up to ``count`` of them that follow each other."""
        some = slice(start, start + count)
        return Fired(self.keys[some], self.starts[some], self.ends[some], self.stamps[some], self.results[some])
