"""Stores the state of one step in one key group as pages of keys; a batch reads and writes the pages that it touches.

Pages are those of linear hashing: their number follows the size of the state, and one page at a time is added or
removed at the end. An added page takes about half of the keys of one other page, and gives them back when it is
removed; all other keys stay where they are. Checkpoints depend on :func:`page_of` and :func:`half_of`, which must not
change.

The record says how many pages there are, and of how many bytes together; empty pages are stored as well, so that one
that is missing is noticed.

A state that fits into one page lies in the group's own record instead, so that a small group costs one read and one
write. So does the working set: the keys that batches touch again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Generic

from windrow_spark.storage.group_record import (
    NO_TIMER,
    WORKING_SET,
    Keys,
    PageContents,
    PageStore,
    State,
    StepRecord,
    present,
)
from windrow_spark.storage.page_timers import PageTimers
from windrow_spark.storage.tuning import BYTES_SEEN, HotKeyTuning, PageTuning


def page_of(bits: int, count: int) -> int:
    """Returns which of ``count`` pages has a key, by the bits of its hash that differ among the keys of its group."""
    reach = 1 << (count - 1).bit_length()
    page = bits & (reach - 1)
    return page if page < count else page - (reach >> 1)


def pages_of(bits: Iterable[int], count: int) -> list[int]:
    """Returns the page of each key, as :func:`page_of` does for one."""
    mask = (1 << (count - 1).bit_length()) - 1
    half = (mask + 1) >> 1
    return [page if (page := each & mask) < count else page - half for each in bits]


def half_of(page: int) -> int:
    """Returns the page that is split to add ``page``, from 1 on, and gets the keys back when ``page`` is removed."""
    return page - (1 << (page.bit_length() - 1))


class HotKeys(Generic[State, Keys]):
    """The working set of one step in one key group: decides during a batch which keys enter, stay and leave.

    A batch that touches few keys of many reads a page for nearly each of them. But keys that were touched lately are
    mostly touched again (Denning, The working set model for program behavior, 1968). So these lie in the group's own
    record: the time of a batch that touches only them does not depend on the number of other keys.

    A key enters when it is touched again while its last touch is remembered, so that keys that are touched once
    displace none (Johnson and Shasha, 2Q, 1994). Untouched keys leave when the set has some times as many keys as a
    batch touches, since each batch reads the whole set.
    """

    def __init__(self, record: StepRecord, contents: PageContents[State, Keys], tuning: HotKeyTuning) -> None:
        self._record = record
        self._contents = contents
        self._tuning = tuning
        self._touched: Keys | None = None
        self._coming: Keys | None = None
        self._came = 0.0  # about how many bytes the keys that entered take
        self._fresh = b""
        self._kept: list[State] = []

    @cached_property
    def _working(self) -> State | None:
        return self._contents.load(self._record.working) if self._record.working else None

    @cached_property
    def keys(self) -> Keys:
        """The keys that were in the working set when the batch began."""
        return self._contents.keys(self._contents.join([]) if self._working is None else self._working)

    def begin(self, touched: Keys, total: int) -> Keys:
        """Chooses the touched keys that enter the working set; returns those in pages, which have ``total`` bytes."""
        record, tuning = self._record, self._tuning
        self._touched = touched
        in_pages = self._contents.beyond(touched, self.keys) if len(self.keys) else touched
        # A batch does not tell which keys are hot if it touches most of the state, or more than a working set takes.
        most = min(total + len(record.working), tuning.most_bytes) // tuning.least_bytes_of_a_key
        if len(touched) < most:
            self._coming, self._fresh = self._contents.remembered(in_pages, record.seen)
        return in_pages

    def take(self) -> State:
        """Returns the state of the working set for the batch to change; :meth:`keep` stores it again."""
        self.keys = self.keys  # computed now from the state, which is about to change
        state, self._working = self._working, None
        return self._contents.join([]) if state is None else state

    def keep(self, state: State, size: int, *, is_whole: bool) -> State:
        """Moves the working set's keys out of a state that the batch has worked on, and returns what belongs to pages.

        The pages of that state had ``size`` bytes; ``is_whole`` says whether it contains the state of :meth:`take`.
        """
        contents, tuning = self._contents, self._tuning
        if is_whole and len(self.keys):
            own, state = contents.take(state, self.keys)
            self._kept.append(own)
        if self._coming is not None and len(self._coming):
            keys = contents.keys(state)
            bytes_of_a_key = size / max(1, len(keys))
            room = tuning.most_bytes - self._size
            most = max(0, int(room / max(bytes_of_a_key, tuning.least_bytes_of_a_key)))
            coming = contents.among(keys, self._coming, most)
            if len(coming):
                self._came += len(coming) * bytes_of_a_key
                come, state = contents.take(state, coming)
                self._kept.append(come)
        return state

    def are_most_of(self, state: State) -> bool:
        """Returns whether the batch touches most keys of the whole state: then it does not tell which ones are hot.

        :meth:`begin`, which knows the size of the state alone, cannot see this if a key takes many bytes.
        """
        if self._touched is None or (self._coming is None and not self._record.working):
            return False
        return 2 * len(self._touched) > len(self._contents.keys(state))

    def dissolve(self) -> None:
        """Empties the working set: the keys of :meth:`take` go to pages, and none enters."""
        self._coming, self._fresh = None, b""
        self.keys = self._contents.keys(self._contents.join([]))
        self._record.working, self._record.working_event, self._record.working_clock = b"", NO_TIMER, NO_TIMER

    def take_all(self) -> State | None:
        """Empties the working set and returns its state; None if it was empty."""
        if self._working is None and not self._kept:
            return None
        state = self._whole()
        self._store(self._contents.join([]))
        return state

    def end(self, pages: int) -> State | None:
        """Stores the working set in the record, and returns the state of the keys that leave; None: there are none."""
        record, tuning, touched = self._record, self._tuning, self._touched
        if touched is not None:
            # Touches are forgotten oldest first; a small batch among large ones forgets a quarter of them at most.
            most_of_old = len(record.seen) // BYTES_SEEN * 3 // 4
            most = max(tuning.times_remembered * len(touched), most_of_old, tuning.least_remembered)
            record.seen = (record.seen + self._fresh)[-BYTES_SEEN * most :]
        if not self._kept and (touched is None or not any(map(len, self._leaving(self.keys, touched, pages)))):
            return None
        leaving: list[State] = []
        state = self._whole()
        if touched is not None:
            for keys in self._leaving(self._contents.keys(state), touched, pages):
                if len(keys):
                    left, state = self._contents.take(state, keys)
                    leaving.append(left)
        self._store(state)
        return self._contents.join(leaving) if leaving else None

    @property
    def _size(self) -> int:
        return len(self._record.working) + int(self._came)

    def _whole(self) -> State:
        state = self._contents.join([self.take(), *self._kept])
        self._kept = []
        return state

    def _leaving(self, keys: Keys, touched: Keys, pages: int) -> tuple[Keys, Keys]:
        """Chooses the keys that leave the working set, among the untouched ones and the touched ones.

        Untouched keys leave first, and of these the ones that entered first. Touched keys leave only if their state
        has grown too large. Each key that leaves may belong to another page, so a limited number leaves at once.
        """
        tuning, key_count, size = self._tuning, len(keys), self._size
        lately = max(len(touched), len(self._record.seen) // (BYTES_SEEN * tuning.times_remembered))
        too_large = key_count - key_count * tuning.most_bytes // size if size > tuning.most_bytes else 0
        too_many = max(0, key_count - max(tuning.times_kept * lately, tuning.least_kept))
        at_once = max(tuning.leave_at_once, lately, key_count // tuning.leave_at_once)
        if pages > at_once:
            too_many = min(too_many, at_once)
        leaving = self._contents.beyond(keys, touched, max(too_large, too_many))
        return leaving, self._contents.among(keys, touched, max(0, too_large - len(leaving)))

    def _store(self, state: State) -> None:
        self._record.working = self._contents.dump(state)
        self._record.working_event, self._record.working_clock = self._contents.timers(state)


class KeyedPages(Generic[State, Keys]):
    """Reads and writes the pages of one step in one key group during a batch, and updates the step's record.

    A batch asks :meth:`parts` which pages to work on, calls :meth:`load` and :meth:`save` for each part, and ends with
    :meth:`end_batch`.
    """

    def __init__(
        self, record: StepRecord, contents: PageContents[State, Keys], store: PageStore, tuning: PageTuning
    ) -> None:
        self.record = record
        self.hot_keys = HotKeys(record, contents, tuning.hot_keys)
        self._contents = contents
        self._store = store
        self._tuning = tuning
        self._timers = PageTimers(record, store, tuning)
        self._read: dict[int, bytes] = {}
        self._ahead: dict[int, bytes | None] = {}
        self._keys = 0
        self._has_due = False
        self._bytes_read = 0

    def parts(self, touched: Keys, watermark: int, now: int, *, all_keys: bool = False) -> list[list[int]]:
        """Returns the pages of touched keys and of due timers, divided into parts that fit into memory.

        With ``all_keys`` all pages are among them.
        """
        record, tuning = self.record, self._tuning
        count = record.pages
        pages = self._timers.due(watermark, now)
        if record.is_working_set_due(watermark, now) or (all_keys and record.working):
            pages.add(WORKING_SET)
        if all_keys:
            pages.update(range(count))
        if count == 1:
            return [[0]] if pages or len(touched) else []
        self._has_due = bool(pages)
        total = record.size
        in_pages = self.hot_keys.begin(touched, total) if len(touched) else touched
        # A page with a due timer counts as a touched key: the record does not say how many keys are due in it.
        self._keys = max(len(in_pages), len(pages - {WORKING_SET}))
        if len(in_pages) < len(touched):
            pages.add(WORKING_SET)
        fits = total <= tuning.whole_bytes
        is_whole = fits and tuning.touch_all(self._keys, count)
        if not is_whole:
            pages |= self._contents.pages_of(in_pages, count)
            is_whole = fits and 2 * len(pages - {WORKING_SET}) > count
        if is_whole:
            return [[*(pages & {WORKING_SET}), *range(count)]]
        return self._in_parts(sorted(pages))

    def _in_parts(self, pages: Iterable[int]) -> list[list[int]]:
        parts: list[list[int]] = []
        left = 0
        size_of_a_page = self.record.size // self.record.pages  # hashes spread keys evenly
        for page in pages:
            size = len(self.record.working) if page == WORKING_SET else size_of_a_page
            if not parts or size > left:
                parts.append([])
                left = self._tuning.bytes_at_once
            parts[-1].append(page)
            left -= size
        return parts

    # Reading and writing

    def load(self, pages: Sequence[int]) -> State:
        """Reads the state of some pages."""
        self._read_ahead(pages)
        return self._contents.open(
            {page: self.hot_keys.take() if page == WORKING_SET else self._load_page(page) for page in pages}
        )

    def _read_ahead(self, pages: Iterable[int]) -> None:
        """Reads pages by one call to the store, before they are decoded one by one."""
        if self.record.pages > 1:
            stored = [page for page in pages if page != WORKING_SET]
            self._ahead = dict(zip(stored, self._store.get_all(list(map(self._number, stored))), strict=True))
            self._timers.read(stored)

    def _load_page(self, page: int) -> State:
        record = self.record
        if record.pages == 1:
            data = record.inline
        else:
            stored = self._ahead.pop(page) if page in self._ahead else self._store.get(self._number(page))
            data = present(stored, "a page of the stored state", given=f"page {page} of {record.pages}")
        self._read[page] = data
        self._bytes_read += len(data)
        return self._contents.load(data) if data else self._contents.join([])

    def save(self, pages: Sequence[int], state: State) -> None:
        """Stores the state of pages that were loaded, after the batch has changed it."""
        count = self.record.pages
        pages_alone = [page for page in pages if page != WORKING_SET]
        if count > 1:
            with_hot_keys = len(pages_alone) < len(pages)
            is_all = len(pages_alone) == count and (with_hot_keys or not self.record.working)
            if is_all and self.hot_keys.are_most_of(state):
                self.hot_keys.dissolve()
            else:
                size = sum(len(self._read[page]) for page in pages_alone)
                state = self.hot_keys.keep(state, size, is_whole=with_hot_keys)
        if len(pages_alone) == count:
            # The whole state is in memory, so the number of pages can follow its size.
            self._save_all(state)
        elif len(pages_alone) == 1:
            self._save_page(pages_alone[0], state)
        elif pages_alone:
            self._save_pages(pages_alone, self._contents.split(state, count))

    def _save_all(self, state: State) -> None:
        record, tuning, contents = self.record, self._tuning, self._contents
        count = record.pages
        parts = {0: state} if count == 1 else contents.split(state, count)
        dumped = {page: contents.dump(part) for page, part in parts.items()}
        total = sum(map(len, dumped.values()))
        if total <= tuning.inline_bytes:
            self._resize(1)
            record.inline = dumped[0] if count == 1 else contents.dump(state)
            record.size = len(record.inline)
            self._timers.set(0, *contents.timers(state))
        elif count == 1 or tuning.are_too_large(total, count) or tuning.are_too_small(self._keys, total, count):
            self._lay_out(state, tuning.count_of(total, tuning.dense))
        elif tuning.are_too_large_for_few(self._keys, total, count) and not self._has_due:
            self._lay_out(state, tuning.count_of(total, tuning.small))
        else:
            self._save_pages(range(count), parts, dumped)

    def _lay_out(self, state: State, count: int) -> None:
        """Stores the whole state in ``count`` pages."""
        self._resize(count)
        self.record.inline = b""
        self._save_pages(range(count), self._contents.split(state, count))

    def _resize(self, count: int) -> None:
        """Changes the number of pages and empties them; the caller has their state in memory."""
        record = self.record
        if record.pages == count:
            return
        if record.pages > 1:
            for page in range(record.pages):
                self._store.remove(self._number(page))
        self._timers.clear(count)
        record.size = 0
        self._read.clear()

    def _save_pages(
        self, pages: Iterable[int], parts: Mapping[int, State], dumped: Mapping[int, bytes] | None = None
    ) -> None:
        for page in pages:
            self._save_page(page, parts.get(page), dumped.get(page) if dumped else None)

    def _save_page(self, page: int, state: State | None, data: bytes | None = None) -> None:
        contents = self._contents
        old = self._read.pop(page, None)  # None: the page is new
        if data is None:
            data = b"" if state is None else contents.dump(state)
        if data != old:
            self._store.put(self._number(page), data)
            self.record.size += len(data) - len(old or b"")
        self._timers.set(page, *((NO_TIMER, NO_TIMER) if state is None else contents.timers(state)))

    # The whole state, for a savepoint

    def portions(self) -> Iterator[State]:
        """Yields the state of all keys, page by page; nothing is stored again."""
        if self.record.working:
            yield self.load([WORKING_SET])
        for page in range(self.record.pages):
            yield self.load([page])

    def fill(self, portions: Iterable[State]) -> None:
        """Stores the state of a step that has none yet; what portions have of one key is joined in their order.

        Of all portions but one, only the bytes are in memory.
        """
        contents, tuning = self._contents, self._tuning
        dumped = [data for portion in portions if (data := contents.dump(portion))]
        total = sum(map(len, dumped))
        if total <= tuning.inline_bytes:
            self._read[0] = b""
            self._save_all(contents.join([contents.load(data) for data in dumped]))
        else:
            count = tuning.count_of(total, tuning.dense)
            # In two steps, as a portion has few keys of each page. The low bits of a page tell its share.
            shares = 1 << (count.bit_length() - 1) // 2
            of_shares: list[list[bytes]] = [[] for _ in range(shares)]
            while dumped:
                for share, part in contents.split(contents.load(dumped.pop(0)), shares).items():
                    of_shares[share].append(contents.dump(part))
            self._resize(count)
            for share, parts in enumerate(of_shares):
                joined = contents.join([contents.load(parts.pop(0)) for _ in range(len(parts))])
                pages = contents.split(joined, count)
                for page in range(share, count, shares):
                    self._save_page(page, pages.get(page))
        self._timers.end_batch()

    # Between batches

    def end_batch(self) -> None:
        """Moves keys out of the working set, and splits or joins pages until they have the right size again."""
        record = self.record
        if not record.size:
            self._resize(1)
        if record.pages == 1:
            if (kept := self.hot_keys.take_all()) is not None:
                self._save_all(self._contents.join([self._load_page(0), kept]))
            record.seen = b""
        else:
            left = self._tuning.split_budget(self._bytes_read, self._has_due)
            if (leaving := self.hot_keys.end(record.pages)) is not None:
                self._put_back(leaving)
            self._split_or_join(left)
        self._timers.end_batch()

    def _put_back(self, state: State) -> None:
        """Adds the state of keys that leave the working set to their pages."""
        parts = self._contents.split(state, self.record.pages)
        pages = sorted(parts)
        for start in range(0, len(pages), self._tuning.read_ahead):
            portion = pages[start : start + self._tuning.read_ahead]
            self._read_ahead(portion)
            for page in portion:
                self._save_page(page, self._contents.join([self._load_page(page), parts[page]]))

    def _split_or_join(self, left: int) -> None:
        """Adds or removes one page at a time; splits at most ``left`` bytes of pages for the sake of later batches."""
        record, tuning = self.record, self._tuning
        for done in range(tuning.splits_per_batch):
            total, count = record.size, record.pages
            source = half_of(count)
            if tuning.are_too_large(total, count):
                more = total // (2 * tuning.dense) - count
            elif tuning.are_too_small(self._keys, total, count):
                self._join_one(count - 1)
                continue
            elif left > 0 and tuning.are_too_large_for_few(self._keys, total, count):
                more = left * count // total
            else:
                return
            if source not in self._ahead:
                more = min(more, tuning.read_ahead - 1, tuning.splits_per_batch - done - 1)
                self._read_ahead(range(source, min(source + 1 + more, count)))
            left -= self._split_one(source, count)

    def _split_one(self, source: int, count: int) -> int:
        """Adds a page, whose keys are in ``source``. Returns how many bytes that page had."""
        state = self._load_page(source)
        size = len(self._read[source])
        self._timers.append()
        self._save_pages((source, count), self._contents.split(state, count + 1))
        return size

    def _join_one(self, last: int) -> None:
        """Removes the last page; its keys go to its other half."""
        target = half_of(last)
        state = self._contents.join([self._load_page(target), self._load_page(last)])
        self._store.remove(self._number(last))
        self.record.size -= len(self._read.pop(last))
        self._save_page(target, state)
        self._timers.pop()

    def _number(self, page: int) -> int:
        return self.record.slot << 32 | page
