from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import pytest

from windrow import Pipeline, from_collection
from windrow.errors import UnsupportedOperationError
from windrow.sinks import CollectSink, ConsoleSink
from windrow_tools.pytest_plugin.comparison import compare_engines, difference_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([], []),
        ([1, 2, 2], [2, 1, 2]),
        ([{"a": [1]}, {"b": [2]}], [{"b": [2]}, {"a": [1]}]),  # neither hash nor order
        ([{"a": 1, "b": 2}, {"c": 3}], [{"c": 3}, {"b": 2, "a": 1}]),  # equal, and shown in another way
        ([float("nan")], [float("nan")]),
    ],
)
def test_equal_elements_in_another_order_differ_in_nothing(expected: list[object], actual: list[object]) -> None:
    assert difference_of(expected, actual, in_order=False) == ""


@pytest.mark.parametrize(
    ("expected", "actual", "in_order", "text"),
    [
        ([1], [], False, "  only the interpreter: 1\n"),
        ([], [1], False, "  only Spark: 1\n"),
        ([1, 1], [1], False, "  only the interpreter: 1\n"),
        ([1], [True], False, "  only the interpreter: 1\n  only Spark: True\n"),
        ([1], [1.0], False, "  only the interpreter: 1\n  only Spark: 1.0\n"),
        ([1, 2], [2, 1], True, "  element 0 on the interpreter: 1\n  element 0 on Spark: 2"),
        ([1, 2], [1], True, "  only the interpreter: 2\n"),
        ([1], [1, 2], True, "  only Spark: 2\n"),
    ],
)
def test_what_one_side_alone_has_is_named(
    expected: list[object], actual: list[object], in_order: bool, text: str
) -> None:
    assert difference_of(expected, actual, in_order=in_order) == text


def test_many_differences_are_counted() -> None:
    lines = difference_of(list(range(25)), [], in_order=False).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "  and 15 more"


def test_a_sink_that_would_be_written_twice_is_refused() -> None:
    numbers = from_collection([1])
    pipeline = Pipeline("p", numbers.sink_to(CollectSink[int]()), numbers.sink_to(ConsoleSink()))
    no_session = cast("SparkSession", None)  # it is refused before anything runs
    with pytest.raises(UnsupportedOperationError, match="a pipeline that writes to console"):
        compare_engines(pipeline, no_session, in_order=False, drain=True)


def test_engines_that_agree_and_engines_that_do_not(spark: SparkSession) -> None:
    numbers = from_collection([3, 1, 2])
    assert compare_engines(numbers.map(lambda number: number * 2), spark, in_order=False, drain=True) == ""
    assert compare_engines(numbers, spark, in_order=True, drain=True) == ""

    # Another process has another number.
    def process_of(number: int) -> tuple[int, int]:
        return number, os.getpid()

    sinks: list[CollectSink[Any]] = [CollectSink("same"), CollectSink("processes")]
    pipeline = Pipeline("p", numbers.sink_to(sinks[0]), numbers.map(process_of).sink_to(sinks[1]))
    differences = compare_engines(pipeline, spark, in_order=False, drain=True)
    assert differences.count("only the interpreter") == 3
    assert differences.count("only Spark") == 3
    assert f"only the interpreter: (3, {os.getpid()})" in differences
    assert "p.2.sink:" not in differences  # the sinks that agree are not named
