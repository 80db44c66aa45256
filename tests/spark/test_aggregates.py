"""Declared aggregates on Spark: their accumulators are stored between batches and runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.comparison import Event, Outputs, millis
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.sources import JsonFileSource
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type.


class Keyed(ProcessWindowFunction[Any, tuple[str, int, Any], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Any]
    ) -> Iterable[tuple[str, int, Any]]:
        yield key, context.window.start, elements[0]


def write(folder: Path, numbers: Iterable[int]) -> None:
    """The files of these numbers: each 100 ms on from the one before, so that windows span files."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        records = [
            {"key": "ab"[place % 2], "at": number * 100 + place * 3, "value": (number * 31 + place * 17) % 40}
            for place in range(70)
        ]
        file = folder / f"{number}.json"
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(file, (1_600_000_000 + number,) * 2)


def build(folder: Path) -> tuple[Outputs, Pipeline]:
    outputs = Outputs()
    keyed = (
        from_source(JsonFileSource(folder, Event, files_per_batch=1))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(millis(50)), timestamp=lambda event: event.at
        )
        .key_by(lambda event: event.key)
    )
    windows = keyed.window(TumblingEventTimeWindows.of(millis(250)))
    numbers: DeclaredAggregate[Event, Any, Any] = agg.combine(
        agg.count(),
        agg.sum(lambda e: e.value),
        agg.mean(lambda e: e.value / 7),
        agg.stddev(lambda e: e.value),
        agg.min(lambda e: e.value),
        agg.max(lambda e: e.key),
        agg.collect_set(lambda e: e.value),
        agg.count_distinct(lambda e: e.value),
    )
    elements: DeclaredAggregate[Event, Any, Any] = agg.combine(
        agg.first(), agg.last(lambda e: e.value), agg.max_by(lambda e: e.value), agg.top_k(3, lambda e: e.value)
    )
    # Fewer values than the sketches hold exactly.
    sketches: DeclaredAggregate[Event, Any, Any] = agg.combine(
        agg.approx_count_distinct(lambda e: e.value), agg.approx_quantiles(lambda e: e.value, [0.5, 0.9])
    )
    outputs.add("windows", windows.aggregate(agg.combine(numbers, elements, sketches), Keyed()))
    # One list of the whole stream, which every batch makes longer.
    outputs.add(
        "list",
        keyed.window(TumblingEventTimeWindows.of(millis(60_000))).aggregate(
            agg.collect_list(lambda e: e.value), Keyed()
        ),
    )
    sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(30)))
    outputs.add("sessions", sessions.aggregate(agg.into(dict, n=agg.count(), all=agg.collect_list()), Keyed()))
    return outputs, outputs.pipeline("aggregates")


def test_results_equal_the_interpreters_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, range(2))
    outputs, pipeline = build(folder)
    expected, _ = outputs.expected(pipeline)
    (folder / "1.json").unlink()
    found: dict[str, dict[Any, list[Any]]] = {name: {} for name in expected}
    for numbers, drain in ((range(1), False), (range(1, 2), True)):
        write(folder, numbers)
        outputs, pipeline = build(folder)
        result = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(pipeline, drain=drain)
        for name, by_key in outputs.of(result).items():
            for key, values in by_key.items():
                found[name].setdefault(key, []).extend(values)
    # Floats, too: the same elements are added in the same order.
    assert found == expected
