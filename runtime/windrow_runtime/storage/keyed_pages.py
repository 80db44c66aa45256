"""The state of one step in one key group, in pages of keys: a batch reads and writes those that it touches.

Keys lie in pages by linear hashing: there are as many pages as the state's size asks for; one at a time is split when
they grow, or joined to its other half when they shrink. A state that fits into one page lies in the group's own
record instead, so that a small group costs one read and one write. Beside pages there is the working set, the keys that
batches touch again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.state.page_store import PageStore
from windrow_runtime.operators.state.split import Layout, join_states, keys_in, layout_of, split_state
from windrow_runtime.operators.state.state_errors import part_missing
from windrow_runtime.storage.hot_keys import WORKING_SET, largest_informative_batch
from windrow_runtime.storage.page_codec import PageCodec
from windrow_runtime.storage.page_contents import holds_nothing, segments_in, timers_of
from windrow_runtime.storage.page_work import Chunk, Share, divide, keys_among
from windrow_runtime.storage.paging import PageSizes, half_of, page_of
from windrow_runtime.storage.record import NO_TIMER, StepRecord, int64_array
from windrow_runtime.storage.step_working_set import StepWorkingSet

__all__ = ["StepPages"]

# Any in this module: state is of the user's types.

# To read and write a page takes 0.2 ms, and 0.001 to 0.01 ms for each key in it.
_SIZES: Final = PageSizes(small=512, dense=32 << 10, least=128, keys_per_page_for_full_scan=3)
_INLINE_BYTES: Final = 16 << 10
# So many bytes of pages are in memory at a time, as objects, which take a hundred times as much.
_SHARE_BYTES: Final = 512 << 10
# So many where most pages are touched anyway: whoever has all of a state can lay it out anew, and small pages come by
# splitting alone only after many batches.
_WHOLE_BYTES: Final = 8 << 20
_SPLITS_PER_BATCH: Final = 512
_AHEAD: Final = 32


class _Homes(dict[Hashable, int]):
    """The page of each key: what is not known yet is computed."""

    def __init__(self, place: Callable[[Hashable], int]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, key: Hashable) -> int:
        page = self[key] = self._place(key)
        return page


class StepPages:
    """The state of one step in one key group, during a batch.

    Args:
        record: What the group's record tells of it; it is changed.
        codec: Encodes pages.
        store: Where they are.
        hash_key: Hashes keys alike in every process.
        groups: How many key groups there are: within one of them, only what a hash holds beside its number tells keys
            apart.
    """

    def __init__(
        self,
        record: StepRecord,
        codec: PageCodec,
        store: PageStore,
        hash_key: Callable[[Hashable], int],
        groups: int,
    ) -> None:
        self.record = record
        self._codec = codec
        self._store = store
        self._hash_key = hash_key
        self._groups = groups
        # Those of the elements' keys, and those of the keys that were loaded last.
        self._homes = _Homes(self._home)
        self._loaded = _Homes(self._homes.__getitem__)
        self._layouts: dict[int, Layout] = {}
        self._read: dict[int, bytes] = {}
        self._ahead: dict[int, bytes | None] = {}
        self._segments: dict[int, set[int]] = {}
        self._working_segments: set[int] = set()
        self._shared = codec.load_shared(record.shared)
        self._keys = 0
        self._touches_working_set = False
        self._has_due = False
        self._bytes_read = 0
        self._working_set = StepWorkingSet(record, self._load_working, self._dump_working, self._bits_of)

    # Which page a key is in

    def _home(self, key: Hashable) -> int:
        """Where a key is when the batch begins."""
        if len(self.record.sizes) > 1 and key in self._working_set.keys:
            return WORKING_SET
        return self._place(key)

    def _place(self, key: Hashable) -> int:
        count = len(self.record.sizes)
        if count == 1:
            return 0
        return page_of(self._hash_key(key) // self._groups, count)

    def _bits_of(self, key: Hashable) -> int:
        return self._hash_key(key) // self._groups & 0xFFFF_FFFF

    def _place_all(self, state: OperatorState) -> None:
        """What :meth:`_place` says of the keys of a state, for all at once."""
        count = len(self.record.sizes)
        groups = self._groups
        keys = list(keys_in(state))
        pages = [page_of(hashed // groups, count) for hashed in map(self._hash_key, keys)]
        self._loaded.update(zip(keys, pages, strict=True))

    def shares(
        self,
        before: Sequence[Chunk],
        after: Sequence[Chunk],
        watermark: int,
        now: int,
    ) -> Iterator[Share]:
        """What is to be worked on: pages with elements or with timers that are due.

        So many pages at a time that their state fits into memory, however large the whole is.
        """
        record = self.record
        touched = record.due(watermark, now)
        count = len(record.sizes)
        if count == 1:
            if before or after or touched:
                yield Share([0], before, after)
            return
        total = sum(record.sizes)
        self._has_due = bool(touched)
        if before or after:
            self._begin(before, after, total)
        # Keys whose timers are due count too; how many there are in a page, only the page knows.
        self._keys = max(self._keys, len(touched - {WORKING_SET}))
        if self._touches_working_set:
            touched.add(WORKING_SET)
        is_small = total <= _WHOLE_BYTES
        touches_all = _SIZES.touch_all(self._keys, count)
        if not (is_small and touches_all):
            for elements in (*before, *after):
                touched.update(map(self._homes.__getitem__, elements.keys))
        if is_small and (touches_all or 2 * len(touched - {WORKING_SET}) > count):
            yield Share([*sorted(touched & {WORKING_SET}), *range(count)], before, after)
            return
        pages: list[int] = []
        size = 0
        parts: list[list[int]] = []
        for page in sorted(touched):
            page_size = len(record.working) if page == WORKING_SET else record.sizes[page]
            if pages and size + page_size > _SHARE_BYTES:
                parts.append(pages)
                pages, size = [], 0
            pages.append(page)
            size += page_size
        if not parts:
            if pages:
                yield Share(pages, before, after)
            return
        parts.append(pages)
        home = self._homes.__getitem__
        divided = zip(parts, divide(before, parts, home), divide(after, parts, home), strict=True)
        for part, earlier, later in divided:
            yield Share(part, earlier, later)

    def _begin(self, before: Sequence[Chunk], after: Sequence[Chunk], total: int) -> None:
        """Look at the keys of the elements."""
        known = self._working_set.keys
        worth = largest_informative_batch(total + len(self.record.working))
        most = max(_SIZES.most_keys(total, len(self.record.sizes)), worth) + len(known)
        keys = keys_among(before, after, most)
        are_all = len(keys) < most
        self._touches_working_set = bool(known) and not (are_all and known.isdisjoint(keys))
        self._keys = len(keys.keys() - known) if known else len(keys)
        if are_all:
            self._working_set.begin(keys, total)

    # Reading and writing

    def load(self, pages: Sequence[int]) -> OperatorState:
        """The state of some pages."""
        self._loaded.clear()
        self._layouts.clear()
        self._read_ahead(pages)
        states: list[OperatorState] = []
        for page in pages:
            state = self._working_set.take() if page == WORKING_SET else self._load_page(page)
            if len(pages) > 1:
                for keys in (state.keys, *state.tables.values()):
                    self._loaded.update(dict.fromkeys(keys, page))
                self._layouts[page] = layout_of(state)
            states.append(state)
        joined = join_states(states)
        joined.shared = self._shared
        return joined

    def _load_page(self, page: int) -> OperatorState:
        data = self._bytes_of(page)
        self._read[page] = data
        self._bytes_read += len(data)
        state = self._codec.load(data, self) if data else OperatorState()
        self._segments[page] = self._segments_of(state)
        return state

    def _read_ahead(self, pages: Sequence[int]) -> None:
        """Reads at once what is asked for page by page."""
        record = self.record
        if len(record.sizes) > 1:
            stored = [page for page in pages if page != WORKING_SET and record.sizes[page]]
            self._ahead = dict(zip(stored, self._store.get_all(list(map(self._number, stored))), strict=True))

    def _bytes_of(self, page: int) -> bytes:
        record = self.record
        if not record.sizes[page]:
            return b""
        if len(record.sizes) == 1 and record.inline:
            return record.inline
        data = self._ahead.pop(page) if page in self._ahead else self._store.get(self._number(page))
        if data is None:
            raise part_missing(
                "a page of the stored state",
                given=f"page {page} of {len(record.sizes)}",
                expected=f"{record.sizes[page]} bytes",
            )
        return data

    def save(self, pages: Sequence[int], state: OperatorState) -> None:
        """Store what is left of pages that were loaded."""
        self._shared = state.shared
        if len(self.record.sizes) > 1:
            pages = self._save_working_set(pages, state)
        if len(self.record.sizes) == len(pages):
            # All of it is at hand, so it can be laid out anew when it has grown or shrunk.
            self._save_all(state)
            return
        parts = split_state(state, self._loaded.__getitem__, self._layouts)
        for page in pages:
            self._save_page(page, parts.get(page))
            # Other pages follow, and nobody asks for this one again.
            self._read.pop(page, None)

    def _save_working_set(self, pages: Sequence[int], state: OperatorState) -> Sequence[int]:
        """Take what belongs to it out of a state; gives the pages that the rest belongs to."""
        is_among = WORKING_SET in pages
        rest = [page for page in pages if page != WORKING_SET]
        size = sum(map(self.record.sizes.__getitem__, rest))
        kept = self._segments_of(self._working_set.keep(state, size, is_whole=is_among))
        for page in rest:
            self._segments[page] -= kept
        if is_among:
            self._forget_segments(self._working_segments - kept)
        return rest

    def _save_all(self, state: OperatorState) -> None:
        old_segments = set().union(*self._segments.values())
        self._segments = {page: set() for page in self._segments}
        if holds_nothing(state):
            self._put_inline(state, b"")
        elif len(self.record.sizes) == 1:
            whole = self._codec.dump(state, self._write_segment)
            if len(whole) <= _INLINE_BYTES:
                self._put_inline(state, whole)
            else:
                self._put_anew(state, len(whole), _SIZES.dense)
        else:
            self._put_pages(state)
        self._forget_segments(old_segments - self._segments_of(state))

    def _put_inline(self, state: OperatorState, data: bytes) -> None:
        record = self.record
        self._resize(1)
        record.inline = data
        record.sizes[0] = len(data)
        record.events[0], record.clocks[0] = timers_of(state)

    def _put_anew(self, state: OperatorState, total: int, page_bytes: int) -> None:
        """Lay the state out in pages of about so many bytes."""
        self._resize(_SIZES.count_of(total, page_bytes))
        self.record.inline = b""
        self._place_all(state)
        parts = split_state(state, self._loaded.__getitem__)
        for page in range(len(self.record.sizes)):
            self._save_page(page, parts.get(page))

    def _put_pages(self, state: OperatorState) -> None:
        """Store all pages, or lay them out anew if they are too large or too small by now."""
        count = len(self.record.sizes)
        parts = split_state(state, self._loaded.__getitem__, self._layouts)
        dumped = {page: self._codec.dump(part, self._write_segment) for page, part in parts.items()}
        total = sum(map(len, dumped.values()))
        if total <= _INLINE_BYTES:
            self._put_inline(state, self._codec.dump(state, self._write_segment))
        elif _SIZES.are_too_large(total, count) or _SIZES.are_too_small(self._keys, total, count):
            self._put_anew(state, total, _SIZES.dense)
        elif _SIZES.are_too_large_for_few(self._keys, total, count) and not self._has_due:
            self._put_anew(state, total, _SIZES.small)
        else:
            for page in range(count):
                self._save_page(page, parts.get(page), dumped.get(page))

    def _resize(self, count: int) -> None:
        """Change the number of pages; what they held is at hand."""
        record = self.record
        old = len(record.sizes)
        if old == count:
            return
        if old > 1:
            for page, size in enumerate(record.sizes):
                if size:
                    self._store.remove(self._number(page))
        record.sizes = int64_array(*[0] * count)
        record.events = int64_array(*[NO_TIMER] * count)
        record.clocks = int64_array(*[NO_TIMER] * count)
        self._forget_places()

    def _forget_places(self) -> None:
        """There are more pages than before, or fewer."""
        self._homes.clear()
        self._loaded.clear()
        self._layouts.clear()
        self._read.clear()

    def _save_page(self, page: int, state: OperatorState | None, data: bytes | None = None) -> None:
        record = self.record
        if state is None or holds_nothing(state):
            if record.sizes[page]:
                self._store.remove(self._number(page))
            record.sizes[page] = 0
            record.events[page] = record.clocks[page] = NO_TIMER
            self._forget_segments(self._segments.get(page, set()))
            return
        if data is None:
            data = self._codec.dump(state, self._write_segment)
        if data != self._read.get(page):
            self._store.put(self._number(page), data)
        record.sizes[page] = len(data)
        record.events[page], record.clocks[page] = timers_of(state)
        self._forget_segments(self._segments.get(page, set()) - self._segments_of(state))

    def end_batch(self) -> None:
        """Split or join pages until they are of the right size again, and fill in the record."""
        record = self.record
        record.shared = self._codec.dump_shared(self._shared)
        if len(record.sizes) == 1 and (kept := self._working_set.take_all()) is not None:
            self._save_all(join_states([self._load_page(0), kept]))
        if len(record.sizes) == 1:
            record.seen = b""
            return
        left = _SIZES.split_ahead(self._bytes_read, self._has_due)
        if (leaving := self._working_set.end(len(record.sizes))) is not None:
            self._put_back(leaving)
        total = sum(record.sizes)
        for _ in range(_SPLITS_PER_BATCH):
            count = len(record.sizes)
            source = half_of(count)
            if _SIZES.are_too_large(total, count):
                total += self._split_one(source, count)
            elif _SIZES.are_too_small(self._keys, total, count):
                total += self._join_one(count - 1)
            elif left > 0 and _SIZES.are_too_large_for_few(self._keys, total, count):
                if record.sizes[source] and source not in self._ahead:
                    sizes = accumulate(record.sizes[source : source + _AHEAD])
                    self._read_ahead(
                        range(source, min(source + 1 + sum(size < left for size in sizes), count))
                    )
                left -= record.sizes[source]
                total += self._split_one(source, count)
            else:
                return

    def _put_back(self, state: OperatorState) -> None:
        """Keys that leave the working set go to their pages."""
        parts = split_state(state, self._place)
        pages = sorted(parts)
        for start in range(0, len(pages), _AHEAD):
            some = pages[start : start + _AHEAD]
            self._read_ahead(some)
            for page in some:
                self._save_page(page, join_states([self._load_page(page), parts.pop(page)]))
                self._read.pop(page, None)

    def _split_one(self, source: int, count: int) -> int:
        """One page more: its keys are in one that is there. Gives by how many bytes all pages have grown."""
        record = self.record
        before = record.sizes[source]
        state = self._load_page(source)
        for entries in (record.sizes, record.events, record.clocks):
            entries.append(0 if entries is record.sizes else NO_TIMER)
        self._forget_places()
        parts = split_state(state, self._place)
        for page in (source, count):
            self._segments[page] = set()
            self._save_page(page, parts.get(page))
        return record.sizes[source] + record.sizes[count] - before

    def _join_one(self, last: int) -> int:
        """One page less: its keys go to its other half. Gives by how many bytes all pages have grown."""
        record = self.record
        target = half_of(last)
        before = record.sizes[target] + record.sizes[last]
        state = join_states([self._load_page(target), self._load_page(last)])
        if record.sizes[last]:
            self._store.remove(self._number(last))
        for entries in (record.sizes, record.events, record.clocks):
            entries.pop()
        self._forget_places()
        self._segments.pop(last)
        self._segments[target] = set()
        self._save_page(target, state)
        return record.sizes[target] - before

    # The working set

    def _load_working(self, data: bytes) -> OperatorState:
        state = self._codec.load(data, self)
        self._working_segments = self._segments_of(state)
        return state

    def _dump_working(self, state: OperatorState) -> tuple[bytes, int, int]:
        return self._codec.dump(state, self._write_segment), *timers_of(state)

    # Segments of long lists

    def read_segment(self, number: int) -> list[Any]:
        """The elements of a segment of a long list."""
        data = self._store.get(self._segment_number(number))
        if data is None:
            raise part_missing(
                "a part of a stored list",
                given=f"segment {number}",
            )
        return self._codec.load_segment(data, self)

    def _write_segment(self, data: bytes) -> int:
        self.record.segments += 1
        number = self.record.segments
        self._store.put(self._segment_number(number), data)
        return number

    def _forget_segments(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._store.remove(self._segment_number(number))

    def _segments_of(self, state: OperatorState) -> set[int]:
        # Most steps never have any, and need not be searched.
        return set(segments_in(state)) if self.record.segments else set()

    def _number(self, page: int) -> int:
        return self.record.slot << 32 | page

    def _segment_number(self, number: int) -> int:
        return -(self.record.slot << 48 | number)
