"""The declared aggregates as calls of windows, and steps of keyed streams that lose the keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tests.operators.stories import collected
from windrow import DataStream, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.evictors import CountEvictor
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows


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


def test_calls_of_windows_are_the_declared_aggregates() -> None:
    windows = sales().key_by(lambda sale: sale.shop).window(WINDOWS)
    assert collected(windows.count()) == [2, 1, 1, 1]
    assert collected(windows.sum(lambda sale: sale.price)) == [7, 4, 7, 1]
    assert collected(windows.min(lambda sale: sale.price)) == [2, 4, 7, 1]
    assert collected(windows.max(lambda sale: sale.price)) == [5, 4, 7, 1]
    assert collected(windows.min_by(lambda sale: sale.price)) == [SALES[2], SALES[1], SALES[3], SALES[4]]
    assert collected(windows.max_by(lambda sale: sale.price)) == [SALES[0], SALES[1], SALES[3], SALES[4]]
    told = windows.sum(lambda sale: sale.price).node.describe()
    assert told == windows.aggregate(agg.sum(lambda sale: sale.price)).node.describe()


def test_the_key_is_given_where_it_is_asked_for() -> None:
    windows = sales().key_by(lambda sale: sale.shop).window(WINDOWS)
    assert collected(windows.count(with_key=True)) == [("a", 2), ("b", 1), ("a", 1), ("b", 1)]
    assert collected(windows.sum(lambda sale: sale.price, with_key=True)) == [("a", 7), ("b", 4), ("a", 7), ("b", 1)]
    assert collected(windows.min(lambda sale: sale.price, with_key=True)) == [("a", 2), ("b", 4), ("a", 7), ("b", 1)]
    assert collected(windows.max(lambda sale: sale.price, with_key=True)) == [("a", 5), ("b", 4), ("a", 7), ("b", 1)]
    described = windows.sum(lambda sale: sale.price, with_key=True).node.describe()
    pairs = windows.aggregate(agg.combine(agg.key(), agg.sum(lambda sale: sale.price)))
    assert described == pairs.node.describe()
    empty: list[tuple[str, int | None]] = collected(
        windows.evictor(CountEvictor.of(0)).sum(lambda sale: sale.price, with_key=True)
    )
    assert empty == [("a", None), ("b", None), ("a", None), ("b", None)]


def test_so_they_are_without_keys() -> None:
    windows = sales().window_all(WINDOWS)
    assert collected(windows.count()) == [3, 2]
    assert collected(windows.max_by(lambda sale: sale.price)) == [SALES[0], SALES[3]]


def test_a_window_without_elements_has_no_sum() -> None:
    windows = sales().key_by(lambda sale: sale.shop).window(WINDOWS).evictor(CountEvictor.of(0))
    assert collected(windows.count()) == [0, 0, 0, 0]
    assert collected(windows.sum(lambda sale: sale.price)) == [None, None, None, None]
    assert collected(windows.max_by(lambda sale: sale.price)) == [None, None, None, None]


def test_steps_of_a_keyed_stream_lose_the_keys() -> None:
    keyed = sales().key_by(lambda sale: sale.shop)
    assert collected(keyed.map(lambda sale: sale.price)) == [5, 4, 2, 7, 1]
    assert collected(keyed.filter(lambda sale: sale.price > 4)) == [SALES[0], SALES[3]]
    assert collected(keyed.flat_map(lambda sale: [sale.shop] * (sale.price // 3))) == ["a", "b", "a", "a"]
    assert sorted(map(str, collected(keyed.union(sales(), keyed)))) == sorted(map(str, SALES * 3))
