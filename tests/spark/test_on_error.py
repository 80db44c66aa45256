"""Elements whose function raises take the same way on Spark as in the interpreter, in each kind of function."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.comparison import Outputs, millis
from tests.support.failing import STEPS, Gathered, Keeps, Number, Seen, UnluckyError, checked
from windrow import DataStream, OutputTag, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.failures import Failed
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    ReadOnlyContext,
)
from windrow.patterns import Pattern
from windrow.sources import CollectionSource, CsvFileSource, FileSource, JsonFileSource, ParquetFileSource
from windrow.state import MapStateDescriptor, ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.spark import PipelineProgress, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any: streams of every kind of step.

FAILED = OutputTag[Failed[Number | None]]("failed")
UNNAMED = OutputTag[Failed[Number]]("unnamed")
NAMES = {"a": "first", "b": "second"}
OF_WINDOWS = OutputTag[Failed[list[Number]]]("failed windows")
NUMBERS = [Number("abc"[number % 3], number, number * 7 % 101) for number in range(300)]


class Share(NamedTuple):
    key: str
    total: float


def some_text(number: Number) -> Any:
    """Gives a text, which no sum can add, for the first number of each key, and others."""
    return "text" if number.value % 7 == 0 else number.value


class Both(KeyedCoProcessFunction[int, Number, str, int]):
    """Raises for an element of either stream."""

    def process_element1(self, value: Number, context: KeyedProcessContext[int]) -> list[int]:
        return [checked(value).value]

    def process_element2(self, value: str, context: KeyedProcessContext[int]) -> list[int]:
        return [100 // (int(value) % 9)]


def source() -> DataStream[Number]:
    return from_source(CollectionSource(NUMBERS, batch_size=100)).returns(Number)


def main_of(step: Any) -> DataStream[Any]:
    return step if isinstance(step, DataStream) else step.reduce(lambda before, number: number)


def failed_key(failed: Failed[Number]) -> str:
    return failed.element.key


def pair(left: Number, right: Number) -> tuple[Number, Number]:
    if (left.value + right.value) % 10 == 5:
        raise UnluckyError("a pair")
    return (left, right)


def summed(state: int, number: Number) -> tuple[int, tuple[str, int]]:
    return state + number.value, (number.key, state + checked(number).value)


class Limited(KeyedBroadcastProcessFunction[str, Number, Number, int]):
    """Raises for an element above the limit, behind a change of state."""

    LIMITS = MapStateDescriptor("limits", str, int)
    COUNT = ValueStateDescriptor("count", int)

    def process_element(self, value: Number, context: ReadOnlyContext[str]) -> Iterator[int]:
        count = context.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        yield count.value() or 0
        if value.value > (context.get_broadcast_state(self.LIMITS).get("limit") or 0):
            raise UnluckyError("above")

    def process_broadcast_element(self, value: Number, context: BroadcastContext[str, int]) -> None:
        context.get_broadcast_state(self.LIMITS).put("limit", value.value)


def test_steps_of_several_elements_fail_as_in_the_interpreter(spark: SparkSession) -> None:
    outputs, numbers = Outputs(), source()
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(millis(5))
    stamped = numbers.assign_timestamps_and_watermarks(strategy, lambda number: number.at)
    keyed = stamped.key_by(lambda number: number.key)
    tag = OutputTag[Failed[Number | None]]("failed")
    folds = {
        "sliding": keyed.window(SlidingEventTimeWindows.of(millis(50), millis(20))).aggregate(Gathered(), on_error=tag),
        "sessions": keyed.window(EventTimeSessionWindows.with_gap(millis(4))).aggregate(Gathered(), on_error=tag),
        "highest": keyed.window(TumblingEventTimeWindows.of(millis(50))).max_by(
            lambda number: checked(number).value, on_error=tag
        ),
        "declared": keyed.window(TumblingEventTimeWindows.of(millis(50))).aggregate(
            agg.sum(lambda number: checked(number).value), on_error=tag
        ),
        "texts": keyed.window(TumblingEventTimeWindows.of(millis(50))).sum(some_text, on_error=tag),
    }
    for name, fold in folds.items():
        outputs.add(name, fold, None)
        outputs.add(f"{name} failed", fold.get_side_output(tag), None)
    of_keys = OutputTag[Failed[Number]]("of keys")
    kept = {
        "distinct": keyed.distinct(lambda n: checked(n).value % 7, within=millis(20), on_error=of_keys),
        "changes": keyed.on_change(lambda n: checked(n).value // 50, on_error=of_keys),
        "stateful": keyed.stateful_map(int, summed, on_error=of_keys),
        "rolling texts": keyed.sum(some_text, on_error=of_keys),
    }
    for name, step in kept.items():
        outputs.add(name, step, None)
        outputs.add(f"{name} failed", step.get_side_output(of_keys), None)
    other = numbers.map(lambda n: Number(n.key, n.at + 2, n.value + 3))
    other = other.assign_timestamps_and_watermarks(strategy, lambda n: n.at)
    other_keyed = other.key_by(lambda n: n.key)
    pairs = OutputTag[Failed[tuple[Number, Number]]]("pairs")
    joins = {
        "interval": keyed.interval_join(other_keyed).between(millis(-6), millis(6)).apply(pair, on_error=pairs),
        "as of": keyed.as_of_join(other_keyed).apply(pair, on_error=pairs),
        "window": stamped.join(other)
        .where(lambda n: n.key)
        .equal_to(lambda n: n.key)
        .window(TumblingEventTimeWindows.of(millis(20)))
        .apply(pair, on_error=pairs),
    }
    for name, join in joins.items():
        outputs.add(name, join, None)
        outputs.add(f"{name} failed", join.get_side_output(pairs), None)
    matches = keyed.pattern(Pattern[Number].begin("low", lambda n: checked(n).value < 50).next("high")).apply(
        lambda parts: parts["high"][0].value, on_error=OF_WINDOWS
    )
    outputs.add("matches", matches, None)
    outputs.add("matches failed", matches.get_side_output(OF_WINDOWS), None)
    rules = source().filter(lambda number: number.at % 50 == 0).broadcast(Limited.LIMITS)
    limited = numbers.key_by(lambda number: number.key).connect(rules).process(Limited(), on_error=tag)
    outputs.add("rules", limited, None)
    outputs.add("rules failed", limited.get_side_output(tag), None)
    texts = numbers.map(lambda number: f"{number.value}")
    both = OutputTag[Failed[Number | str]]("both")
    shares = numbers.connect(texts).map(lambda n: checked(n).value, lambda text: 100 // (int(text) % 9), on_error=both)
    outputs.add("connected", shares, None)
    outputs.add("connected failed", shares.get_side_output(both), None)
    outputs.check(SparkRunner(spark).run)


def test_failed_elements_tell_file_and_line_as_in_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    outputs, tag = Outputs(), OutputTag[Failed[Number]]("failed")
    folders = {name: tmp_path / name for name in ("json", "csv", "parquet")}
    for folder in folders.values():
        folder.mkdir()
    for part in range(2):
        numbers = NUMBERS[part * 150 : part * 150 + 150]
        lines = [f"{number.key},{number.at},{number.value}\n" for number in numbers]
        (folders["csv"] / f"{part}.csv").write_text("".join(["key,at,value\n", *lines]))
        (folders["json"] / f"{part}.json").write_text("\n\n".join(json.dumps(number._asdict()) for number in numbers))
        table = pa.Table.from_pylist([number._asdict() for number in numbers])
        pq.write_table(table, folders["parquet"] / f"{part}.parquet", row_group_size=40)
    sources: dict[str, FileSource[Number]] = {
        "json": JsonFileSource(folders["json"], Number),
        "csv": CsvFileSource(folders["csv"], Number),
        "parquet": ParquetFileSource(folders["parquet"], Number),
    }
    for name, files in sources.items():
        read = from_source(files).filter(lambda number: number.key != "b")
        outputs.add(name, read.map(checked, on_error=tag).get_side_output(tag), None)
    expected, _ = outputs.expected(outputs.pipeline("origins"))
    for name, elements in expected.items():
        assert all(failed.origin.startswith(f"{folders[name]}/") for group in elements.values() for failed in group)
    outputs.check(SparkRunner(spark).run, "origins")


def test_each_kind_of_function_fails_as_in_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    outputs, numbers = Outputs(), source()
    for name, step_of in STEPS.items():
        tag = OutputTag[Failed[Number]](f"failed {name}")
        step = step_of(numbers, tag)
        outputs.add(name, main_of(step))
        outputs.add(f"{name} failed", step.get_side_output(tag), failed_key)
        outputs.add(f"{name} dropping", main_of(step_of(numbers, "drop")))
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(millis(5))
    stamped = numbers.assign_timestamps_and_watermarks(strategy, lambda number: number.at)
    panes = (
        stamped.map(checked, on_error="drop")
        .key_by(lambda number: number.key, on_error="drop")
        .window(TumblingEventTimeWindows.of(millis(50)))
    )
    outputs.add("columns behind a policy", panes.aggregate(agg.count()), None)
    (tmp_path / "numbers.json").write_text("".join(json.dumps(number._asdict()) + "\n" for number in NUMBERS))
    read = from_source(JsonFileSource(tmp_path, Number)).assign_timestamps_and_watermarks(strategy, lambda n: n.at)
    shares = read.map(lambda number: (NAMES[number.key], number.value * 0.5), on_error=UNNAMED)
    windows = shares.key_by(lambda share: share[0]).window(TumblingEventTimeWindows.of(millis(50)))
    outputs.add("declared", windows.aggregate(agg.into(Share, agg.key(), agg.sum(lambda share: share[1]))))
    outputs.add("declared failed", shares.get_side_output(UNNAMED), failed_key)
    texts = numbers.map(lambda number: f"{number.value}")
    both = numbers.connect(texts).key_by(lambda number: number.value % 10, lambda text: int(text) % 10)
    outputs.add("two streams", both.process(Both(), on_error="drop"), None)
    seen = stamped.key_by(lambda number: number.key).window(TumblingEventTimeWindows.of(millis(20)))
    functions = seen.process(Seen(raises=True), on_error=OF_WINDOWS)
    outputs.add("windows", functions)
    outputs.add("windows failed", functions.get_side_output(OF_WINDOWS), lambda failed: failed.element[0].key)
    outputs.add(
        "windows dropping", seen.apply(lambda key, window, found: [(key, 8 // (len(found) % 2))], on_error="drop")
    )
    kept = stamped.key_by(lambda number: number.key).process(Keeps(raises=True), on_error=FAILED)
    outputs.add("keyed", kept)
    outputs.add("keyed failed", kept.get_side_output(FAILED), None)
    reports: list[PipelineProgress] = []
    plan = outputs.pipeline("both").explain(SparkRunner(spark))
    assert re.search(r"aggregate into\(Share.*\n\s+runs as columns", plan), plan
    outputs.check(SparkRunner(spark, on_progress=reports.append).run)
    dropped = {name for report in reports for name, step in report.steps.items() if step.dropped}
    kinds = {"window", "map", "filter", "flat_map", "map_batches", "map_async", "process", "timestamps", "key_by"}
    assert {name.rsplit(".", 1)[1] for name in dropped} == kinds
