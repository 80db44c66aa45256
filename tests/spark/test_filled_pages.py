"""A key group is filled from portions of its keys, and has each key in its page."""

from __future__ import annotations

import random

import pytest

from windrow_runtime.operators.state.model import KeyState, OperatorState
from windrow_spark.exchange.classes import state_codec
from windrow_spark.storage.group_record import NO_TIMER, PagesInMemory, StepRecord
from windrow_spark.storage.object_pages import ObjectPages
from windrow_spark.storage.page_codec import PageCodec
from windrow_spark.storage.tuning import MEASURED


@pytest.mark.parametrize(("keys", "value_bytes"), [(1, 200_000), (9, 200_000), (3_000, 300)])
def test_portions_fill_pages(keys: int, value_bytes: int) -> None:
    drawn = random.Random(1)
    values = {f"key {number}": drawn.randbytes(value_bytes) for number in range(keys)}
    portions = [OperatorState() for _ in range(4)]
    for number, (key, value) in enumerate(values.items()):
        portions[number % 4].keys[key] = KeyState(state={"value": value})
    record, store = StepRecord(0), PagesInMemory()

    def pages() -> ObjectPages:
        codec = PageCodec(state_codec((), allow_pickled=False), MEASURED.lists)
        return ObjectPages(record, codec, store, 1, MEASURED.object_pages)

    pages().fill(portions)
    assert record.pages > 4
    assert record.size == sum(map(len, store.values()))
    filled = list(pages().portions())
    assert {key: state.state["value"] for page in filled for key, state in page.keys.items()} == values
    for key in [*values][:20]:
        opened = pages()
        ((page,),) = opened.parts({key: None}, NO_TIMER, NO_TIMER)
        assert key in opened.load([page]).keys
