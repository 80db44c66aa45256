"""Columnar steps against the general operator: random elements in batches, small chunks, batches that run twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.budget import seeded
from tests.columnar.engine import FEW, LATE, MANY, Element, Keyed, at, batches, by_key, millis, run, told
from tests.columnar.planning import column_form
from tests.working_sets import small_working_sets
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import AggregateOverflowError, UnsupportedOperationError
from windrow.triggers import EndOfStreamTrigger
from windrow.windows import EventTimeSessionWindows, GlobalWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_spark.storage.tuning import ROW_PAGES, ChunkTuning, StateTuning

# Any in this module: results of every type, and pyarrow has no types.

PLANS: dict[str, Callable[[Keyed], DataStream[Any]]] = {}


def plan(build: Callable[[Keyed], DataStream[Any]]) -> Callable[[Keyed], DataStream[Any]]:
    PLANS[build.__name__] = build
    return build


def some() -> Any:
    """Aggregates of all kinds, beside the key and the window."""
    return agg.combine(
        agg.key(),
        agg.window_start(),
        agg.count(),
        agg.sum(lambda e: e.number),
        agg.mean(lambda e: e.level),
        agg.max(lambda e: e.text),
        agg.first(lambda e: e.number),
        agg.collect_list(lambda e: e.number),
    )


def unordered() -> Any:
    """Some that do not ask for the order of elements."""
    return agg.combine(
        agg.key(),
        agg.window_end(),
        agg.count(lambda e: e.number),
        agg.sum(lambda e: e.number),
        agg.mean(lambda e: e.number),
        agg.stddev(lambda e: e.level),
        agg.min(lambda e: e.level),
        agg.combine(agg.count_distinct(lambda e: e.text), agg.collect_set(lambda e: e.text)),
    )


def unordered_of_all_time() -> Any:
    return agg.combine(agg.key(), agg.count(), agg.sum(lambda e: e.number))


def of_elements() -> Any:
    """Some that take the element itself."""
    return agg.combine(
        agg.key(),
        agg.window_start(),
        agg.first(),
        agg.last(lambda e: e),
        agg.collect_list(),
        agg.min_by(lambda e: e.level),
        agg.max_by(lambda e: e.number),
        agg.top_k(3, lambda e: e.level),
    )


@plan
def tumbling(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(TumblingEventTimeWindows.of(millis(100), millis(-7))).aggregate(some())


@plan
def tumbling_with_lateness(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(TumblingEventTimeWindows.of(millis(60))).allowed_lateness(millis(50))
    return windows.aggregate(some())


@plan
def lateness_and_late_output(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(TumblingEventTimeWindows.of(millis(60))).allowed_lateness(millis(30))
    return windows.side_output_late_data(LATE).aggregate(some())


@plan
def late_output(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(TumblingEventTimeWindows.of(millis(30))).side_output_late_data(LATE)
    return windows.aggregate(some())


@plan
def elements(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(TumblingEventTimeWindows.of(millis(100))).aggregate(of_elements())


@plan
def elements_with_lateness_and_late_output(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(TumblingEventTimeWindows.of(millis(60))).allowed_lateness(millis(30))
    return windows.side_output_late_data(LATE).aggregate(of_elements())


@plan
def for_ever(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(TumblingEventTimeWindows.of(millis(200))).allowed_lateness(timedelta.max)
    return windows.aggregate(some())


@plan
def sliding(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30), millis(4))).aggregate(unordered())


@plan
def sliding_unevenly(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(SlidingEventTimeWindows.of(millis(50), millis(20))).allowed_lateness(millis(15))
    return windows.side_output_late_data(LATE).aggregate(unordered())


@plan
def sliding_by_an_odd_time(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(SlidingEventTimeWindows.of(millis(60), millis(17), millis(-5))).aggregate(unordered())


@plan
def elements_in_windows_that_slide(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30))).aggregate(of_elements())


@plan
def sliding_in_order_with_lateness_and_late_output(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(SlidingEventTimeWindows.of(millis(50), millis(20))).allowed_lateness(millis(15))
    return windows.side_output_late_data(LATE).aggregate(some())


@plan
def sliding_in_order_by_an_odd_time(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(SlidingEventTimeWindows.of(millis(60), millis(17), millis(-5))).aggregate(some())


@plan
def sessions(keyed: Keyed) -> DataStream[Any]:
    return keyed.window(EventTimeSessionWindows.with_gap(millis(12))).aggregate(unordered())


@plan
def sessions_with_late_output(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(EventTimeSessionWindows.with_gap(millis(4))).side_output_late_data(LATE)
    return windows.aggregate(unordered())


@plan
def sessions_with_lateness(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(EventTimeSessionWindows.with_gap(millis(9))).allowed_lateness(millis(50))
    return windows.aggregate(unordered())


@plan
def sessions_with_lateness_and_late_output(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(EventTimeSessionWindows.with_gap(millis(4))).allowed_lateness(millis(25))
    return windows.side_output_late_data(LATE).aggregate(unordered())


@plan
def sessions_for_ever(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(EventTimeSessionWindows.with_gap(millis(4))).allowed_lateness(timedelta.max)
    return windows.aggregate(unordered())


@plan
def all_time(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(GlobalWindows.create()).trigger(EndOfStreamTrigger.create())
    return windows.aggregate(unordered_of_all_time())


TINY = StateTuning(
    row_chunks=ChunkTuning(
        tail_bytes=1500, fanout=3, fired_bytes=3_000, held_bytes=5_000, merged_rows=200, least_shared_slices=16
    ),
    row_pages=replace(
        ROW_PAGES,
        small=500,
        dense=2500,
        split_budget_when_due=2500,
        inline_bytes=2500,
        hot_keys=small_working_sets(2_000),
    ),
)
"""Chunks of some rows, of which some are read at a time, and windows that are merged some at a time."""


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    late = "late_output" in name or name == "sliding_unevenly"
    inputs = [*batches(random.Random(seed), MANY if name == "for_ever" else FEW), []]
    engine, wanted, dropped = run(PLANS[name], inputs, column_form, crash_at=seed, late=late, tuning=TINY)
    assert len(wanted[0]) > (20 if name == "all_time" else 100)
    assert by_key(engine.results) == by_key(wanted[0])
    if name.startswith("elements"):
        assert told(engine.results) == told(wanted[0])
    if late:
        assert len(wanted[1]) > 5
        assert told(engine.late) == told(wanted[1])
    assert engine.counted["late_records_dropped"] == dropped
    if name not in {"for_ever", "sessions_for_ever", "all_time"}:
        assert set(engine.records.values()) == {None}


@pytest.mark.parametrize("aggregates", [unordered, of_elements])
@pytest.mark.parametrize("lateness", [0, 25])
def test_windows_of_many_slices(lateness: int, aggregates: Callable[[], Any]) -> None:
    """Windows that follow each other take what they have in common."""

    def many(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(SlidingEventTimeWindows.of(millis(200), millis(6)))
        return windows.allowed_lateness(millis(lateness)).aggregate(aggregates())

    inputs = [batch[::8] for batch in batches(random.Random(4), MANY)]
    engine, (wanted,), dropped = run(many, inputs, column_form, crash_at=2, tuning=TINY)
    assert len(wanted) > 2_000
    assert by_key(engine.results) == by_key(wanted)
    assert engine.counted["late_records_dropped"] == dropped
    assert set(engine.records.values()) == {None}


YEAR = 365 * 24 * 3_600_000
CASES: dict[str, list[list[Element]]] = {
    "empty batches": [[], [at(5)], [], []],
    "a batch that is all late": [[at(1_000)], [at(1_000)], [at(3), at(4)], [at(5)]],
    "one hot key": [[at(moment) for moment in range(0, 3_000, 2)], [at(moment) for moment in range(3_000, 4_000)]],
    "years apart": [[at(-40 * YEAR), at(0), at(1)], [at(3 * YEAR), at(1)], [at(80 * YEAR)]],
    "years apart in one batch": [[at(number * YEAR, str(number % 7)) for number in range(50)]],
    "sums of 64 bits": [[at(1, number=2**62), at(2, number=2**62 - 1), at(3, number=-(2**63))]],
    "nothing but None": [[at(1, number=None), at(2, number=None)]],
}


@pytest.mark.parametrize(
    "name", ["tumbling", "lateness_and_late_output", "sliding", "sessions", "sessions_with_lateness"]
)
@pytest.mark.parametrize("case", CASES)
def test_bad_input_gives_what_the_general_operator_gives(case: str, name: str) -> None:
    engine, (expected,), _ = run(PLANS[name], CASES[case], column_form)
    assert expected
    assert by_key(engine.results) == by_key(expected)
    assert set(engine.records.values()) == {None}


@pytest.mark.parametrize("name", ["tumbling", "sliding", "sessions"])
def test_a_sum_beyond_64_bits_is_an_error_that_names_the_step(name: str) -> None:
    with pytest.raises(AggregateOverflowError, match=r"does not fit into 64 bits") as caught:
        run(PLANS[name], [[at(1, number=2**62), at(2, number=2**62)]], column_form, alone=True)
    assert caught.value.where is not None
    assert "test_steps.py:" in str(caught.value.where)


def test_timestamps_beyond_the_reach_of_columns_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"too far away for columns(.|\n)*give timestamps in millisec"):
        run(tumbling, [[at(2**62)]], column_form, alone=True)
