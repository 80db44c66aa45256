"""The stored rows of a join, against a list of all of them; what a batch reads and writes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from tests.budget import seeds
from tests.columnar.engine import Store
from windrow.errors import CheckpointError
from windrow.functions.marked import LEFT, RIGHT
from windrow.time import MAX_TIMESTAMP
from windrow_spark.columnar import Ints
from windrow_spark.columnar.joins.side_segments import SegmentIndex, SideSegments
from windrow_spark.columnar.rows.groups import hash_keys
from windrow_spark.storage.group_record import GroupState, StepRecord
from windrow_spark.storage.tuning import MEASURED, SegmentTuning, StateTuning

SCHEMA: Final = pa.schema({"key": pa.string(), "at": pa.int64(), "side": pa.int8(), "s0": pa.string()})
TINY: Final = replace(MEASURED, join_segments=SegmentTuning(700, 3, 6_000, 400, 2))


class Counted(Store):
    """A store that counts the bytes that are read and written."""

    read = written = 0

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        data = super().get_all(numbers)
        self.read += sum(len(each or b"") for each in data)
        return data

    def put(self, number: int, data: bytes) -> None:
        self.written += len(data)
        super().put(number, data)


def ends(rows: pa.RecordBatch) -> Ints:
    times: Ints = rows.column(1).to_numpy()
    return times


def opened(record: StepRecord, store: Store, tuning: StateTuning = TINY) -> SideSegments:
    return SideSegments(record, SCHEMA, store, ends, lambda rows: None, tuning)


def rows_of(rows: Sequence[tuple[str | None, int, int, str]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def tuples(rows: pa.RecordBatch) -> list[tuple[str | None, int, int, str]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


@pytest.mark.parametrize("seed", seeds(4))
def test_rows_that_keys_may_meet_are_those_of_a_list(seed: int) -> None:
    chance = random.Random(seed)
    store, record = Counted(), StepRecord(1)
    # Each row with the watermark under which it was added.
    model: list[tuple[tuple[str | None, int, int, str], int]] = []
    names = [*(f"key {number}" for number in range(chance.choice([3, 40, 400]))), None]
    watermark, most_segments = 0, 0
    for number in range(80):
        state = opened(record, store)
        if chance.random() < 0.6:
            watermark += chance.randrange(40)
        if number == 79:
            watermark = MAX_TIMESTAMP
        state.advance(watermark)
        is_kept = [row[1] > watermark or added == watermark for row, added in model]
        model = [entry for entry, keeps in zip(model, is_kept, strict=True) if keeps and watermark != MAX_TIMESTAMP]
        side = chance.choice([LEFT, RIGHT])
        wanted = chance.sample(names, chance.randrange(len(names)))
        found = [row for rows in state.matching(side, pa.array(wanted, pa.string())) for row in tuples(rows)]
        assert all(row[2] == side for row in found)
        # Rows of the tail, and those of keys with the same hash, may be among them.
        expected = Counter(row for row, _ in model if row[2] == side and row[0] in wanted)
        assert Counter(row for row in found if row[0] in wanted) == expected
        new = [
            (chance.choice(names), watermark + chance.choice([0, 5, 50, 500]), chance.choice([LEFT, RIGHT]), "x" * 9)
            for _ in range(chance.choice([0, 1, 20, 100]) if watermark != MAX_TIMESTAMP else 0)
        ]
        state.add(rows_of(new))
        model += [(row, watermark) for row in new]
        state.end_batch()
        record.watermark = watermark
        most_segments = max(most_segments, len(state.segments))
        group = GroupState(steps={"step": record})
        record = GroupState.load(group.dump(bytes(16)), bytes(16)).steps["step"]
        pages = [n for each in state.segments for n in range(each.number, each.end)]
        assert sorted(store) == sorted(1 << 32 | page for page in pages)
        assert record.size == len(record.inline) + sum(map(len, store.values()))
    assert most_segments > 4
    assert not record.stored_bytes
    assert record.earliest_event_timer is None


def test_a_batch_does_not_read_what_its_keys_do_not_meet_and_writes_rows_few_times() -> None:
    """Keys that come together, as the auctions of a day do: old segments are left alone."""
    chance = random.Random(5)
    store, record = Counted(), StepRecord(0)
    reads: list[int] = []
    came_in = 0
    for number in range(120):
        state = opened(record, store, MEASURED)
        rows = [
            (
                f"auction {100 * number + chance.randrange(100)}",
                10**9,
                chance.choice([LEFT, RIGHT]),
                chance.randbytes(40).hex(),
            )
            for _ in range(1_000)
        ]
        batch = rows_of(rows)
        store.read = 0
        list(state.matching(LEFT, batch.column(0)))
        reads.append(store.read)
        came_in += batch.nbytes
        state.add(batch)
        state.end_batch()
    assert store.written <= 2 * came_in
    assert max(reads[100:]) <= 200_000  # the indexes of all segments, and some pages
    assert sum(map(len, store.values())) > 4_000_000


def test_a_large_segment_does_not_keep_small_ones_from_being_merged() -> None:
    store, record = Counted(), StepRecord(0)
    tuning = replace(MEASURED, join_segments=SegmentTuning(700, 4, 100_000))
    counts: list[int] = []
    for number in range(120):
        state = opened(record, store, tuning)
        count = 2_000 if number == 0 else 40
        state.add(rows_of([(f"{number} {each}", 10**9, LEFT, "text" * 20) for each in range(count)]))
        state.end_batch()
        counts.append(len(state.segments))
    assert counts[-1] <= 20


def test_few_keys_read_few_indexes_of_a_large_segment() -> None:
    store, record = Counted(), StepRecord(0)
    state = opened(record, store, MEASURED)
    state.add(rows_of([(f"key {each}", 10**9, LEFT, "text") for each in range(100_000)]))
    state.end_batch()
    state = opened(record, store, MEASURED)
    store.read = 0
    (rows,) = state.matching(LEFT, pa.array(["key 7"]))
    assert rows.column(0).to_pylist() == ["key 7"]
    assert store.read < sum(map(len, store.values())) / 30


def test_a_wide_row_does_not_give_each_other_one_a_page() -> None:
    chance = random.Random(1)
    store, record = Counted(), StepRecord(0)
    state = opened(record, store, MEASURED)
    texts = [chance.randbytes(2_000_000).hex(), *["x"] * 400]
    state.add(rows_of([(f"key {each}", 10**9, LEFT, text) for each, text in enumerate(texts)]))
    state.end_batch()
    assert [segment.pages for segment in state.segments] == [51]


def test_the_index_of_a_segment_finds_each_key_and_few_others() -> None:
    hashes = np.sort(hash_keys(pa.array(range(20_000))))
    # A hash may go on over the end of a page.
    hashes[700:1_300] = hashes[1_000]
    index = SegmentIndex.load(SegmentIndex.of(0, hashes[::100], np.unique(hashes)).dump(), 200)
    for row in range(0, 20_000, 37):
        assert row // 100 in index.pages_of(hashes[row : row + 1])
    assert set(index.pages_of(hashes[1_000:1_001]).tolist()) >= set(range(7, 13))
    others = hash_keys(pa.array(range(50_000, 60_000)))
    assert sum(len(index.pages_of(others[row : row + 1])) for row in range(2_000)) <= 2_000 * 0.01
    assert len(SegmentIndex.of(0, hashes[:1], hashes[:1]).pages_of(np.zeros(0, np.uint64))) == 0


def damaged_index(record: StepRecord, store: Counted) -> None:
    store[1 << 32 | 1] = store[1 << 32 | 1][:-1]


def missing_index(record: StepRecord, store: Counted) -> None:
    del store[1 << 32 | 1]


def missing_page(record: StepRecord, store: Counted) -> None:
    del store[1 << 32 | 2]


def other_pages(record: StepRecord, store: Counted) -> None:
    record.segments = 1


def no_entries(record: StepRecord, store: Counted) -> None:
    record.shared = b"\x93\x00\x00\x91\x99\x01"


@pytest.mark.parametrize("damage", [damaged_index, missing_index, missing_page, other_pages, no_entries])
def test_damaged_segments_are_refused(damage: object) -> None:
    store, record = Counted(), StepRecord(1)
    state = opened(record, store)
    state.add(rows_of([(f"key {number}", 9, LEFT, "text") for number in range(300)]))
    state.end_batch()
    assert callable(damage)
    damage(record, store)
    with pytest.raises(CheckpointError):
        list(opened(record, store).matching(LEFT, pa.array([f"key {number}" for number in range(300)])))
