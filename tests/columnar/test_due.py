"""Many windows that fire at once: neither what is read nor what is merged at a time grows with the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import Store
from tests.columnar.rows import kernel_of_numbers
from windrow import aggregates as agg
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_spark.columnar.rows.groups import parts_of
from windrow_spark.columnar.state import Chunks
from windrow_spark.columnar.step_operator import Times
from windrow_spark.columnar.windows.column_operator import Fired
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.slices import SliceOperator
from windrow_spark.storage.group_record import StepRecord
from windrow_spark.storage.tuning import ROW_CHUNKS, ChunkTuning

# Any in this module: pyarrow has no types.

KEYS = 40_000


class Counted(Store):
    reads = 0

    def get(self, number: int, default: Any = None) -> Any:
        self.reads += 1
        return super().get(number, default)


def step(windows: Slices) -> SliceOperator:
    return SliceOperator(windows, kernel_of_numbers(agg.sum(lambda value: value), pa.int64()), pa.string())


def state_of(operator: SliceOperator, batches: Iterator[tuple[Any, Any]]) -> tuple[Chunks, Counted]:
    """The state behind batches of keys and timestamps; each element counts one."""
    store = Counted()
    chunks = operator.chunks(StepRecord(0), store, ROW_CHUNKS)
    for keys, stamps in batches:
        rows, _ = operator.aggregate(pa.array(keys), stamps, [pa.array(np.ones(len(stamps), np.int64))])
        operator.append(chunks, [rows])
    store.reads = 0
    return chunks, store


def fired_by(operator: SliceOperator, chunks: Chunks, before: int, watermark: int) -> Iterator[Fired]:
    """What fires as the watermark advances, which holds nothing back."""
    for output in operator.advance(chunks, before, Times(watermark, 0)):
        assert isinstance(output, Fired)
        yield output
        del output


def many_keys() -> Iterator[tuple[Any, Any]]:
    """Each key in two windows, in several chunks; in the second one twice."""
    names = [f"key {number}" for number in range(KEYS)]
    for moment in (1, 100, 101):
        for start in range(0, KEYS, KEYS // 4):
            part = names[start : start + KEYS // 4]
            yield part, np.full(len(part), moment)


@pytest.mark.parametrize("held", [1 << 20, 0])
def test_many_keys_are_fired_in_parts(held: int) -> None:
    operator = step(Slices(100, 100, 0, 0))
    chunks, store = state_of(operator, many_keys())
    stored = len(chunks.entries)
    state_bytes = sum(rows.nbytes for _, rows in chunks.read(lambda entry: True))
    chunks.tuning = ChunkTuning(fired_bytes=state_bytes // 10, held_bytes=held)
    store.reads = 0
    found: dict[tuple[str, int], int] = {}
    before = pa.total_allocated_bytes()
    largest = 0
    for fired in fired_by(operator, chunks, MIN_TIMESTAMP, 500):
        pairs = list(zip(fired.keys.to_pylist(), fired.starts.tolist(), strict=True))
        assert len(pairs) < 2 * KEYS // 5
        assert not found.keys() & set(pairs)
        found.update(zip(pairs, fired.results.to_pylist(), strict=True))
        largest = max(largest, pa.total_allocated_bytes() - before)
    assert found == {(f"key {number}", start): 1 + start // 100 for number in range(KEYS) for start in (0, 100)}
    # Of the rows and of what became of them there is a part in memory.
    assert largest < state_bytes // 2
    assert not store
    assert not chunks.entries
    assert not chunks.tail
    assert store.reads == stored if held else store.reads > 5 * stored


def test_rows_that_are_kept_stay_when_others_are_fired_in_parts() -> None:
    operator = step(Slices(100, 100, 0, 50))
    chunks, store = state_of(operator, many_keys())
    chunks.tuning = ChunkTuning(fired_bytes=100_000)
    first = sum(len(fired) for fired in fired_by(operator, chunks, MIN_TIMESTAMP, 120))
    kept = sum(rows.num_rows for _, rows in chunks.read(lambda entry: True))
    stored = len(chunks.entries)
    store.reads = 0
    again = sum(len(fired) for fired in fired_by(operator, chunks, 120, 150))
    # Nothing fires, so each chunk is read once.
    assert store.reads <= stored
    assert (first, again) == (KEYS, 0)
    left = sum(rows.num_rows for _, rows in chunks.read(lambda entry: True)) + chunks.read_tail().num_rows
    assert KEYS <= left < kept
    assert sum(len(fired) for fired in fired_by(operator, chunks, 150, MAX_TIMESTAMP)) == KEYS
    assert not store


def test_a_day_of_windows_that_slide_by_ten_seconds() -> None:
    """Each window fires from 8,640 slices, and all of them when the stream ends."""
    slide, day = 10_000, 24 * 3_600_000
    operator = step(Slices(day, slide, 0, 0))
    slices = np.arange(0, day, slide)
    keys = ["a", "b"] * (len(slices) // 2)
    # Both keys are in each slice but the last one.
    chunks, _ = state_of(operator, iter([(keys, slices), (keys[1:], slices[:-1])]))
    (fired,) = fired_by(operator, chunks, MIN_TIMESTAMP, 2 * slide)
    first = slide - day
    assert fired.starts.tolist() == [first, first, first + slide, first + slide]
    assert fired.results.to_pylist() == [1, 1, 2, 2]
    totals: dict[tuple[str, int], int] = {}
    for fired in fired_by(operator, chunks, 2 * slide, MAX_TIMESTAMP):
        assert len(fired) < 1_000
        pairs = zip(fired.keys.to_pylist(), fired.starts.tolist(), strict=True)
        totals.update(zip(pairs, fired.results.to_pylist(), strict=True))
    starts = range(first + 2 * slide, day, slide)
    wanted = {
        (key, start): held
        for key, end in (("a", day - slide), ("b", day))
        for start in starts
        if (held := (min(start + day, end) - max(start, 0)) // slide)
    }
    assert totals == wanted


def test_keys_are_dealt_out_alike() -> None:
    texts = pa.array([None, "", "a", "a" * 8, "b" * 8 + "a", *(f"sensor-{n}-of-a-room" for n in range(4_000))])
    for keys in (texts, texts.cast(pa.binary()), pa.array(range(4_000)), pa.array([None, *range(4_000)])):
        parts = parts_of(keys, 7)
        assert np.bincount(parts, minlength=7).min() > 450
        # The same key has the same part wherever it stands.
        assert parts_of(keys.slice(3), 7).tolist() == parts[3:].tolist()
        assert parts_of(keys.take(pa.array([5, 1, 5])), 7).tolist() == parts[[5, 1, 5]].tolist()
    assert len(parts_of(pa.array([], pa.string()), 3)) == 0
