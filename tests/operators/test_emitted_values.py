"""What is emitted is fixed at that moment, and what a function is handed is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.operators.mutating import ITEMS, STREAMS, Item, in_order, items_in_batches
from tests.operators.stories import collected
from windrow import Pipeline, from_collection, from_source
from windrow.functions import MapFunction, RuntimeContext
from windrow.sinks import CollectSink, FunctionSink
from windrow.watermarks import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.copies import own_all
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: elements of every type.


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_emitted_and_handed_over_belongs_to_nobody_else(name: str) -> None:
    build, expected = STREAMS[name]
    for size in (1, 4):
        for fast in (False, True):
            found = collected(build(items_in_batches(size)), fast=fast)
            assert in_order(name, found) == in_order(name, expected)
    assert [item.tags for item in ITEMS] == [[0], [1], [2], [3]]


class OneList(MapFunction[int, list[int]]):
    """Returns the same list for all elements."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.all: list[int] = []

    def map(self, value: int) -> list[int]:
        self.all.append(value)
        return self.all


def test_a_map_may_return_one_object_for_all_elements() -> None:
    assert collected(from_collection([1, 2, 3]).map(OneList())) == [[1], [1, 2], [1, 2, 3]]


def test_sinks_share_no_elements() -> None:
    taken: list[list[int]] = []

    def spoil(batch: int, values: Sequence[Item]) -> None:
        for item in values:
            item.tags.append(7)
            taken.append(item.tags)

    sink = CollectSink[Item]()
    items = from_collection([Item(1, [1])], Item)
    pipeline = Pipeline(
        "sinks", items.sink_to(FunctionSink(spoil)), items.sink_to(sink), items.sink_to(FunctionSink(spoil))
    )
    assert LocalRunner().run(pipeline).collected(sink) == [Item(1, [1])]
    assert taken == [[1, 7], [1, 7]]


def test_a_watermark_generator_changes_its_own() -> None:
    class Grabbing(WatermarkGenerator[Item]):
        def on_event(self, element: Item, timestamp: int, output: WatermarkOutput) -> None:
            element.tags.append(8)

        def on_periodic_emit(self, output: WatermarkOutput) -> None:
            """Emits nothing."""

    strategy = WatermarkStrategy.for_generator(Grabbing)
    items = from_collection([Item(1)]).assign_timestamps_and_watermarks(strategy, lambda item: item.at)
    assert collected(items) == [Item(1)]


def test_one_object_that_a_collection_holds_twice_is_two_elements() -> None:
    item = Item(1)

    def tag(given: Item) -> Item:
        given.tags.append(1)
        return given

    assert collected(from_collection([item, item]).map(tag)) == [Item(1, [1]), Item(1, [1])]
    assert item == Item(1)


def test_a_test_may_change_what_it_has_pushed_and_what_it_has_taken() -> None:
    source = PushSource(Item)
    build, _ = STREAMS["reduced elements that are emitted again and again"]
    with StreamHarness(build(from_source(source)), source) as harness:
        item = Item(1, [1])
        harness.process_element(item, timestamp=1)
        item.tags.append(5)
        (first,) = harness.take_values()
        first.append(6)
        harness.process_element(item, timestamp=2)
        assert harness.take_values() == [[1, 1, 5]]


def test_elements_that_cannot_be_copied_are_handed_on() -> None:
    @dataclass
    class Open:
        numbers: Any

    opened = from_collection([2, 3]).map(lambda number: Open(at for at in range(number)))
    assert collected(opened.flat_map(lambda found: list(found.numbers))) == [0, 1, 0, 1, 2]


@dataclass(frozen=True, slots=True)
class Lazy:
    """A record with a slot that is empty until somebody asks for its value."""

    held: list[int] | int
    found: int = field(init=False, compare=False, repr=False)


def test_records_with_an_empty_slot_are_fixed_as_others_are() -> None:
    constant, changed = Lazy(1), Lazy([1])
    fixed = own_all([constant, changed])
    assert fixed == [constant, changed]
    assert fixed[0] is constant
    assert fixed[1].held is not changed.held
    assert not hasattr(fixed[1], "found")
