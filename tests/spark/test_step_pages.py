"""Pages of state and the working set: whatever a batch touches, the whole is what it would be in one piece."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import replace

import pytest

from tests.budget import for_a_night
from tests.spark.page_groups import CODEC, NEVER, Group, numbers_in_store, put_list, put_row, remove_row
from tests.support.thorough import thorough
from tests.working_sets import small_working_sets
from windrow.errors import CheckpointError
from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import KeyState, OperatorState, StoredList, WindowEntry
from windrow_spark.exchange.rows import KeyedElements
from windrow_spark.storage.group_record import NO_TIMER, int64_array
from windrow_spark.storage.object_pages import ObjectPages
from windrow_spark.storage.tuning import OBJECT_PAGES, HotKeyTuning, PageTuning


@pytest.mark.parametrize(
    "per_batch", [250, thorough(3_000, reason="the sizes beside it in test_step_pages.py differ more"), 20_000]
)
def test_a_state_grows_and_shrinks_in_pages(per_batch: int) -> None:
    group = Group()
    numbers = list(range(20_000))
    random.Random(1).shuffle(numbers)
    for start in range(0, len(numbers), per_batch):
        group.batch(put_row, numbers[start : start + per_batch])
    count = group.record.pages
    # Some hundred keys at a time leave most pages untouched, if they are small.
    assert 4 < count < (20 if per_batch > 250 else 1_000)
    assert group.whole().tables[0].keys() == set(numbers)
    assert sorted(group.store.pages) == [3 << 32 | page for page in range(count)]
    sizes = [len(group.store.pages[number]) for number in sorted(group.store.pages)]
    assert group.record.size == sum(sizes)
    assert max(sizes) < 128 << 10

    # Batches that touch three keys split pages, as many as they read, until they are small.
    before = max(sizes)
    group.batch(put_row, [7, 8, "new"])
    assert len(group.store.written) <= 2 * len(group.store.read)
    for start in range(0, 300, 3):
        group.batch(put_row, numbers[start : start + 3])
    assert group.record.pages > 200
    assert sorted(group.store.pages) == [3 << 32 | page for page in range(group.record.pages)]
    assert max(map(len, group.store.pages.values())) <= min(before, 2 << 10)
    assert group.whole().tables[0].keys() == {*numbers, "new"}
    # They read three pages, and some that they split.
    seen = group.batch(put_row, [7, 8, "new"])
    assert {7, 8, "new"} <= seen
    assert len(group.store.read) <= 8
    assert len(group.store.written) <= 2 * len(group.store.read)
    # One that touches everything lays them out anew, as few large ones.
    group.batch(put_row, numbers)
    assert group.record.pages < 20
    assert len(group.store.pages) == group.record.pages
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
        assert group.record.pages <= 2


def test_pages_whose_timers_are_due_are_found() -> None:
    group = Group()

    def set_timer(state: OperatorState, key: Hashable) -> None:
        assert isinstance(key, int)
        state.keys.setdefault(key, KeyState(state={"text": str(random.Random(key).random()) * 5}))
        state.event_timers.register(key, None, key)

    keys: list[Hashable] = list(range(-1000, 6000))
    group.batch(set_timer, keys)
    for key in range(5999, 5900, -1):
        group.batch(set_timer, [key])
    assert group.record.pages > 20
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
    group.batch(drop, ["key"])
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
        assert sorted(group.store.pages) == numbers_in_store(group.record)


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
    group.record.pages, group.record.size = 128, 128 * 32 << 10
    group.record.events = group.record.clocks = int64_array(*[NO_TIMER] * 128)
    for chunks in (1, 4, 50):
        pages = ObjectPages(group.record, CODEC, group.store, 4)
        assert touched_keys(pages, list(range(5000)), chunks) >= (128 * 32 << 10) // 2048


@pytest.mark.parametrize("keys", [100, 4_000])
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
        counts.add(group.record.pages)
        assert len(group.store.written) <= keys + 40
    assert max(counts) - min(counts) <= 40


FIRST, SECOND = TimeWindow(0, 10), TimeWindow(30, 40)


class Nowhere:
    """Has no segments."""

    def read_segment(self, number: int) -> list[object]:
        raise AssertionError(number)


def no_segments(data: bytes) -> int:
    raise AssertionError("no list is long")


LIVE: dict[str, list[KeyState]] = {
    "alike": [KeyState({FIRST: WindowEntry(1), SECOND: WindowEntry(2)}, [FIRST, SECOND], 2)],
    "another order": [KeyState({SECOND: WindowEntry(2), FIRST: WindowEntry(1)}, [FIRST, SECOND], 2)],
    "a window whose contents were purged": [KeyState({SECOND: WindowEntry(2)}, [FIRST, SECOND], 2)],
    "one key of two": [KeyState({FIRST: WindowEntry(1)}, [FIRST], 1), KeyState({SECOND: WindowEntry(2)}, [FIRST], 1)],
    "windows that do not merge": [KeyState({FIRST: WindowEntry(1), SECOND: WindowEntry(2)})],
}


@pytest.mark.parametrize("name", LIVE)
def test_live_windows_come_back(name: str) -> None:
    state = OperatorState(keys=dict(enumerate(LIVE[name])))
    again = CODEC.load(CODEC.dump(state, no_segments), Nowhere())
    found = [(list(each.windows), each.live, each.arrivals) for each in again.keys.values()]
    assert found == [(list(each.windows), each.live, each.arrivals) for each in LIVE[name]]


# The working set: keys that batches touch again and again cost no pages, and none of them is lost on its way.

KEYS: list[Hashable] = [f"key {number}" for number in range(20_000)]
HOT = KEYS[100:400]


def hot_group(hot: list[Hashable] = HOT, tuning: PageTuning = OBJECT_PAGES) -> Group:
    group = Group(tuning)
    group.batch(put_row, KEYS)
    for _ in range(3):
        group.batch(put_row, hot)
    return group


def set_timer(state: OperatorState, key: Hashable) -> None:
    state.keys.setdefault(key, KeyState(state={"text": str(random.Random(str(key)).random()) * 5}))
    state.event_timers.register(key, None, int(str(key).split()[1]))


def drop(state: OperatorState, key: Hashable) -> None:
    del state.keys[key]


def test_keys_that_are_touched_again_and_again_need_no_page() -> None:
    group = hot_group()
    assert group.record.pages > 4
    group.batch(put_row, HOT)
    assert group.store.read == group.store.written == []
    group.batch(put_row, [*HOT, KEYS[0]])
    assert len(group.store.read) <= 2  # its page, and perhaps one that is split
    assert group.whole().tables[0].keys() == set(KEYS)


def test_keys_that_come_once_stay_in_their_pages() -> None:
    group = Group()
    group.batch(put_row, KEYS)
    for start in range(0, 20_000, 500):
        group.batch(put_row, KEYS[start : start + 500])
    assert group.record.working == b""
    # Two batches of keys are remembered.
    assert len(group.record.seen) == 4 * 2 * 500


def test_a_batch_that_touches_most_keys_says_nothing_of_a_working_set() -> None:
    group = Group()
    for _ in range(4):
        group.batch(put_row, KEYS)
    assert (group.record.working, group.record.seen) == (b"", b"")


def test_keys_leave_when_others_are_touched() -> None:
    """Three working sets, one after the other: the first is gone while the last is in use."""
    group = hot_group()
    # The set holds the first keys as long as there are at most some times as many as a batch touches.
    other: list[list[Hashable]] = [KEYS[start : start + 40] for start in range(1_000, 2_000, 40)]
    for batch in other:
        for _ in range(3):
            group.batch(put_row, batch)
    working = group.keys_of_working_set()
    assert set(other[-1]) <= working
    assert working.isdisjoint(HOT)
    assert len(working) <= 4 * 64
    assert group.whole().tables[0].keys() == set(KEYS)


def test_a_batch_of_few_keys_sends_not_all_others_away_at_once() -> None:
    group = hot_group(KEYS[:600], replace(OBJECT_PAGES, dense=1_000))
    assert len(group.keys_of_working_set()) == 600
    before = left = 600
    for number in range(16):
        group.batch(put_row, KEYS[:1])
        left = len(group.keys_of_working_set())
        # Four times as many as some batches of late have touched, which goes down by a quarter with each of these.
        assert before - 120 <= left <= before
        assert left == 600 or number > 1
        before = left
        assert len(set(group.store.written)) < group.record.pages // 3
    assert left <= 4 * 128 // 2
    assert group.whole().tables[0].keys() == set(KEYS)


def test_timers_of_the_working_set_fire() -> None:
    group = Group()
    group.batch(set_timer, KEYS)
    for _ in range(3):
        group.batch(set_timer, HOT)
    assert group.record.working_event == 100
    group.batch(set_timer, HOT[5:])
    assert group.record.earliest_event_timer == 0
    # Keys 0 to 150: those up to 99 are in pages.
    group.batch(drop, [], watermark=150)
    assert group.record.earliest_event_timer == group.record.working_event == 151
    group.batch(drop, [], watermark=170)
    assert group.store.read == []
    assert set(group.whole().keys) == set(KEYS[171:])
    group.batch(drop, [], watermark=30_000)
    assert not group.record.stored_bytes
    assert group.store.pages == {}


def test_lists_move_with_their_keys_into_the_working_set_and_out_of_it() -> None:
    group = Group(replace(OBJECT_PAGES, hot_keys=HotKeyTuning(least_kept=20, least_remembered=20)))
    keys = KEYS[:300]
    for _ in range(5):
        group.batch(put_list, keys)
    for _ in range(8):
        group.batch(put_list, keys[:8])
    assert group.keys_of_working_set() == set(keys[:8])
    for start in range(8, 300, 4):
        for _ in range(2):
            group.batch(put_list, keys[start : start + 4])
    assert group.keys_of_working_set().isdisjoint(keys[:8])
    whole = group.whole()
    for place, key in enumerate(keys):
        (entry,) = whole.keys[key].windows.values()
        assert [arrival for arrival, _, _ in entry.contents] == list(range(260 if place < 8 else 140))
    for _ in range(3):
        group.batch(put_list, keys[:8])
    group.batch(drop, keys[:8])
    group.batch(drop, keys[8:])
    assert group.store.pages == {}


def test_a_working_set_ends_when_its_state_fits_into_one_page() -> None:
    group = hot_group()
    group.batch(remove_row, [key for key in KEYS if key not in set(HOT)])
    assert group.record.working == group.record.seen == b""
    assert (group.record.pages, group.record.size) == (1, len(group.record.inline))
    assert group.whole().tables[0].keys() == set(HOT)
    assert group.store.pages == {}


def test_a_working_set_may_hold_all_that_is_left() -> None:
    group = hot_group()
    rest = [key for key in KEYS if key not in set(HOT)]
    for start in range(0, len(rest), 900):
        group.batch(remove_row, rest[start : start + 900])
    assert group.whole().tables[0].keys() == set(HOT)
    group.batch(remove_row, HOT)
    assert not group.record.stored_bytes
    assert group.store.pages == {}


@pytest.mark.parametrize("seed", for_a_night([1, 2, 3, 4], [1, 4]))
def test_any_batches_give_what_a_dictionary_gives(seed: int) -> None:
    """Keys come and go all the time, as the working set is a few keys large."""
    tuning = PageTuning(
        small=100,
        dense=2_000,
        inline_bytes=1_500,
        bytes_at_once=3_000,
        whole_bytes=20_000,
        pages_in_record=8,
        pages_of_a_leaf=4,
        hot_keys=small_working_sets(4_000),
    )
    chance = random.Random(seed)
    group = Group(tuning)
    model: dict[Hashable, int] = {}
    watermark = 0
    moved = 0

    def count(state: OperatorState, key: Hashable) -> None:
        held = state.keys.setdefault(key, KeyState(state={"count": 0}))
        assert held.state["count"] == model.get(key, 0), key
        held.state["count"] += 1
        model[key] = held.state["count"]
        if len(str(key)) == 5:  # a tenth of them
            put_list(state, key)
        if held.state["count"] == 1:
            state.event_timers.register(key, None, watermark + chance.randrange(1, 600))

    def fire(state: OperatorState, key: Hashable) -> None:
        assert state.keys.pop(key).state["count"] == model.pop(key)

    for _ in range(30):
        favourites = chance.sample(KEYS[:300], 40)
        for _ in range(chance.randrange(1, 4)):
            touched = chance.sample(favourites, chance.choice([1, 5, 30])) + chance.sample(KEYS[:300], 3)
            group.batch(count, list(dict.fromkeys(touched)))
            moved += bool(group.keys_of_working_set())
        watermark += chance.choice([0, 40])
        group.batch(fire, [], watermark=watermark)
        whole = group.whole().keys
        assert {key: held.state["count"] for key, held in whole.items()} == model
        for key, held in whole.items():
            for entry in held.windows.values():
                assert [arrival for arrival, _, _ in entry.contents] == list(range(20 * model[key]))
        assert sorted(number for number in group.store.pages if number > 0) == numbers_in_store(group.record)
    assert moved > 20
    group.batch(fire, [], watermark=1 << 40)
    assert not group.record.stored_bytes
    assert group.store.pages == {}


def test_keys_with_nothing_but_timers_are_kept_when_their_state_moves() -> None:
    """From many pages to one and back within a batch, as what is left does not fit into one."""

    def set_timer_alone(state: OperatorState, key: Hashable) -> None:
        state.event_timers.register(key, f"a namespace of {key}", int(str(key).split()[1]))

    def delete_timer(state: OperatorState, key: Hashable) -> None:
        state.event_timers.delete(key, f"a namespace of {key}", int(str(key).split()[1]))

    group = Group()
    group.batch(set_timer_alone, KEYS)
    for _ in range(3):
        group.batch(set_timer_alone, KEYS[:3_000])
    assert len(group.record.working) > OBJECT_PAGES.inline_bytes
    group.batch(delete_timer, KEYS[3_000:])
    assert [key for key, _, _ in sorted(group.whole().event_timers, key=lambda timer: timer[2])] == KEYS[:3_000]


def put_long_row(state: OperatorState, key: Hashable) -> None:
    state.table_size = 10
    state.tables.setdefault(0, {})[key] = random.Random(str(key)).randbytes(300)


@pytest.mark.parametrize("touched", [400, 3_000])
def test_a_working_set_is_bounded_in_bytes(touched: int) -> None:
    group = Group(replace(OBJECT_PAGES, hot_keys=HotKeyTuning(40_000)))
    group.batch(put_long_row, KEYS[:3_000])
    for _ in range(4):
        group.batch(put_long_row, KEYS[:touched])
        assert len(group.record.working) < 60_000
    assert bool(group.record.working) == (touched < 3_000)
    assert group.whole().tables[0].keys() == set(KEYS[:3_000])


def test_keys_leave_a_working_set_that_has_grown() -> None:
    group = hot_group(tuning=replace(OBJECT_PAGES, hot_keys=HotKeyTuning(40_000)))
    for _ in range(4):
        group.batch(put_long_row, HOT)
    # 300 keys with 300 bytes each are 90,000: a part of them has left, though all are touched.
    assert len(group.record.working) < 60_000
    assert 60 < len(group.keys_of_working_set()) < 200
    assert group.whole().tables[0].keys() == set(KEYS)


def test_a_small_batch_does_not_forget_what_was_touched() -> None:
    group = Group()
    group.batch(put_row, KEYS)
    for _ in range(3):
        group.batch(put_row, HOT)
        group.batch(put_row, [KEYS[0]])
    assert group.keys_of_working_set() >= set(HOT)


def test_a_working_set_that_nobody_touches_any_more_leaves() -> None:
    group = hot_group(KEYS[:3_000])
    assert len(group.keys_of_working_set()) == 3_000
    for start in range(3_000, 8_000, 50):
        group.batch(put_row, KEYS[start : start + 50])
    assert len(group.keys_of_working_set()) == 4 * 64
    assert group.whole().tables[0].keys() == set(KEYS)


def test_a_key_stays_the_one_that_came_first() -> None:
    """1, 1.0 and True are one key. What is stored under it says which one came first, wherever it lies."""
    numbers: list[Hashable] = list(range(20_000))
    group = Group()
    group.batch(put_row, numbers)
    for _ in range(4):
        group.batch(put_row, [float(number) for number in range(300)])
    assert group.keys_of_working_set() == set(range(300))
    assert {type(key) for key in group.whole().tables[0]} == {int}
