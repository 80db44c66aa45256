"""Pages of state, without Spark: whatever a batch touches, the whole is what it would be in one piece."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence

import pytest

from tests.spark.page_groups import CODEC, NEVER, Group, put_list, put_row, remove_row
from windrow.errors import CheckpointError
from windrow_runtime.operators.state.model import KeyState, OperatorState, StoredList
from windrow_spark.exchange.rows import KeyedElements
from windrow_spark.storage.group_record import NO_TIMER, int64_array
from windrow_spark.storage.object_pages import ObjectPages


def test_a_small_state_needs_no_pages() -> None:
    group = Group()
    group.batch(put_row, list(range(100)))
    group.batch(put_row, list(range(50, 120)))
    assert group.store.pages == {}
    assert list(group.record.sizes) == [len(group.record.inline)]
    assert len(group.whole().tables[0]) == 120


@pytest.mark.parametrize("per_batch", [250, 3_000, 20_000])
def test_a_state_grows_and_shrinks_in_pages(per_batch: int) -> None:
    group = Group()
    numbers = list(range(20_000))
    random.Random(1).shuffle(numbers)
    for start in range(0, len(numbers), per_batch):
        group.batch(put_row, numbers[start : start + per_batch])
    count = len(group.record.sizes)
    # Some hundred keys at a time leave most pages untouched, if they are small.
    assert 4 < count < (20 if per_batch > 250 else 1_000)
    assert group.whole().tables[0].keys() == set(numbers)
    assert sorted(group.store.pages) == [3 << 32 | page for page in range(count)]
    sizes = [len(group.store.pages[number]) for number in sorted(group.store.pages)]
    assert list(group.record.sizes) == sizes
    assert max(sizes) < 128 << 10

    # Batches that touch three keys split pages, as many as they read, until they are small.
    before = max(group.record.sizes)
    group.batch(put_row, [7, 8, "new"])
    assert len(group.store.written) <= 2 * len(group.store.read)
    for start in range(0, 300, 3):
        group.batch(put_row, numbers[start : start + 3])
    assert len(group.record.sizes) > 200
    assert sorted(group.store.pages) == [3 << 32 | page for page in range(len(group.record.sizes))]
    assert max(group.record.sizes) <= min(before, 2 << 10)
    assert group.whole().tables[0].keys() == {*numbers, "new"}
    # They read three pages, and some that they split.
    seen = group.batch(put_row, [7, 8, "new"])
    assert {7, 8, "new"} <= seen
    assert len(group.store.read) <= 8
    assert len(group.store.written) <= 2 * len(group.store.read)
    # One that touches everything lays them out anew, as few large ones.
    group.batch(put_row, numbers)
    assert len(group.record.sizes) < 20
    assert len(group.store.pages) == len(group.record.sizes)
    assert group.whole().tables[0].keys() == {*numbers, "new"}

    # What is removed leaves nothing behind.
    for start in range(0, len(numbers), per_batch):
        group.batch(remove_row, numbers[start : start + per_batch])
    group.batch(remove_row, ["new"])
    assert group.store.pages == {}
    assert not group.record.stored_bytes
    if per_batch == 250:
        for _ in range(3):
            group.batch(put_row, ["a"])
            group.batch(remove_row, ["a"])
        assert len(group.record.sizes) <= 2


def test_pages_whose_timers_are_due_are_found() -> None:
    group = Group()

    def set_timer(state: OperatorState, key: Hashable) -> None:
        assert isinstance(key, int)
        state.keys.setdefault(key, KeyState(state={"text": str(random.Random(key).random()) * 5}))
        state.event_timers.register(key, None, key)

    def drop(state: OperatorState, key: Hashable) -> None:
        del state.keys[key]

    keys: list[Hashable] = list(range(-1000, 6000))
    group.batch(set_timer, keys)
    for key in range(5999, 5900, -1):
        group.batch(set_timer, [key])
    assert len(group.record.sizes) > 20
    assert group.record.earliest_event_timer == -1000
    assert group.record.earliest_processing_timer is None
    group.batch(drop, [], watermark=-990)
    # Eleven pages, and those that are split.
    assert 1 <= len(group.store.read) <= 30
    assert set(group.whole().keys) == set(range(-989, 6000))
    assert group.record.earliest_event_timer == -989
    group.batch(drop, [], watermark=-989)
    assert len(group.store.read) <= 3
    group.batch(drop, [], watermark=7000)
    assert group.store.pages == {}
    assert not group.record.stored_bytes


def test_a_long_list_is_not_written_again() -> None:
    group = Group()
    for _ in range(50):
        group.batch(put_list, ["key"])
    # Older elements lie in segments: a batch writes its own, and reads none.
    segments = [number for number in group.store.pages if number < 0]
    assert 3 < len(segments) < 40
    contents = [number for number in segments if number in group.store.read]
    assert contents == []
    (entry,) = group.whole().keys["key"].windows.values()
    assert type(entry.contents) is StoredList
    assert [arrival for arrival, _, _ in entry.contents] == list(range(1000))

    def clear(state: OperatorState, key: Hashable) -> None:
        del state.keys[key]

    group.batch(clear, ["key"])
    assert group.store.pages == {}


def test_lists_move_with_their_keys_when_pages_split() -> None:
    group = Group()
    keys: list[Hashable] = [f"key {number}" for number in range(700)]
    for _ in range(5):
        group.batch(put_list, keys)
        group.batch(put_list, keys[:3])
    assert len(group.record.sizes) > 1
    whole = group.whole()
    for place, key in enumerate(keys):
        (entry,) = whole.keys[key].windows.values()
        assert [arrival for arrival, _, _ in entry.contents] == list(range(200 if place < 3 else 100))

    def clear(state: OperatorState, key: Hashable) -> None:
        del state.keys[key]

    group.batch(clear, keys)
    assert group.store.pages == {}


def test_any_batches_give_what_one_piece_gives() -> None:
    chance = random.Random(7)
    group = Group()
    model: set[Hashable] = set()
    for _ in range(120):
        added: list[Hashable] = [chance.randrange(3000) for _ in range(chance.choice([1, 30, 600]))]
        group.batch(put_row, added)
        model.update(added)
        removed = chance.sample(sorted(model, key=str), chance.randrange(len(model)))
        group.batch(remove_row, removed)
        model.difference_update(removed)
        assert group.whole().tables.get(0, {}).keys() == model
        stored = {page for page, size in enumerate(group.record.sizes) if size}
        expected = set() if len(group.record.sizes) == 1 else {3 << 32 | page for page in stored}
        assert set(group.store.pages) == expected


def test_a_missing_page_is_told() -> None:
    group = Group()
    group.batch(put_row, list(range(20_000)))
    group.store.pages.clear()
    with pytest.raises(CheckpointError, match="a page of the stored state is missing"):
        group.batch(put_row, [1])


def touched_keys(pages: ObjectPages, keys: Sequence[Hashable], chunks: int) -> int:
    parts = [list(keys[part::chunks]) for part in range(chunks)]
    elements = [KeyedElements(0, part, part, [None] * len(part)) for part in parts]
    list(pages.shares([], elements, NEVER, NEVER))
    return pages._keys


def test_keys_are_counted_alike_in_one_chunk_and_in_many() -> None:
    group = Group()
    group.record.sizes = int64_array(*[32 << 10] * 128)
    group.record.events = group.record.clocks = int64_array(*[NO_TIMER] * 128)
    for chunks in (1, 4, 50):
        pages = ObjectPages(group.record, CODEC, group.store, 4)
        assert touched_keys(pages, list(range(5000)), chunks) >= (128 * 32 << 10) // 2048


@pytest.mark.parametrize("keys", [100, 1_000, 8_000])
def test_pages_settle(keys: int) -> None:
    """Batches of one kind do not split and join the same pages for ever."""
    group = Group()
    group.batch(put_row, list(range(40_000)))
    chance = random.Random(keys)
    for _ in range(12):
        group.batch(put_row, chance.sample(range(40_000), keys))
    counts = set()
    for _ in range(4):
        group.batch(put_row, chance.sample(range(40_000), keys))
        counts.add(len(group.record.sizes))
        assert len(group.store.written) <= keys + 40
    assert max(counts) - min(counts) <= 40
