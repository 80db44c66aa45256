"""The timers of pages, in the record and in leaves, against a list of all of them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.spark.page_groups import NEVER, Store, numbers_in_store
from windrow.errors import CheckpointError
from windrow_spark.storage.group_record import StepRecord
from windrow_spark.storage.page_timers import PageTimers
from windrow_spark.storage.tuning import OBJECT_PAGES

TUNING = replace(OBJECT_PAGES, pages_in_record=12, pages_of_a_leaf=4)


def times(chance: random.Random) -> tuple[int, int]:
    # Most pages have timers of one kind, and some have none.
    return chance.choice([(NEVER, NEVER), (chance.randrange(100), NEVER), (NEVER, chance.randrange(100)), (7, 9)])


@pytest.mark.parametrize("seed", range(30))
def test_timers_of_pages_are_those_of_a_list(seed: int) -> None:
    chance = random.Random(seed)
    store, record = Store(), StepRecord(2)
    model = [(NEVER, NEVER)]
    for _ in range(40):
        timers = PageTimers(record, store, TUNING)
        watermark, now = chance.randrange(-1, 100), chance.randrange(-1, 100)
        expected = {
            page for page, (event, clock) in enumerate(model) if NEVER != event <= watermark or NEVER != clock <= now
        }
        assert timers.due(watermark, now) == expected
        assert record.is_due(watermark, now) == bool(expected)
        if chance.random() < 0.1:
            model = [(NEVER, NEVER)] * chance.choice([1, 5, 13, 40])
            timers.clear(len(model))
        timers.read(chance.sample(range(len(model)), min(3, len(model))))
        for _ in range(chance.randrange(12)):
            page = chance.randrange(len(model))
            model[page] = times(chance)
            timers.set(page, *model[page])
        for _ in range(chance.choice([0, 0, 3, 20])):
            model.append((NEVER, NEVER))
            timers.append()
            model[-1] = times(chance)
            timers.set(len(model) - 1, *model[-1])
        for _ in range(min(len(model) - 1, chance.choice([0, 0, 3, 25]))):
            model.pop()
            timers.pop()
        timers.end_batch()
        record.check()
        assert record.pages == len(model)
        leaves = [number for number in numbers_in_store(record) if number & 1 << 31]
        assert sorted(store.pages) == leaves


def test_few_leaves_are_read_and_written_for_few_pages() -> None:
    store, record = Store(), StepRecord(0)
    timers = PageTimers(record, store, OBJECT_PAGES)
    timers.clear(100_000)
    for page in range(100_000):
        timers.set(page, page + 5, NEVER)
    timers.end_batch()
    assert len(record.events) == 782
    store.start()
    timers = PageTimers(record, store, OBJECT_PAGES)
    assert timers.due(6, 0) == {0, 1}
    timers.set(1, 50, NEVER)
    timers.set(99_999, NEVER, NEVER)
    timers.end_batch()
    assert (len(store.read), len(store.written)) == (2, 2)


@pytest.mark.parametrize("data", [None, b"", b"12345678"])
def test_damaged_leaves_are_refused(data: bytes | None) -> None:
    store, record = Store(), StepRecord(0)
    timers = PageTimers(record, store, TUNING)
    timers.clear(20)
    timers.set(3, 5, NEVER)
    timers.end_batch()
    (number,) = store.pages
    if data is None:
        del store.pages[number]
    else:
        store.pages[number] = data
    with pytest.raises(CheckpointError, match="timers"):
        PageTimers(record, store, TUNING).due(5, 0)
