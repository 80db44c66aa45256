"""Keeps when the next timers of each page are due, at a cost that follows the pages that a batch touches."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.storage.group_record import NO_TIMER, Int64s, PageStore, StepRecord, int64_array, present
from windrow_spark.storage.tuning import PageTuning

_LEAVES: Final = 1 << 31
"""The number of the first leaf of a step, which is above those of all pages."""


class PageTimers:
    """The times of the next timers of a step's pages, during a batch.

    While the pages are few, the record has two times for each, in event time and in processing time. Else it has the
    earliest ones of each *leaf*, which is some pages that follow each other, and those of the pages lie in the store,
    leaf by leaf. A leaf without timers is not stored.
    """

    def __init__(self, record: StepRecord, store: PageStore, tuning: PageTuning) -> None:
        self._record = record
        self._store = store
        self._tuning = tuning
        self._leaves: dict[int, tuple[Int64s, Int64s]] = {}  # those that the batch has read, or made
        self._changed: set[int] = set()

    def due(self, watermark: int, now: int) -> set[int]:
        """Returns the pages that have a timer at or before these times."""
        record = self._record
        due_entries = set(_due(record.events, record.clocks, watermark, now))
        if record.span == 1:
            return due_entries
        self._read(due_entries)
        return {
            leaf * record.span + place
            for leaf in due_entries
            for place in _due(*self._leaves[leaf], watermark=watermark, now=now)
        }

    def read(self, pages: Iterable[int]) -> None:
        """Reads the leaves of some pages by one call to the store, before their timers are set one by one."""
        span = self._record.span
        if span > 1:
            self._read({page // span for page in pages})

    def set(self, page: int, event: int, clock: int) -> None:
        """Notes when the next timers of a page are due, or ``NO_TIMER``."""
        record = self._record
        if record.span == 1:
            record.events[page], record.clocks[page] = event, clock
            return
        leaf, place = divmod(page, record.span)
        if leaf not in self._leaves:
            if event == clock == NO_TIMER and not self._is_stored(leaf):
                return
            self._read({leaf})
        events, clocks = self._leaves[leaf]
        if (events[place], clocks[place]) != (event, clock):
            events[place], clocks[place] = event, clock
            self._changed.add(leaf)

    def clear(self, count: int) -> None:
        """Sets the number of pages, and forgets all timers."""
        record = self._record
        if record.span > 1:
            for leaf in filter(self._is_stored, range(len(record.events))):
                self._store.remove(self._number(leaf))
        self._leaves.clear()
        self._changed.clear()
        record.pages = count
        record.span = 1 if count <= self._tuning.pages_in_record else self._tuning.pages_of_a_leaf
        record.events, record.clocks = int64_array(), int64_array()
        self._resize_entries()

    def append(self) -> None:
        """Adds a page without timers at the end."""
        record = self._record
        record.pages += 1
        self._resize_entries()
        if record.span == 1 and record.pages > self._tuning.pages_in_record:
            self._lay_out()

    def pop(self) -> None:
        """Removes the last page."""
        record = self._record
        self.set(record.pages - 1, NO_TIMER, NO_TIMER)
        record.pages -= 1
        if record.span > 1 and record.pages <= self._tuning.pages_in_record // 2:
            self._lay_out()
        elif record.pages <= (len(record.events) - 1) * record.span:
            self.end_batch()  # removes the last leaf, which has no timer any more
            self._leaves.pop(len(record.events) - 1, None)
            self._resize_entries()

    def end_batch(self) -> None:
        """Writes the leaves that the batch has changed."""
        record = self._record
        for leaf in sorted(self._changed):
            events, clocks = self._leaves[leaf]
            was_stored = self._is_stored(leaf)
            record.events[leaf], record.clocks[leaf] = _earliest(events), _earliest(clocks)
            if self._is_stored(leaf):
                has_clocks = record.clocks[leaf] != NO_TIMER
                self._store.put(self._number(leaf), events.tobytes() + (clocks.tobytes() if has_clocks else b""))
            elif was_stored:
                self._store.remove(self._number(leaf))
        self._changed.clear()

    def _lay_out(self) -> None:
        """Moves the times from the record into leaves, or back, as their number asks for."""
        times = dict(self._each())
        self.clear(self._record.pages)
        for page, (event, clock) in times.items():
            self.set(page, event, clock)

    def _each(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yields the pages that have timers, with the times of the next ones."""
        record = self._record
        if record.span == 1:
            pairs: Mapping[int, tuple[Int64s, Int64s]] = {0: (record.events, record.clocks)}
        else:
            self._read(set(range(len(record.events))))
            pairs = self._leaves
        for leaf, (events, clocks) in pairs.items():
            for place, times in enumerate(zip(events, clocks, strict=True)):
                if times != (NO_TIMER, NO_TIMER):
                    yield leaf * record.span + place, times

    def _resize_entries(self) -> None:
        record = self._record
        count = -(-record.pages // record.span)
        for entries in (record.events, record.clocks):
            del entries[count:]
            entries.extend([NO_TIMER] * (count - len(entries)))

    def _is_stored(self, leaf: int) -> bool:
        return self._record.events[leaf] != NO_TIMER or self._record.clocks[leaf] != NO_TIMER

    def _read(self, leaves: Iterable[int]) -> None:
        span = self._record.span
        missing = sorted(leaf for leaf in leaves if leaf not in self._leaves)
        stored = list(filter(self._is_stored, missing))
        read = dict(zip(stored, self._store.get_all(list(map(self._number, stored))), strict=True)) if stored else {}
        for leaf in missing:
            if leaf in read:
                data = present(read[leaf], "timers of pages of the stored state", given=f"leaf {leaf}")
                if len(data) not in {8 * span, 16 * span}:
                    raise damaged_state(f"{len(data)} bytes of timers", expected=f"those of {span} pages")
                times = array("q", data)
            else:
                times = int64_array()
            times.extend([NO_TIMER] * (2 * span - len(times)))
            self._leaves[leaf] = times[:span], times[span:]

    def _number(self, leaf: int) -> int:
        return self._record.slot << 32 | _LEAVES | leaf


def _due(events: Int64s, clocks: Int64s, watermark: int, now: int) -> Iterator[int]:
    yield from (place for place, time in enumerate(events) if NO_TIMER != time <= watermark)
    yield from (place for place, time in enumerate(clocks) if NO_TIMER != time <= now)


def _earliest(times: Int64s) -> int:
    return min((time for time in times if time != NO_TIMER), default=NO_TIMER)
