"""Each declared aggregate with allowed lateness on columns, whose late elements fire their windows again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import Element, Keyed, at, millis, run, told
from tests.columnar.planning import column_form
from windrow import DataStream
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.triggers import CountTrigger
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_spark.columnar.step_operator import python_results
from windrow_spark.columnar.windows import slices
from windrow_spark.columnar.windows.column_operator import Fired

# Any in this module: aggregates and results of every type.

Make = Callable[[], DeclaredAggregate[Any, Any, Any]]

UNORDERED: dict[str, Make] = {
    "count": agg.count,
    "count of numbers": lambda: agg.count(lambda e: e.number),
    "sum": lambda: agg.sum(lambda e: e.number),
    "mean": lambda: agg.mean(lambda e: e.number),
    "variance": lambda: agg.variance(lambda e: e.number),
    "var_samp": lambda: agg.var_samp(lambda e: e.number),
    "var_pop": lambda: agg.var_pop(lambda e: e.number),
    "stddev": lambda: agg.stddev(lambda e: e.number),
    "stddev_samp": lambda: agg.stddev_samp(lambda e: e.number),
    "stddev_pop": lambda: agg.stddev_pop(lambda e: e.number),
    "min": lambda: agg.min(lambda e: e.number),
    "max": lambda: agg.max(lambda e: e.number),
    "collect_set": lambda: agg.collect_set(lambda e: e.number),
    "count_distinct": lambda: agg.count_distinct(lambda e: e.number),
    "approx_count_distinct": lambda: agg.approx_count_distinct(lambda e: e.number),
    "approx_quantile": lambda: agg.approx_quantile(lambda e: e.number, 0.5),
    "approx_quantiles": lambda: agg.approx_quantiles(lambda e: e.number, [0.1, 0.9]),
    "nested": lambda: agg.combine(agg.combine(agg.approx_quantile(lambda e: e.number, 0.9)), agg.count()),
}
ORDERED: dict[str, Make] = {
    "first": lambda: agg.first(lambda e: e.number),
    "last": lambda: agg.last(lambda e: e.number, ignore_nulls=True),
    "collect_list": lambda: agg.collect_list(lambda e: e.number),
    "min_by": lambda: agg.min_by(lambda e: e.number, lambda e: e.text),
    "max_by": lambda: agg.max_by(lambda e: e.level, lambda e: e.number),
    "top_k": lambda: agg.top_k(2, lambda e: e.number, lambda e: e.at),
}
OF_VALUES: dict[str, Make] = {
    "count": agg.count,
    "first": agg.first,
    "first that is there": lambda: agg.first(ignore_nulls=True),
    "last": agg.last,
    "last that is there": lambda: agg.last(ignore_nulls=True),
    "collect_list": agg.collect_list,
    "min_by": lambda: agg.min_by(lambda number: number),
    "max_by": lambda: agg.max_by(lambda number: number),
    "top_k": lambda: agg.top_k(2, lambda number: number),
    "several": lambda: agg.combine(agg.count(), agg.collect_list(), agg.max_by(lambda n: n), agg.last()),
}
"""Without a selector they take the element, which is a number or None."""

INPUTS = [
    [at(5, number=3), at(6, number=None), at(300, "clock")],
    [at(7, number=5), at(8, number=None), at(9, "l", number=None), at(10, number=1)],
    [at(70, number=4)],
]
"""Behind the watermark at once: the windows of 5 and 6 have fired, those of 70 have had no elements so far."""


def windows_of(keyed: Keyed, name: str) -> Any:
    if name == "sessions":
        return keyed.window(EventTimeSessionWindows.with_gap(millis(10)))
    if name == "sliding":
        return keyed.window(SlidingEventTimeWindows.of(millis(60), millis(20)))
    return keyed.window(TumblingEventTimeWindows.of(millis(60)))


@pytest.mark.parametrize(
    ("name", "windows"),
    [(name, windows) for name in UNORDERED for windows in ("tumbling", "sliding", "sessions")]
    + [(name, "tumbling") for name in ORDERED],
)
def test_late_elements_are_added_to_what_columns_hold(name: str, windows: str) -> None:
    aggregate = {**UNORDERED, **ORDERED}[name]()

    def build(keyed: Keyed) -> DataStream[Any]:
        late = windows_of(keyed, windows).allowed_lateness(millis(1_000))
        found: DataStream[Any] = late.aggregate(agg.combine(agg.key(), agg.window_start(), aggregate))
        return found

    engine, (expected,), dropped = run(build, INPUTS, column_form)
    assert len(expected) > 5
    assert told(engine.results) == told(expected)
    assert dropped == 0


@pytest.mark.parametrize("aggregate", [agg.count, lambda: agg.collect_list(lambda e: e.number)], ids=["few", "many"])
def test_late_elements_of_windows_far_apart_find_none_of_what_lies_between(aggregate: Any) -> None:
    #  size 20, slide 10      5      100      205      300
    #  state                         |-|               |-|
    #  late, in one batch    |-|              |-|
    def build(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(SlidingEventTimeWindows.of(millis(20), millis(10))).allowed_lateness(millis(1_000))
        found: DataStream[Any] = windows.aggregate(agg.combine(agg.key(), agg.window_start(), aggregate()))
        return found

    engine, (expected,), _ = run(build, [[at(100), at(300, "clock")], [at(5), at(205)], []], column_form)
    assert told(engine.results) == told(expected)


def numbers(records: DataStream[Element]) -> DataStream[int | None]:
    return records.map(lambda e: e.number)


@pytest.mark.parametrize("name", OF_VALUES)
def test_late_elements_that_are_one_value_are_taken_themselves(name: str) -> None:
    def build(values: DataStream[int | None]) -> DataStream[Any]:
        windows = values.window_all(TumblingEventTimeWindows.of(millis(60))).allowed_lateness(millis(1_000))
        return windows.aggregate(OF_VALUES[name]())

    engine, (expected,), _ = run(build, INPUTS, column_form, way=numbers)
    assert list(map(repr, engine.results)) == list(map(repr, expected))
    if name == "collect_list":
        assert engine.results == [[3], [3, 5], [3, 5], [3, 5], [3, 5, 1], [4], [1]]


def test_the_tables_have_all_aggregates() -> None:
    functions = {name for name in agg.__all__ if name[0].islower()}
    others = {"key", "window_start", "window_end", "recognise", "combine", "into"}
    assert functions - others <= {*UNORDERED, *ORDERED}


def test_late_elements_copy_no_large_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        windowed = keyed.window(TumblingEventTimeWindows.of(millis(100))).allowed_lateness(millis(100_000))
        return windowed.aggregate(agg.count_distinct(lambda e: e.number))

    # It would copy all values of the window for each late element: gigabytes for some thousands.
    monkeypatch.delattr(slices, "fire_late")
    inputs = [[at(5, number=n) for n in range(1_500)], [at(500, "o")], [at(600, "o")]]
    engine, (wanted,), _ = run(build, [*inputs, [at(6, number=n) for n in range(1_000, 2_500)]], column_form)
    assert engine.results == wanted


def test_late_firings_are_made_one_by_one() -> None:
    """Each of them may hold a copy of all elements of its window."""
    made: list[int] = []

    def stamped() -> Iterator[tuple[int, int]]:
        for number in range(FIRINGS_AT_ONCE + 2):
            made.append(number)
            yield number, number

    portions = [[(result, len(made)) for result, _ in portion.stamped] for portion in python_results(stamped())]
    assert list(map(len, portions)) == [FIRINGS_AT_ONCE, 2]
    assert all(count == result + 1 for portion in portions for result, count in portion)


def test_firings_leave_in_portions_by_the_values_in_them() -> None:
    count = 6
    facts = np.arange(count)
    lists = pa.array([[1] * 5, [], [1, 1], None, [1], [1]])
    for results, sizes in (
        (lists, [1, 3, 2]),
        (pa.StructArray.from_arrays([lists, pa.array(range(count))], ["list", "number"]), [1, 1, 1, 2, 1]),
        (pa.array(range(count)), [4, 2]),
    ):
        fired = Fired(pa.array(["a"] * count), facts, facts, facts, results)
        portions = list(fired.portions(4))
        assert list(map(len, portions)) == sizes
        assert [start for portion in portions for start in portion.starts.tolist()] == list(range(count))


def test_a_firing_of_count_windows_copies_no_values_that_its_result_lacks() -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        windowed = keyed.window(TumblingEventTimeWindows.of(millis(100))).trigger(CountTrigger.of(1))
        return windowed.aggregate(agg.count_distinct(lambda e: e.number))

    with pytest.raises(DeclinedError, match="copy all values that its window holds"):
        run(build, [[at(5)]], column_form)
