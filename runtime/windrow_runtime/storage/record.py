"""The part of a key group's record for one step: where the step's pages lie, and when their next timers are due."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

WORKING_SET: Final = -1
"""The number of the working set among those of pages."""

if TYPE_CHECKING:
    Int64s: TypeAlias = array[int]
else:
    Int64s = array  # which takes no type argument when it runs

NO_TIMER: Final = MIN_TIMESTAMP
"""In the place of a page's earliest timer, where it has none."""


def stored_timer(time: int | None) -> int:
    """The time of a timer as records have it; None: there is no timer."""
    # A timer at the lowest number is due just as well one millisecond later. One beyond the end of time is never due,
    # and does no harm when its page is looked at then.
    return NO_TIMER if time is None else min(max(time, NO_TIMER + 1), MAX_TIMESTAMP)


def int64_array(*values: int) -> Int64s:
    """Numbers of 64 bits side by side."""
    return array("q", values)


class StepRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The part of a group's record for one step.

    Attributes:
        slot: The number under which the store has its pages.
        watermark: The watermark under which it was left, in milliseconds.
        now: The clock under which it was left, in milliseconds.
        segments: How many segments of long lists it has stored so far, which numbers them.
        shared: What belongs to the step itself.
        inline: Its one page, where it has no more.
        sizes: The size of each page in bytes; 0: it is empty, and not stored.
        events: The earliest timer of each page in event time; the lowest number: none.
        clocks: The same in processing time.
        working: The working set, apart from pages; there is none where there is one page.
        working_event: Its earliest timer in event time; the lowest number: none.
        working_clock: The same in processing time.
        seen: What is remembered of the keys that batches have touched.
    """

    slot: int
    watermark: int = MIN_TIMESTAMP
    now: int = MIN_TIMESTAMP
    segments: int = 0
    shared: bytes = b""
    inline: bytes = b""
    sizes: Int64s = msgspec.field(default_factory=lambda: int64_array(0))
    events: Int64s = msgspec.field(default_factory=lambda: int64_array(NO_TIMER))
    clocks: Int64s = msgspec.field(default_factory=lambda: int64_array(NO_TIMER))
    working: bytes = b""
    working_event: int = NO_TIMER
    working_clock: int = NO_TIMER
    seen: bytes = b""

    @property
    def is_empty(self) -> bool:
        """Returns whether nothing would be lost without it."""
        return not (any(self.sizes) or self.shared or self.working)

    @property
    def stored_bytes(self) -> int:
        """The size of the state as it is stored, without segments of long lists."""
        return sum(self.sizes) + len(self.shared) + len(self.working)

    @property
    def earliest_event_timer(self) -> int | None:
        """The time of the earliest timer in event time; None: there is none."""
        return min((time for time in (*self.events, self.working_event) if time != NO_TIMER), default=None)

    @property
    def earliest_processing_timer(self) -> int | None:
        """The same in processing time."""
        return min((time for time in (*self.clocks, self.working_clock) if time != NO_TIMER), default=None)

    def clear_pages(self, count: int) -> None:
        """Makes room for some pages, which are empty."""
        self.sizes = int64_array(*[0] * count)
        self.events = int64_array(*[NO_TIMER] * count)
        self.clocks = int64_array(*[NO_TIMER] * count)

    def due(self, watermark: int, now: int) -> set[int]:
        """The pages that have a timer at or before these times, the working set among them."""
        found = {page for page, time in enumerate(self.events) if NO_TIMER != time <= watermark}
        found.update(page for page, time in enumerate(self.clocks) if NO_TIMER != time <= now)
        if NO_TIMER != self.working_event <= watermark or NO_TIMER != self.working_clock <= now:
            found.add(WORKING_SET)
        return found
