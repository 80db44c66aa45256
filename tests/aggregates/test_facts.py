"""Key and window in the results of aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.dsl.plans import in_time, plan, refusal
from tests.support.records import Reading
from windrow import aggregates as agg
from windrow.errors import UnsupportedOperationError
from windrow.functions import ProcessWindowFunction
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows


@dataclass(frozen=True)
class Low:
    sensor: str
    start: int
    celsius: float | None


READINGS = [Reading("a", 1_000, 3.0), Reading("b", 2_000, 5.0), Reading("a", 4_000, 1.0), Reading("a", 7_000, 2.0)]


def celsius(reading: Reading) -> float:
    return reading.celsius


FIVE = TumblingEventTimeWindows.of(timedelta(seconds=5))
LOWS = agg.into(Low, sensor=agg.key(), start=agg.window_start(), celsius=agg.min(celsius))
readings = in_time(READINGS, lambda r: r.at)
keyed = readings.key_by(lambda r: r.sensor)


def test_the_key_and_the_window_stand_in_the_record() -> None:
    #  time    0        5        10
    #  a       |-3--1---|--2-----|
    #  b       |--5-----|
    # The selector is inferred beside what knows no element.
    lows = keyed.window(FIVE).aggregate(
        agg.into(Low, sensor=agg.key(), start=agg.window_start(), celsius=agg.min(lambda r: r.celsius))
    )
    assert lows.collect() == [Low("a", 0, 1.0), Low("b", 0, 5.0), Low("a", 5_000, 2.0)]


def test_sessions_have_an_end() -> None:
    sessions = keyed.window(EventTimeSessionWindows.with_gap(timedelta(seconds=3)))
    stream = sessions.aggregate(agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.count()))
    # a: 1 and 4 touch, and so do 4 and 7.
    assert stream.collect() == [("b", 2_000, 5_000, 1), ("a", 1_000, 10_000, 3)]


def test_a_fact_stands_alone_and_without_keys() -> None:
    assert keyed.window(FIVE).aggregate(agg.window_end()).collect() == [5_000, 5_000, 10_000]
    stream = readings.window_all(FIVE).aggregate(agg.combine(agg.key(), agg.window_start()))
    assert stream.collect() == [(None, 0), (None, 5_000)]


def test_the_plan_shows_what_was_written() -> None:
    text = plan(keyed.window(FIVE).aggregate(LOWS)).explain()
    assert "aggregate into(Low, sensor=key(), start=window_start(), celsius=min(.celsius))" in text
    assert ": Low" in text


class Twice(ProcessWindowFunction[Low, Low, str, object]):  # type: ignore[type-var]  # never called
    def process(self, key, context, elements):  # type: ignore[no-untyped-def]
        return elements


@pytest.mark.parametrize(
    ("aggregate", "behind", "told"),
    [(agg.combine(agg.combine(agg.key())), None, "directly in the outer one"), (LOWS, Twice(), "one or the other")],
)
def test_where_facts_cannot_stand(aggregate: object, behind: object, told: str) -> None:
    windowed: Any = keyed.window(FIVE)  # arguments of many types
    assert told in str(refusal(lambda: windowed.aggregate(aggregate, behind)))


def test_the_window_of_all_time_has_no_start() -> None:
    error = refusal(lambda: keyed.window(GlobalWindows.create()).aggregate(LOWS))
    assert "no start and no end" in str(error)


def test_a_fact_is_no_aggregate_outside_windows() -> None:
    fact: agg.DeclaredAggregate[Reading, None, int] = agg.window_start()
    with pytest.raises(UnsupportedOperationError, match="known where a window fires"):
        fact.get_result(None)
