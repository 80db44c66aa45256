"""Defines the sizes that decide the layout of stored keyed state: measured defaults, which tests make small.

The level of a query passes one :class:`StateTuning` down to all that store its state.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

BYTES_SEEN: Final = 4
"""The bytes of a hash by which a touched key is remembered."""


@dataclass(frozen=True, slots=True)
class HotKeyTuning:
    """The limits of a working set of keys. A key costs a batch up to a tenth of what its page would cost."""

    most_bytes: int = 256 << 10  # each batch that touches the set reads and writes all of it
    least_bytes_of_a_key: int = 16  # for estimates
    times_kept: int = 4  # the set keeps this many times as many keys as batches touch
    times_remembered: int = 2  # touches of this many batches are remembered
    least_kept: int = 32  # this many keys stay however few a batch touches
    least_remembered: int = 128  # this many touches are remembered however few a batch has
    leave_at_once: int = (
        64  # keys that leave after a batch at most: the largest of this, a batch's keys, all keys / this
    )


@dataclass(frozen=True, slots=True)
class PageTuning:
    """The sizes of the pages of a state, which depend on how many keys a batch touches.

    A key that is touched costs its whole page, and each page has a fixed cost. So pages are large if a batch touches
    all of them anyway, and small if it touches few keys of many. Sizes that count as too large and too small differ by
    a factor of at least four, so that similar batches do not split and join pages for ever.

    The methods ask about a batch that touches ``keys`` keys, and a state of ``total`` bytes in ``count`` pages. The
    defaults are those of pages of objects: to read and write one takes 0.2 ms, and 0.001 to 0.01 ms for each key in it.
    """

    small: int = 512  # bytes of a page where batches touch few keys
    dense: int = 32 << 10  # bytes of a page where they touch all pages
    least: int = 128  # pages with fewer bytes on average are joined, whatever a batch touches; 0: never
    # Above this many touched keys for each page nearly every page is touched, and all are read.
    keys_per_page_for_full_scan: int = 3
    sparse_factor: int = 4  # a batch is sparse if this many times its keys are fewer than there would be small pages
    split_budget_when_due: int = 64 << 10  # bytes of pages that a batch with due timers splits for later ones at most
    inline_bytes: int = 16 << 10  # a state up to this size lies in the group's record: one read and one write
    bytes_at_once: int = 512 << 10  # bytes of pages in memory at a time; objects take a hundred times as much
    # Bytes of pages in memory if most pages are touched anyway: a batch that has the whole state can change the number
    # of pages at once, which takes many batches otherwise.
    whole_bytes: int = 8 << 20
    splits_per_batch: int = 512  # pages that one batch splits or joins at most
    read_ahead: int = 32  # pages that are read by one call to the store
    pages_in_record: int = 2048  # the timers of more pages lie in leaves of their own
    pages_of_a_leaf: int = 128
    hot_keys: HotKeyTuning = HotKeyTuning()

    def touch_all(self, keys: int, count: int) -> bool:
        """Returns whether a batch touches so many keys that few pages are left untouched."""
        return keys > self.keys_per_page_for_full_scan * count

    def are_few(self, keys: int, total: int) -> bool:
        """Returns whether a batch would leave most pages untouched if pages were small."""
        return self.sparse_factor * keys < total // self.small

    def are_too_large(self, total: int, count: int) -> bool:
        """Returns whether pages are too large for any batch."""
        return total > 2 * self.dense * count

    def are_too_large_for_few(self, keys: int, total: int, count: int) -> bool:
        """Returns whether pages are larger than they are to be for a batch that touches few keys of many."""
        return total > 2 * self.small * count and self.are_few(keys, total)

    def are_too_small(self, keys: int, total: int, count: int) -> bool:
        """Returns whether pages are too small for any batch, or for one that touches all of them."""
        is_dense = self.touch_all(keys, count) and not self.are_few(keys, total)
        return count > 2 and total < (self.dense // 2 if is_dense else self.least) * count

    def count_of(self, total: int, page_bytes: int) -> int:
        """Returns how many pages of a size a state needs; at least two, as a single one lies in the group's record."""
        return max(2, -(-total // page_bytes))

    def split_budget(self, read: int, has_due: bool) -> int:
        """Returns how many bytes of pages a batch may split for later batches: at most the bytes that it ``read``."""
        return min(read, self.split_budget_when_due) if has_due else read


@dataclass(frozen=True, slots=True)
class ListTuning:
    """The limits at which elements of a long list move into a segment, which is not written again."""

    tail_elements: int = 32  # a list with fewer elements after its last segment stays as it is, whatever their size
    segment_bytes: int = 4096  # the fewest bytes of a segment, before they are compressed


@dataclass(frozen=True, slots=True)
class ChunkTuning:
    """The sizes of the chunks in which rows of windows are stored, and of the portions in which due rows are read."""

    tail_bytes: int = 16 << 10  # more bytes of new rows than that become a chunk
    fanout: int = 8  # this many chunks become one, if none has more than half of their bytes
    largest_chunk: int = 4 << 20  # bytes of a chunk that is not merged any more
    fired_bytes: int = 64 << 20  # bytes of due rows in memory at a time; their results take some times as much
    held_bytes: int = 32 << 20  # bytes of stored chunks that are cached while they are read several times
    most_parts: int = 256  # the most parts that rows are divided into; the number of a part is a byte
    merged_rows: int = 500_000  # rows merged at a time when windows fire; sliding windows have one per slice and key
    merged_bytes: int = 64 << 20  # bytes of these rows, where they are wide
    least_shared_slices: int = 64  # windows of fewer slices are merged separately, without sharing merged slices


@dataclass(frozen=True, slots=True)
class SegmentTuning:
    """The sizes of the segments in which rows of joins are stored."""

    tail_bytes: int = 4 << 10  # more bytes of new rows than that become segments; each batch writes the tail again
    fanout: int = 8  # this many segments of one level become one of the next
    largest_segment: int = 32 << 20  # bytes in memory of the rows of segments that become one, at most
    page_bytes: int = 64 << 10  # bytes of the rows of a page, before they are compressed
    pages_at_once: int = 16  # pages that are read by one call to the store


@dataclass(frozen=True, slots=True)
class PortionTuning:
    """The sizes of the portions in which rows are worked on, so that memory does not grow with a batch."""

    elements: int = 4_096  # elements at a time, at least, that count windows and fire panes one by one
    large_elements: int = 1_024  # the same where each firing copies a state of many values
    runs: int = 500_000  # about as many runs of elements are merged at a time for firings that have some in common
    window_rows: int = 1 << 17  # rows made at a time for elements that are in several windows
    pane_rows: int = 1 << 18  # the same where windows fire panes
    firings: int = 100_000  # firings at intervals that leave at a time
    pairs: int = 1 << 17  # pairs that a join makes at a time
    side_bytes: int = 8 << 20  # bytes of stored rows of a side that a join pairs with elements at a time
    joined_rows: int = (
        1 << 18
    )  # copies of rows, or one of each, in the overlapping windows whose ends are joined at a time


OBJECT_PAGES: Final = PageTuning()
ROW_PAGES: Final = PageTuning(
    # To read and write a page of rows takes 0.3 ms, and 0.001 ms for each row in it.
    small=2 << 10,
    dense=64 << 10,
    least=0,
    keys_per_page_for_full_scan=1,
    inline_bytes=32 << 10,
    bytes_at_once=2 << 20,
    read_ahead=16,
)
LONG_LISTS: Final = ListTuning()
WHOLE_LISTS: Final = ListTuning(tail_elements=sys.maxsize)
"""Keeps all lists in their pages."""
ROW_CHUNKS: Final = ChunkTuning()
JOIN_SEGMENTS: Final = SegmentTuning()
PORTIONS: Final = PortionTuning()


@dataclass(frozen=True, slots=True)
class StateTuning:
    """The layout of the state of all steps, and the portions in which it is worked on."""

    object_pages: PageTuning = OBJECT_PAGES
    row_pages: PageTuning = ROW_PAGES
    lists: ListTuning = LONG_LISTS
    row_chunks: ChunkTuning = ROW_CHUNKS
    join_segments: SegmentTuning = JOIN_SEGMENTS
    portions: PortionTuning = PORTIONS


MEASURED: Final = StateTuning()
