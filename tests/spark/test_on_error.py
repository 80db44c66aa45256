"""Elements whose function raises take the same way on Spark as in the interpreter, in each kind of function."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.spark.comparison import Outputs, millis
from tests.support.failing import STEPS, Keeps, Number, Seen, checked
from windrow import DataStream, OutputTag, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.failures import Failed
from windrow.functions import KeyedCoProcessFunction, KeyedProcessContext
from windrow.sources import CollectionSource, JsonFileSource
from windrow.windows import TumblingEventTimeWindows
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


class Both(KeyedCoProcessFunction[int, Number, str, int]):
    """Raises for an element of either stream."""

    def process_element1(self, value: Number, context: KeyedProcessContext[int]) -> list[int]:
        return [checked(value).value]

    def process_element2(self, value: str, context: KeyedProcessContext[int]) -> list[int]:
        return [100 // (int(value) % 9)]


def source() -> DataStream[Number]:
    return from_source(CollectionSource(NUMBERS, batch_size=40)).returns(Number)


def main_of(step: Any) -> DataStream[Any]:
    return step if isinstance(step, DataStream) else step.reduce(lambda before, number: number)


def failed_key(failed: Failed[Number]) -> str:
    return failed.element.key


def test_each_kind_of_function_fails_as_in_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    outputs = Outputs()
    for name, step_of in STEPS.items():
        tag = OutputTag[Failed[Number]](f"failed {name}")
        step = step_of(source(), tag)
        outputs.add(name, main_of(step))
        outputs.add(f"{name} failed", step.get_side_output(tag), failed_key)
        outputs.add(f"{name} dropping", main_of(step_of(source(), "drop")))
    strategy = WatermarkStrategy[Number].for_bounded_out_of_orderness(millis(5))
    stamped = source().assign_timestamps_and_watermarks(strategy, lambda number: number.at)
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
    texts = source().map(lambda number: f"{number.value}")
    both = source().connect(texts).key_by(lambda number: number.value % 10, lambda text: int(text) % 10)
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
