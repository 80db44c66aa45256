"""Each declared aggregate with allowed lateness on columns, whose late elements fire their windows again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import Element, at, millis, run, told
from tests.columnar.planning import column_form
from tests.columnar.rows import OF_ONE, ORDERED
from tests.columnar.window_steps import sessions, sliding, step, tumbling
from windrow import DataStream
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_spark.columnar.step_operator import python_results
from windrow_spark.columnar.windows import slices
from windrow_spark.columnar.windows.column_operator import Fired

# Any in this module: aggregates and results of every type.

Make = Callable[[], DeclaredAggregate[Any, Any, Any]]

OF_NUMBERS: dict[str, DeclaredAggregate[Any, Any, Any]] = {
    **{name: make(lambda e: e.number) for name, make in OF_ONE.items()},
    "count of elements": agg.count(),
    "last": agg.last(lambda e: e.number, ignore_nulls=True),
    "min_by": agg.min_by(lambda e: e.number, lambda e: e.text),
    "max_by": agg.max_by(lambda e: e.level, lambda e: e.number),
    "top_k": agg.top_k(2, lambda e: e.number, lambda e: e.at),
    "nested": agg.combine(agg.combine(agg.approx_quantile(lambda e: e.number, 0.9)), agg.count()),
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


ASSIGNERS = {"tumbling": tumbling(60), "sliding": sliding(60, 20), "sessions": sessions(10)}


@pytest.mark.parametrize(
    ("name", "windows"),
    [(name, each) for name in OF_NUMBERS for each in (["tumbling"] if name in ORDERED else ASSIGNERS)],
)
def test_late_elements_are_added_to_what_columns_hold(name: str, windows: str) -> None:
    function: Any = agg.combine(agg.key(), agg.window_start(), OF_NUMBERS[name])
    engine, (expected,), dropped = run(step(ASSIGNERS[windows], function, lateness=1_000), INPUTS, column_form)
    assert len(expected) > 5
    assert told(engine.results) == told(expected)
    assert dropped == 0


@pytest.mark.parametrize("aggregate", [agg.count(), agg.collect_list(lambda e: e.number)], ids=["few", "many"])
def test_late_elements_of_windows_far_apart_find_none_of_what_lies_between(aggregate: Any) -> None:
    #  size 20, slide 10      5      100      205      300
    #  state                         |-|               |-|
    #  late, in one batch    |-|              |-|
    build = step(sliding(20, 10), agg.combine(agg.key(), agg.window_start(), aggregate), lateness=1_000)
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


def test_late_elements_copy_no_large_state(monkeypatch: pytest.MonkeyPatch) -> None:
    build = step(tumbling(100), agg.count_distinct(lambda e: e.number), lateness=100_000)
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
