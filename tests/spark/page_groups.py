"""A step's state in one key group, batch after batch, without Spark."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import Any

from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import GrowingList, KeyState, OperatorState, WindowEntry
from windrow_spark.exchange.rows import KeyedElements
from windrow_spark.storage.group_record import WORKING_SET, StepRecord
from windrow_spark.storage.object_pages import ObjectPages
from windrow_spark.storage.page_codec import PageCodec, keys_in
from windrow_spark.storage.tuning import OBJECT_PAGES, PageTuning
from windrow_spark.storage.values import StateCodec

__all__ = ["CODEC", "NEVER", "Group", "Store", "numbers_in_store", "put_list", "put_row", "remove_row"]

# Any in this module: states are changed by functions of every kind.

CODEC = PageCodec(StateCodec())
NEVER = -(2**63)


class Store:
    """Pages in memory, with what was asked of it."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.read: list[int] = []
        self.written: list[int] = []

    def get(self, number: int) -> bytes | None:
        self.read.append(number)
        return self.pages.get(number)

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return list(map(self.get, numbers))

    def put(self, number: int, data: bytes) -> None:
        self.written.append(number)
        self.pages[number] = data

    def remove(self, number: int) -> None:
        del self.pages[number]  # what is not there is not removed

    def start(self) -> None:
        self.read, self.written = [], []


def numbers_in_store(record: StepRecord) -> list[int]:
    """Returns the numbers under which a step's pages are stored, and the timers of many pages."""
    pages = range(record.pages) if record.pages > 1 else ()
    leaves = zip(record.events, record.clocks, strict=True) if record.span > 1 else ()
    with_timers = [leaf for leaf, times in enumerate(leaves) if times != (NEVER, NEVER)]
    return [record.slot << 32 | number for number in (*pages, *(1 << 31 | leaf for leaf in with_timers))]


class Group:
    """One step's state, batch after batch."""

    def __init__(self, tuning: PageTuning = OBJECT_PAGES) -> None:
        self.store = Store()
        self.record = StepRecord(3)
        self.tuning = tuning

    def pages(self) -> ObjectPages:
        """Its pages, for one batch."""
        return ObjectPages(self.record, CODEC, self.store, 4, self.tuning)

    def batch(self, change: Any, keys: Sequence[Hashable], watermark: int = NEVER) -> set[Hashable]:
        """Runs ``change(state, key)`` for each key; gives the keys whose state was at hand."""
        self.store.start()
        pages = self.pages()
        elements = [KeyedElements(0, keys, keys, [None] * len(keys))] if keys else []
        seen: set[Hashable] = set()
        for share in pages.shares([], elements, watermark, NEVER):
            state = pages.load(share.pages)
            for chunk in share.after:
                for key in chunk.keys:
                    change(state, key)
            while (due := state.event_timers.pop_due(watermark)) is not None:
                change(state, due[1])
            seen.update(state.keys)
            for table in state.tables.values():
                seen.update(table)
            pages.save(share.pages, state)
        pages.end_batch()
        return seen

    def keys_of_working_set(self) -> set[Hashable]:
        """The keys that lie apart from pages."""
        if not self.record.working:
            return set()
        return set(keys_in(self.pages().load([WORKING_SET])))

    def whole(self) -> OperatorState:
        """All of it."""
        pages = self.pages()
        working_set = [WORKING_SET] if self.record.working else []
        return pages.load([*working_set, *range(self.record.pages)])


def put_row(state: OperatorState, key: Hashable) -> None:
    state.table_size = 10
    state.tables.setdefault(0, {})[key] = f"row {key} {random.Random(str(key)).random()}"


def remove_row(state: OperatorState, key: Hashable) -> None:
    del state.tables[0][key]
    if not state.tables[0]:
        del state.tables[0]


def put_list(state: OperatorState, key: Hashable) -> None:
    """Adds 20 elements to the only window of a key."""
    window = TimeWindow(0, 10)
    held = state.keys.setdefault(key, KeyState())
    entry = held.windows.setdefault(window, WindowEntry(GrowingList()))
    texts = random.Random(f"{key}{held.arrivals}")
    entry.contents.extend((held.arrivals + n, None, str(texts.random()) * 5) for n in range(20))
    held.arrivals += 20
