"""Key and window in the results of aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import pytest

from tests.support.records import Reading
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.functions import ProcessWindowFunction
from windrow.sinks import CollectSink
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

T = TypeVar("T")


@dataclass(frozen=True)
class Low:
    sensor: str
    start: int
    celsius: float | None


READINGS = [Reading("a", 1_000, 3.0), Reading("b", 2_000, 5.0), Reading("a", 4_000, 1.0), Reading("a", 7_000, 2.0)]


def lows(stream: KeyedStream[Reading, str]) -> DataStream[Low]:
    # The selector is inferred beside what knows no element.
    return stream.window(FIVE).aggregate(
        agg.into(Low, sensor=agg.key(), start=agg.window_start(), celsius=agg.min(lambda r: r.celsius))
    )


def celsius(reading: Reading) -> float:
    return reading.celsius


FIVE = TumblingEventTimeWindows.of(timedelta(seconds=5))
LOWS = agg.into(Low, sensor=agg.key(), start=agg.window_start(), celsius=agg.min(celsius))


def readings() -> DataStream[Reading]:
    return from_collection(READINGS, Reading).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at
    )


def keyed() -> KeyedStream[Reading, str]:
    return readings().key_by(lambda r: r.sensor)


def run(stream: DataStream[T]) -> list[T]:
    sink = CollectSink[T]()
    return LocalRunner().run(Pipeline("facts", stream.sink_to(sink))).collected(sink)


def test_the_key_and_the_window_stand_in_the_record() -> None:
    #  time    0        5        10
    #  a       |-3--1---|--2-----|
    #  b       |--5-----|
    assert run(lows(keyed())) == [Low("a", 0, 1.0), Low("b", 0, 5.0), Low("a", 5_000, 2.0)]


def test_sessions_have_an_end() -> None:
    stream = (
        keyed()
        .window(EventTimeSessionWindows.with_gap(timedelta(seconds=3)))
        .aggregate(agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.count()))
    )
    # a: 1 and 4 touch, and so do 4 and 7.
    assert run(stream) == [("b", 2_000, 5_000, 1), ("a", 1_000, 10_000, 3)]


def test_a_fact_stands_alone_and_without_keys() -> None:
    windows = TumblingEventTimeWindows.of(timedelta(seconds=5))
    assert run(keyed().window(windows).aggregate(agg.window_end())) == [5_000, 5_000, 10_000]
    stream = readings().window_all(windows).aggregate(agg.combine(agg.key(), agg.window_start()))
    assert run(stream) == [(None, 0), (None, 5_000)]


def test_the_plan_shows_what_was_written() -> None:
    stream = keyed().window(TumblingEventTimeWindows.of(timedelta(seconds=5))).aggregate(LOWS)
    plan = Pipeline("facts", stream.sink_to(CollectSink())).explain()
    assert "aggregate into(Low, sensor=key(), start=window_start(), celsius=min(.celsius))" in plan
    assert ": Low" in plan


class Twice(ProcessWindowFunction[Low, Low, str, object]):  # type: ignore[type-var]  # never called
    def process(self, key, context, elements):  # type: ignore[no-untyped-def]
        return elements


@pytest.mark.parametrize(
    ("aggregate", "behind", "told"),
    [(agg.combine(agg.combine(agg.key())), None, "directly in the outer one"), (LOWS, Twice(), "one or the other")],
)
def test_where_facts_cannot_stand(aggregate: object, behind: object, told: str) -> None:
    windowed = keyed().window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
    with pytest.raises(InvalidArgumentError, match=told):
        windowed.aggregate(aggregate, behind)  # type: ignore[call-overload]  # of many types


def test_the_window_of_all_time_has_no_start() -> None:
    with pytest.raises(InvalidArgumentError, match="no start and no end"):
        keyed().window(GlobalWindows.create()).aggregate(LOWS)


def test_a_fact_is_no_aggregate_outside_windows() -> None:
    fact: agg.DeclaredAggregate[Reading, None, int] = agg.window_start()
    with pytest.raises(UnsupportedOperationError, match="known where a window fires"):
        fact.get_result(None)
