"""Callables that are written in C: of the operator module, built-in ones, and those of numpy and Arrow."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.state import ValueStateDescriptor
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: functions of every type.


class Point(NamedTuple):
    x: int
    y: int


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


TEXTS = ["b,a", "a", "b,a"]
POINTS = [Point(1, 2), Point(3, 4), Point(1, 2)]

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Sequence[Any]]] = {
    "itemgetter": (operator.itemgetter("x"), [{"x": 1}, {"x": 0}, {"x": 1}]),
    "itemgetter of two": (operator.itemgetter(0, 1), POINTS),
    "attrgetter": (operator.attrgetter("x"), POINTS),
    "attrgetter of an object": (operator.attrgetter("name"), [Named("a"), Named(""), Named("a")]),
    "methodcaller": (operator.methodcaller("partition", ","), TEXTS),
    "neg": (operator.neg, [1, 0, 1]),
    "len": (len, TEXTS),
    "abs": (abs, [-1, 0, -1]),
    "str.upper": (str.upper, TEXTS),
    "bound join": (",".join, TEXTS),
    "bound get": ({1: "one"}.get, [1, 2, 1]),
    "math.floor": (math.floor, [1.5, 0.5, 1.5]),
    "int": (int, ["1", "0", "1"]),
    "str": (str, [1, 2, 1]),
    "bool": (bool, [1, 0, 1]),
    "tuple": (tuple, [[1], [], [1]]),
    "fromisoformat": (datetime.fromisoformat, ["2026-01-31", "2026-02-01", "2026-01-31"]),
    "partial": (partial(pow, 2), [1, 2, 1]),
    "partial of a type": (partial(int, base=2), ["11", "0", "11"]),
    "partial of a method": (partial(re.compile("b").sub, "c"), TEXTS),
    "numpy ufunc": (np.sqrt, [1.0, 0.0, 1.0]),
    "numpy type": (np.float32, [1.5, 0.0, 1.5]),
    "numpy function": (np.sum, [[1, 2], [0], [1, 2]]),
    "arrow scalar": (pa.scalar, [1, 0, 1]),
    "arrow function": (pc.utf8_upper, ["a", "b", "a"]),
}

SELECTORS = ("itemgetter", "itemgetter of two", "attrgetter", "len", "math.floor", "int", "partial", "numpy ufunc")
"""Those that are given to filter and to key_by as well."""


class Counting(KeyedProcessFunction[Any, Any, int]):
    """Numbers the elements of each key."""

    COUNT = ValueStateDescriptor("count", int)

    def process_element(self, value: Any, context: KeyedProcessContext[Any]) -> Iterator[int]:
        count = context.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        yield count.value() or 0


def is_of(name: str, named: tuple[str, Any]) -> bool:
    return named[0] == name


def streams() -> Iterator[tuple[str, DataStream[Any], list[Any]]]:
    """Yields streams with a callable in each place of a plan, and what they give."""
    # One source for all, as each source costs Spark a scan.
    tables = [(name, each) for name, (_, elements) in FUNCTIONS.items() for each in elements]
    tables += [*(("points", each) for each in POINTS), *(("numbers", each) for each in (1, 2, 3)), ("word", "ab")]
    source = from_collection(tables)
    elements_of = {name: source.filter(partial(is_of, name)).map(operator.itemgetter(1)) for name, _ in tables}
    for name, (function, elements) in FUNCTIONS.items():
        stream = elements_of[name]
        results = [function(each) for each in elements]
        assert results[0] == results[2] != results[1], "the table has keys that differ"
        yield f"map {name}", stream.map(function).map(repr), list(map(repr, results))
        if name in SELECTORS:
            kept = [each for each in elements if function(each)]
            yield f"filter {name}", stream.filter(function).map(repr), list(map(repr, kept))
            yield f"key_by {name}", stream.key_by(function).process(Counting()), [1, 1, 2]
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    points = elements_of["points"]
    stamped = points.assign_timestamps_and_watermarks(strategy, timestamp=operator.attrgetter("x"))
    keyed = stamped.key_by(operator.itemgetter(1))
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=1)))
    numbers = elements_of["numbers"].key_by(bool)
    yield "selectors", windows.aggregate(agg.sum(operator.attrgetter("x"))), [2, 3]
    yield "reduce", numbers.reduce(operator.add), [1, 3, 6]
    yield "reduce of windows", numbers.count_window(3).reduce(max), [3]
    yield "rolling", numbers.sum(float), [(True, 1.0), (True, 3.0), (True, 6.0)]
    yield "flat_map", elements_of["word"].flat_map(list), ["a", "b"]


def test_callables_of_c_on_both_engines(spark: SparkSession) -> None:
    wanted: dict[str, list[Any]] = {}
    sinks: dict[str, CollectSink[Any]] = {}
    ends = []
    for place, stream, results in streams():
        wanted[place], sinks[place] = results, CollectSink()
        ends.append(stream.sink_to(sinks[place]))
    pipeline = Pipeline("callables", *ends, allow_pickled_state=True)
    for run in (LocalRunner().run, SparkRunner(spark).run_batch):
        result = run(pipeline)
        assert {place: sorted(result.collected(sink)) for place, sink in sinks.items()} == {
            place: sorted(results) for place, results in wanted.items()
        }
