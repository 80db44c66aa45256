"""The declared aggregates as calls of windows, and steps of keyed streams that lose the keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.evictors import CountEvictor
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner


@dataclass(frozen=True)
class Sale:
    shop: str
    at: int
    price: int


# at        1    2    3    |  11   12
# a         5         2    |   7
# b              4         |        1
SALES = [Sale("a", 1, 5), Sale("b", 2, 4), Sale("a", 3, 2), Sale("a", 11, 7), Sale("b", 12, 1)]
WINDOWS = TumblingEventTimeWindows.of(timedelta(milliseconds=10))


def sales() -> DataStream[Sale]:
    return from_source(CollectionSource(SALES, Sale)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda sale: sale.at
    )


def results(stream: DataStream[object]) -> list[object]:
    sink = CollectSink[object]()
    return LocalRunner().run(Pipeline("p", stream.sink_to(sink))).collected(sink)


def test_calls_of_windows_are_the_declared_aggregates() -> None:
    windows = sales().key_by(lambda sale: sale.shop).window(WINDOWS)
    assert results(windows.count()) == [2, 1, 1, 1]
    assert results(windows.sum(lambda sale: sale.price)) == [7, 4, 7, 1]
    assert results(windows.min(lambda sale: sale.price)) == [2, 4, 7, 1]
    assert results(windows.max(lambda sale: sale.price)) == [5, 4, 7, 1]
    assert results(windows.min_by(lambda sale: sale.price)) == [SALES[2], SALES[1], SALES[3], SALES[4]]
    assert results(windows.max_by(lambda sale: sale.price)) == [SALES[0], SALES[1], SALES[3], SALES[4]]
    told = windows.sum(lambda sale: sale.price).node.describe()
    assert told == windows.aggregate(agg.sum(lambda sale: sale.price)).node.describe()


def test_so_they_are_without_keys() -> None:
    windows = sales().window_all(WINDOWS)
    assert results(windows.count()) == [3, 2]
    assert results(windows.max_by(lambda sale: sale.price)) == [SALES[0], SALES[3]]


def test_a_window_without_elements_has_no_sum() -> None:
    windows = sales().key_by(lambda sale: sale.shop).window(WINDOWS).evictor(CountEvictor.of(0))
    assert results(windows.count()) == [0, 0, 0, 0]
    assert results(windows.sum(lambda sale: sale.price)) == [None, None, None, None]
    assert results(windows.max_by(lambda sale: sale.price)) == [None, None, None, None]


def test_steps_of_a_keyed_stream_lose_the_keys() -> None:
    keyed = sales().key_by(lambda sale: sale.shop)
    assert results(keyed.map(lambda sale: sale.price)) == [5, 4, 2, 7, 1]
    assert results(keyed.filter(lambda sale: sale.price > 4)) == [SALES[0], SALES[3]]
    assert results(keyed.flat_map(lambda sale: [sale.shop] * (sale.price // 3))) == ["a", "b", "a", "a"]
    assert sorted(map(str, results(keyed.union(sales(), keyed)))) == sorted(map(str, SALES * 3))
