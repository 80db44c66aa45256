"""State in columns where other steps have their pages: in the group's record, and in Spark's map of pages."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from windrow_runtime.columnar.state.chunks import Chunks, Measure, dump_entries, load_entries
from windrow_runtime.operators.state.page_store import PageStore
from windrow_runtime.storage.record import NO_TIMER, StepRecord
from windrow_runtime.storage.tuning import ChunkTuning

__all__ = ["load_chunks", "store_chunks"]

# Any in this module: pyarrow has no types.


class _Slot:
    """The part of a group's pages that belongs to one step."""

    def __init__(self, store: PageStore, slot: int) -> None:
        self._store = store
        self._base = slot << 32

    def get(self, number: int) -> bytes | None:
        return self._store.get(self._base | number)

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return self._store.get_all([self._base | number for number in numbers])

    def put(self, number: int, data: bytes) -> None:
        self._store.put(self._base | number, data)

    def remove(self, number: int) -> None:
        self._store.remove(self._base | number)


def load_chunks(
    record: StepRecord,
    store: PageStore,
    schema: Any,
    measure: Callable[[Any], Measure],
    merge: Callable[[Any], Any],
    tuning: ChunkTuning,
) -> Chunks:
    """The chunks of a step. Its record has the tail in the place of the first page, and a page for each chunk."""
    entries, arrived = load_entries(record.shared, record.sizes.__getitem__, record.events.__getitem__)
    slot = _Slot(store, record.slot)
    return Chunks(schema, entries, record.inline, record.events[0], slot, measure, merge, arrived, tuning)


def store_chunks(record: StepRecord, chunks: Chunks) -> None:
    """Note in a step's record what became of its chunks."""
    count = 1 + max((entry.number for entry in chunks.entries), default=0)
    record.inline = chunks.tail
    # Where nothing is left, numbers begin anew.
    is_empty = not (chunks.tail or chunks.entries)
    record.shared = dump_entries(chunks.entries, 0 if is_empty else chunks.arrived)
    record.sizes = array("q", [0]) * count
    record.events = array("q", [NO_TIMER]) * count
    record.clocks = array("q", [NO_TIMER]) * count
    if chunks.tail:
        record.sizes[0], record.events[0] = len(chunks.tail), chunks.tail_due
    for entry in chunks.entries:
        record.sizes[entry.number], record.events[entry.number] = entry.size, entry.due
