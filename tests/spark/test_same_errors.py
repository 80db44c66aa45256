"""Faults of a run that both engines tell in the same words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from tests.budget import for_a_night
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.evictors import Evictor
from windrow.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from windrow.sinks import CollectSink, FunctionSink, JsonFileSink, ParquetFileSink, Sink
from windrow.sources import JsonFileSource
from windrow.triggers import ComposableTrigger, CountTrigger, DeltaTrigger, repeatedly
from windrow.windows import GlobalWindows
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.spark import SparkRunner
from windrow_spark.exchange.packer import Packer
from windrow_spark.exchange.rows import Phase
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.level import Collector, KeyedStep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: functions that do what their types forbid.


@dataclass
class Row:
    a: int
    b: str


class BadOpen(MapFunction[int, int]):
    def open(self, context: RuntimeContext) -> None:
        raise OSError("no connection")

    def map(self, value: int) -> int:
        return value


class BadProcess(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: Any, context: Any) -> Any:
        raise ValueError(f"no {value}")


class BadEvictor(Evictor[int, Any]):
    def evict_before(self, elements: Any, size: int, window: Any, context: Any) -> list[int]:
        return [size]

    def evict_after(self, elements: Any, size: int, window: Any, context: Any) -> list[int]:
        return []


class Undecided(ComposableTrigger[int, Any]):
    def is_ready(self, window: Any, context: Any) -> Any:
        return pd.NA

    def on_fire(self, window: Any, context: Any) -> bool:
        return False


def unfit(number: int) -> Row:
    wrong: Any = "x"
    return Row(wrong, "y")


def first(a: Any, b: Any) -> Any:
    return a


Make = Callable[[DataStream[int]], DataStream[Any]]
BY_EVENT_TIME = WatermarkStrategy[int].for_monotonous_timestamps()

STREAMS: dict[str, Make] = {
    "a list as key": lambda numbers: numbers.key_by(lambda n: sorted([n], key=abs)).reduce(first),  # type: ignore[type-var]
    "a list in a key": lambda numbers: (
        numbers.key_by(lambda n: (n, sorted([n], key=abs))).count_window(2).reduce(first)
    ),
    "a record without a hash": lambda numbers: numbers.key_by(lambda n: max([Row(n, "")], key=str)).reduce(first),
    "a selector that raises": lambda numbers: numbers.key_by(lambda n: 1 // (n - 2)).reduce(first),
    "a map that raises": lambda numbers: numbers.map(lambda n: 1 // (n - 2)),
    "a flat map that gives no sequence": lambda numbers: numbers.flat_map(lambda n: n),  # type: ignore[arg-type, return-value]
    "a flat map that gives a text": lambda numbers: numbers.flat_map(lambda n: f"{n}b"),
    "windows that give a text": lambda numbers: (
        numbers.key_by(lambda n: 0).count_window(2).apply(lambda key, window, found: f"{key}b")
    ),
    "a map that exits": lambda numbers: numbers.map(sys.exit),
    "open": lambda numbers: numbers.map(BadOpen()),
    "a reduce that raises": lambda numbers: numbers.key_by(lambda n: 0).reduce(lambda a, b: a // 0),
    "a process function": lambda numbers: numbers.key_by(lambda n: 0).process(BadProcess()),
    "an element without a timestamp": lambda numbers: numbers.assign_timestamps_and_watermarks(
        BY_EVENT_TIME,
        timestamp=lambda n: n if n < 2 else None,  # type: ignore[arg-type, return-value]
    ),
    "a timestamp that is none": lambda numbers: numbers.assign_timestamps_and_watermarks(
        BY_EVENT_TIME,
        timestamp=lambda n: "noon",  # type: ignore[arg-type, return-value]
    ),
    "a map that gives a generator": lambda numbers: numbers.map(lambda n: n if n < 2 else (each for each in [n])),
    "a key that is read later": lambda numbers: numbers.key_by(lambda n: map(abs, [n])).reduce(first),
    "a reduce that gives a generator": lambda numbers: (
        numbers.key_by(lambda n: 0).count_window(2).reduce(lambda a, b: (each for each in [a]))  # type: ignore[arg-type, return-value]
    ),
    "a filter by a missing value": lambda numbers: numbers.filter(lambda n: pd.NA if n > 1 else True),
    "a filter by an array": lambda numbers: numbers.filter(lambda n: np.array([n])),  # type: ignore[arg-type, return-value]
    "a condition of a trigger": lambda numbers: (
        numbers.key_by(lambda n: 0).window(GlobalWindows.create()).trigger(repeatedly(Undecided())).reduce(first)
    ),
    "a distance": lambda numbers: (
        numbers.key_by(lambda n: 0)
        .window(GlobalWindows.create())
        .trigger(DeltaTrigger.of(1.0, lambda a, b: pd.NA))
        .reduce(first)
    ),
    "positions of an evictor": lambda numbers: (
        numbers.key_by(lambda n: 0)
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(2))
        .evictor(BadEvictor())
        .reduce(first)
    ),
}


# One of each place that raises; the others are told by the same code.
ON_SPARK = {
    "a list as key",
    "windows that give a text",
    "a map that exits",
    "open",
    "a process function",
    "an element without a timestamp",
    "a reduce that gives a generator",
    "a filter by a missing value",
    "positions of an evictor",
    "an element that does not fit ParquetFileSink",
    "a sink",
}


def told(run: Callable[[Pipeline], object], pipeline: Pipeline) -> str:
    with pytest.raises(WindrowError) as caught:
        run(pipeline)
    return f"{type(caught.value).__name__}: {caught.value}"


def fail(batch: int, values: Sequence[Any]) -> None:
    raise RuntimeError("the sink is gone")


def test_both_engines_tell_faults_alike(spark: SparkSession, tmp_path: Path) -> None:
    pipelines: dict[str, Pipeline] = {
        name: Pipeline("faults", make(from_collection([1, 2, 3])).sink_to(CollectSink[Any]()))
        for name, make in STREAMS.items()
    }
    sinks: list[Sink[Any]] = [JsonFileSink(tmp_path / "a"), ParquetFileSink(tmp_path / "b")]
    for sink in sinks:
        rows = from_collection([1]).map(unfit).sink_to(sink)
        pipelines[f"an element that does not fit {type(sink).__name__}"] = Pipeline("faults", rows)
    pipelines["a sink"] = Pipeline("faults", from_collection([1]).sink_to(FunctionSink(fail)))
    on_spark = for_a_night(pipelines.keys(), ON_SPARK)
    assert on_spark <= pipelines.keys()
    for name, pipeline in pipelines.items():
        expected = told(LocalRunner().run, pipeline)
        if name in on_spark:
            assert (name, told(SparkRunner(spark).run_batch, pipeline)) == (name, expected)
        assert __file__ in expected
        assert "hint: " in expected or name == "a timestamp that is none"
    assert told(LocalRunner().run, pipelines["a list as key"]).splitlines()[0].endswith("cannot be hashed")


def test_both_engines_tell_malformed_records_alike(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for line in ('{"a": "one", "b": ""}', '{"a": '):
        (tmp_path / "in" / "rows.json").write_text(f"{line}\n")
        rows = from_source(JsonFileSource(tmp_path / "in", Row)).sink_to(CollectSink[Row]())
        pipeline = Pipeline("faults", rows)
        found = []
        for run in (LocalRunner().run, SparkRunner(spark).run_batch):
            with pytest.raises(WindrowError) as caught:
                run(pipeline)
            found.append(str(caught.value))
            assert f"{__file__}:" in str(caught.value.where)
            assert str(caught.value.where).endswith("rows.json:1")
        assert found[0] == found[1]


@dataclass
class Sized:
    a: int
    b: str = None  # type: ignore[assignment]


def as_it_is(stream: DataStream[Any]) -> DataStream[Any]:
    return stream


def quadrupled(stream: DataStream[Any]) -> DataStream[Any]:
    return stream.map(lambda row: Row(row.a * 4, "x"))


@pytest.mark.parametrize(
    ("line", "make", "where"),
    [
        (f'{{"a": {2**62}, "b": ""}}', quadrupled, "faults.2.map, {}, Row.a"),
        ('{"a": 1}', as_it_is, "faults.1.source, {}, Sized.b"),
    ],
)
def test_values_that_fit_no_column_are_told_with_their_step(
    spark: SparkSession, tmp_path: Path, line: str, make: Any, where: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text(f"{line}\n")
    rows = from_source(JsonFileSource(tmp_path / "in", Sized))
    pipeline = Pipeline("faults", make(rows).sink_to(ParquetFileSink(tmp_path / "out")))
    assert "runs as columns" in pipeline.explain(SparkRunner(spark))
    text = told(SparkRunner(spark).run_batch, pipeline)
    assert re.search(where.format(f"{re.escape(__file__)}:[0-9]+"), text)


def test_results_that_fit_no_column_are_told_with_their_step() -> None:
    edge: Any = object()
    step = KeyedStep(0, "sum", "sum", KeyedOperator, None, where="here", targets=(edge,), results=record_type(int))
    collector = Collector(step)
    collector.collect(2**63, 0)
    with pytest.raises(InvalidArgumentError, match="int of 64 bits") as caught:
        collector.drain(Packer(KeyGroups.balanced(1, 1), Phase.AFTER_WATERMARK))
    assert caught.value.where == "here, int"
