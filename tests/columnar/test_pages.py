"""Rows in pages by key: what batches of a few keys and of all of them read and write."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import Store
from tests.spark.page_groups import numbers_in_store
from tests.working_sets import small_working_sets
from windrow.errors import CheckpointError, UnsupportedOperationError
from windrow_spark.columnar.state import KeyedRows, RowContents, RowPages, concatenated, joined, load_rows
from windrow_spark.storage.group_record import WORKING_SET, StepRecord, int64_array
from windrow_spark.storage.tuning import ROW_PAGES, HotKeyTuning, PageTuning

# Any in this module: pyarrow has no types.

SCHEMA: Final = pa.schema([pa.field("key", pa.string()), pa.field("number", pa.int64())])
NEVER: Final = 1 << 40


class Counted(Store):
    """Counts what is read and written."""

    reads = writes = 0

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        self.reads += len(numbers)
        return super().get_all(numbers)

    def put(self, number: int, data: bytes) -> None:
        self.writes += 1
        super().put(number, data)


class State:
    """The pages of a group, batch after batch, beside a dictionary with the same content."""

    def __init__(self, tuning: PageTuning = ROW_PAGES) -> None:
        self.store = Counted()
        self.record = StepRecord(0)
        self.tuning = tuning
        self.model: dict[str, int] = {}
        self.parts = 0

    def batch(self, changes: dict[str, int | None], due: int = NEVER, watermark: int = 0) -> None:
        """Sets numbers of keys; None removes one."""
        self.store.reads = self.store.writes = 0
        pages = self._pages(due)
        keys = list(changes)
        changed = 0
        self.parts = 0
        for part, mask in pages.shares(pa.array(keys, pa.string()), watermark):
            self.parts += 1
            rows = pages.load(part).rows
            held = dict(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))
            for key in keys if mask is None else pa.array(keys).filter(pa.array(mask)).to_pylist():
                changed += 1
                number = changes[key]
                assert held.get(key) == self.model.get(key), key
                for into in (held, self.model):
                    into.pop(key, None)
                    if number is not None:
                        into[key] = number
            rows = pa.RecordBatch.from_arrays([list(held), list(held.values())], schema=SCHEMA)
            pages.save(part, KeyedRows(rows))
        pages.end_batch()
        assert changed == len(changes)
        assert sorted(self.store) == numbers_in_store(self.record)

    def _pages(self, due: int) -> RowPages:
        return RowPages(
            self.record, RowContents(SCHEMA, lambda rows: (due, None), lambda rows: None), self.store, self.tuning
        )

    def keys_of_working_set(self) -> set[str]:
        data = self.record.working
        return set(load_rows(data, SCHEMA).column(0).to_pylist()) if data else set()

    def whole(self) -> dict[str, int]:
        working_set = [WORKING_SET] if self.record.working else []
        rows = self._pages(NEVER).load([*working_set, *range(self.record.pages)]).rows
        return {row["key"]: row["number"] for row in rows.to_pylist()}


def small_pages(at_once: int) -> PageTuning:
    return replace(
        ROW_PAGES,
        small=500,
        dense=2_000,
        split_budget_when_due=2_000,
        inline_bytes=600,
        bytes_at_once=at_once,
        whole_bytes=at_once,
        pages_in_record=12,
        pages_of_a_leaf=4,
    )


def names(*numbers: int) -> dict[str, int | None]:
    return {f"key {number}": number * 7919 % 100_003 for number in numbers}


@pytest.mark.parametrize("per_batch", [150, 700, 12_000])
def test_pages_grow_split_and_shrink(per_batch: int) -> None:
    state = State()
    numbers = list(range(12_000))
    random.Random(4).shuffle(numbers)
    for start in range(0, len(numbers), per_batch):
        state.batch(names(*numbers[start : start + per_batch]))
    assert state.whole() == state.model
    assert max(map(len, state.store.values())) <= 4 * ROW_PAGES.dense

    # A few keys of many: pages become small, and such a batch reads its own and some that it splits.
    for start in range(0, 600, 3):
        state.batch(names(*range(start, start + 3)))
    assert state.record.pages > 50
    assert state.store.reads <= 8
    assert state.store.writes <= 2 * state.store.reads
    assert state.whole() == state.model

    # All keys at once: few large ones again.
    state.batch(names(*numbers))
    assert state.record.pages < 20
    assert state.whole() == state.model
    state.batch(dict.fromkeys(state.model))
    assert (state.record.pages, state.record.size) == (1, 0)
    assert state.store == {}


def test_what_is_due_does_not_make_pages_small() -> None:
    """A batch without elements that fires everything says nothing about how many keys the next one touches."""
    state = State()
    state.batch(names(*range(30_000)), due=5)
    count = state.record.pages
    state.batch({}, due=9, watermark=5)
    assert state.store.reads >= count
    assert state.record.pages <= 3 * count


def test_what_is_due_splits_no_more_than_was_read() -> None:
    state = State()
    state.batch(names(*range(60_000)))
    for number in range(60):
        state.batch(names(number))
    count = state.record.pages
    assert state.record.size > 8 * max(len(state.store[3]), 64 << 10)
    # One page has something due: no more than its bytes are split.
    state.record.events = int64_array(*[5 if page == 3 else NEVER for page in range(count)])
    state.batch({}, watermark=5)
    assert count < state.record.pages <= count + 2


def test_pages_are_in_memory_some_at_a_time() -> None:
    state = State(replace(ROW_PAGES, bytes_at_once=100_000, whole_bytes=100_000))
    state.batch(names(*range(60_000)))
    stored = state.record.size
    assert stored > 300_000
    state.batch(names(*range(0, 60_000, 100)))
    assert stored // 200_000 <= state.parts <= stored // 100_000 + 1
    assert state.whole() == state.model
    state.batch(names(5))
    assert state.parts == 1


@pytest.mark.parametrize("at_once", [2 << 20, 3_000])
def test_any_batches_give_what_a_dictionary_gives(at_once: int) -> None:
    chance = random.Random(11)
    state = State(small_pages(at_once))
    for _ in range(60):
        changes = names(*[chance.randrange(2_000) for _ in range(chance.choice([1, 10, 400]))])
        expired = chance.sample(sorted(state.model), chance.randrange(1 + len(state.model) // 2))
        state.batch(
            {**changes, **dict.fromkeys(expired)}, due=chance.choice([3, NEVER]), watermark=chance.choice([0, 3])
        )
        assert state.whole() == state.model


def test_a_missing_page_is_told() -> None:
    state = State()
    state.batch(names(*range(30_000)))
    state.store.clear()
    with pytest.raises(CheckpointError, match="a page of the stored state is missing"):
        state.batch(names(1))


HOT: Final = range(500, 900)


def hot_state() -> State:
    state = State()
    state.batch(names(*range(30_000)))
    for _ in range(3):
        state.batch(names(*HOT))
    return state


def test_keys_that_are_touched_again_and_again_need_no_page() -> None:
    state = hot_state()
    state.batch(names(*HOT))
    assert (state.store.reads, state.store.writes) == (0, 0)
    assert state.keys_of_working_set() == set(names(*HOT))
    assert state.whole() == state.model
    state.batch(dict.fromkeys(names(*HOT[:50])))
    assert state.keys_of_working_set() == set(names(*HOT[50:]))
    assert state.whole() == state.model


def test_keys_that_come_once_stay_in_their_pages() -> None:
    state = State()
    state.batch(names(*range(30_000)))
    for start in range(0, 30_000, 500):
        state.batch(names(*range(start, start + 500)))
    assert state.keys_of_working_set() == set()
    assert len(state.record.seen) == 4 * 2 * 500


def test_a_batch_that_touches_most_keys_says_nothing_of_a_working_set() -> None:
    state = State()
    for _ in range(4):
        state.batch(names(*range(30_000)))
    assert (state.record.working, state.record.seen) == (b"", b"")


def test_keys_leave_when_others_are_touched() -> None:
    state = hot_state()
    for start in range(1_000, 2_000, 40):
        for _ in range(3):
            state.batch(names(*range(start, start + 40)))
    working = state.keys_of_working_set()
    assert set(names(*range(1_960, 2_000))) <= working
    assert working.isdisjoint(names(*HOT))
    assert len(working) <= 4 * 64
    assert state.whole() == state.model


def test_a_working_set_is_bounded_in_bytes() -> None:
    chance = random.Random(2)
    long_names = {f"{chance.randbytes(100).hex()} {number}": number for number in range(3_000)}
    state = State(replace(ROW_PAGES, hot_keys=HotKeyTuning(8_000)))
    state.batch({**names(*range(1_000)), **long_names})
    for _ in range(4):
        state.batch(dict(islice(long_names.items(), 200)))
        assert len(state.record.working) < 12_000
    assert 20 < len(state.keys_of_working_set()) < 120
    # Sixteen bytes for each of these keys are more than it takes: they say nothing.
    seen = state.record.seen
    state.batch(names(*range(1_000)))
    assert state.record.seen == seen
    assert state.whole() == state.model


def test_a_batch_that_touches_most_keys_dissolves_the_working_set() -> None:
    state = hot_state()
    state.batch(names(*range(20_000)))
    assert state.keys_of_working_set() == set()
    assert state.record.working == b""
    assert state.whole() == state.model
    # Nor does a key come in, as long as batches are like that.
    state.batch(names(*range(10_000, 30_000)))
    assert state.keys_of_working_set() == set()
    state.batch(dict.fromkeys(names(*HOT)))
    assert state.whole() == state.model


def test_a_working_set_that_nobody_touches_any_more_leaves() -> None:
    state = State()
    state.batch(names(*range(30_000)))
    for _ in range(3):
        state.batch(names(*range(3_000)))
    assert len(state.keys_of_working_set()) == 3_000
    for start in range(3_000, 6_000, 50):
        state.batch(names(*range(start, start + 50)))
    assert len(state.keys_of_working_set()) == 4 * 64
    state.batch(names(1))
    state.batch(names(*range(5_950, 6_000)))
    # The batch of one key has not made it forget those of the one before.
    assert set(names(*range(5_950, 6_000))) <= state.keys_of_working_set()
    assert state.whole() == state.model


def test_what_is_due_in_the_working_set_is_found() -> None:
    state = hot_state()
    state.batch(names(*HOT), due=5)
    state.batch({}, watermark=4)
    assert state.record.working_event == 5
    state.batch({}, watermark=5)
    assert state.store.reads == 0
    # It was looked at, and says now when it is due next.
    assert state.record.working_event == NEVER
    assert state.whole() == state.model


def test_a_working_set_ends_when_no_page_is_left() -> None:
    state = hot_state()
    state.batch(dict.fromkeys(set(state.model) - set(names(*HOT))))
    assert state.keys_of_working_set() == set()
    assert (state.record.pages, state.record.size) == (1, len(state.record.inline))
    assert state.whole() == state.model
    state.batch(dict.fromkeys(state.model))
    assert (state.record.pages, state.record.size) == (1, 0)


@pytest.mark.parametrize(("at_once", "seed"), [(2 << 20, 1), (3_000, 2)])
def test_keys_come_and_go_and_none_is_lost(at_once: int, seed: int) -> None:
    chance = random.Random(seed)
    state = State(replace(small_pages(at_once), hot_keys=small_working_sets(2_000)))
    moved = 0
    before: set[str] = set()
    for _ in range(80):
        favourites = chance.sample(range(1_500), 40)
        for _ in range(chance.randrange(1, 4)):
            some = chance.sample(favourites, chance.choice([1, 5, 30])) + chance.sample(range(1_500), 5)
            expired = chance.sample(sorted(state.model), min(len(state.model), chance.choice([0, 2, 20])))
            changes = {**names(*some), **dict.fromkeys(expired)}
            state.batch(changes, due=chance.choice([3, NEVER]), watermark=chance.choice([0, 3]))
            working = state.keys_of_working_set()
            moved += len(working ^ before)
            before = working
        assert state.whole() == state.model
    assert moved > 400
    state.batch(dict.fromkeys(state.model))
    assert (state.record.pages, state.record.size) == (1, 0)
    assert state.store == {}


def text_of(size: int) -> pa.RecordBatch:
    """A row with a text of some bytes, which nobody reads, so that they take no memory."""
    offsets = pa.py_buffer(np.array([0, size], np.int32))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(np.zeros(size, np.uint8)))
    return pa.RecordBatch.from_arrays([text], names=["text"])


def test_more_text_than_a_column_can_have_is_refused() -> None:
    with pytest.raises(
        UnsupportedOperationError, match=r"too much text in a batch(.|\n)*2,400,000,0\d\d bytes in 2 rows"
    ):
        concatenated([text_of(1_200_000_000)] * 2)


def test_rows_are_joined_up_to_some_bytes() -> None:
    rows = [text_of(size) for size in (10, 20, 100, 10, 10)]
    assert [batch.num_rows for batch in joined(rows, 70)] == [2, 1, 2]
    assert list(joined([], 70)) == []
