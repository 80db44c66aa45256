"""Unions of streams whose elements are of different types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Click:
    page: str
    at: int


@dataclass(frozen=True)
class Order:
    page: str
    at: int
    cents: int


def by_kind(page: str, window: TimeWindow, events: Sequence[Click | Order]) -> list[str]:
    kinds = sorted(type(event).__name__ for event in events)
    return [f"{page} {window.start}: {', '.join(kinds)}"]


# clicks      1        4    |   6
# orders           3        |        8
def windows_of_both(run: Callable[[Pipeline], PipelineResult]) -> list[str]:
    clicks = from_source(CollectionSource([Click("a", 1), Click("a", 4), Click("a", 6)], Click))
    orders = from_source(CollectionSource([Order("a", 3, 5), Order("a", 8, 7)], Order))
    both = clicks.union(orders).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=10)), timestamp=lambda event: event.at
    )
    windows = both.key_by(lambda event: event.page).window(TumblingEventTimeWindows.of(timedelta(milliseconds=5)))
    sink, plain = CollectSink[str](), CollectSink[Click | Order]()
    result = run(Pipeline("both", windows.apply(by_kind).sink_to(sink), both.sink_to(plain)))
    assert len(result.collected(plain)) == 5
    return sorted(result.collected(sink))


EXPECTED = ["a 0: Click, Click, Order", "a 5: Click, Order"]


def test_windows_hold_elements_of_both_types() -> None:
    assert windows_of_both(LocalRunner().run) == EXPECTED


@pytest.mark.spark
def test_so_they_do_on_spark(spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    assert windows_of_both(SparkRunner(spark).run_batch) == EXPECTED


def test_the_plan_knows_the_types() -> None:
    numbers, texts, flags = from_collection([], int), from_collection([], str), from_collection([], bool)
    assert numbers.union(texts).element_type == int | str
    assert numbers.union(flags, texts, numbers).element_type == int | str
    assert numbers.union(texts.map(lambda text: text)).element_type == int | str
    unknown = texts.map(lambda text: [each.upper() for each in text][-1])
    assert numbers.union(unknown).element_type is None
