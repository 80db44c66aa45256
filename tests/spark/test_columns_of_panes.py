"""Panes on columns, from files to files on Spark: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.spark.comparison import millis
from tests.spark.test_columns import Reading, readings, stamped, summary, write
from windrow import DataStream, Pipeline
from windrow import aggregates as agg
from windrow.functions import with_pane
from windrow.panes import AccumulationMode
from windrow.sinks import CollectSink, JsonFileSink, ParquetFileSink
from windrow.triggers import after_count, after_watermark
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type, and pyarrow has no types.


def panes(stream: DataStream[Reading], mode: AccumulationMode, *, placed: bool = False) -> DataStream[Any]:
    """Panes at every three elements, on time, and at each late one, as changes; ``placed`` says where they stand."""
    windows: Any = (
        stamped(stream)
        .key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(millis(50)))
        .trigger(after_watermark(early=after_count(3), late=after_count(1)))
        .allowed_lateness(millis(40))
    )
    by_mode = {
        AccumulationMode.ACCUMULATING: windows.accumulating,
        AccumulationMode.DISCARDING: windows.discarding,
        AccumulationMode.RETRACTING: windows.retracting,
    }
    windows = by_mode[mode]()
    found: DataStream[Any] = windows.aggregate(summary())
    if placed:
        found = windows.aggregate(agg.combine(agg.count(), agg.max(lambda r: r.celsius)), with_pane())
    return found.changelog()


def in_files(folder: Path) -> list[str]:
    """The rows of result files, in any order."""
    # Arrow takes the types of all JSON files from one, which may have nothing but null in a column.
    rows = [json.loads(line) for file in folder.rglob("*.json") for line in file.read_text().splitlines()]
    for file in folder.rglob("*.parquet"):
        rows += pq.read_table(file).to_pylist()
    return sorted(map(repr, rows))


@pytest.mark.parametrize("sink", [ParquetFileSink, JsonFileSink])
@pytest.mark.parametrize("mode", AccumulationMode)
def test_changes_in_files_are_those_of_the_interpreter(
    spark: SparkSession, tmp_path: Path, mode: AccumulationMode, sink: Any
) -> None:
    write(tmp_path / "in", range(4))
    stream = panes(readings(tmp_path / "in"), mode)
    collected = CollectSink[Any]()
    wanted = LocalRunner().run(Pipeline("wanted", stream.sink_to(collected))).collected(collected)
    kinds = {change.kind.value for change in wanted}
    assert kinds == ({"+I", "-U", "+U"} if mode is AccumulationMode.RETRACTING else {"+I"})
    rows = [{"kind": change.kind.value, "value": change.value._asdict()} for change in wanted]
    runner = SparkRunner(spark)
    for name, columns in (("columns", True), ("objects", False)):
        pipeline = Pipeline(name, stream.sink_to(sink(tmp_path / name)))
        runner = SparkRunner(spark, columnar=columns)
        assert ("runs as columns, panes" in pipeline.explain(runner)) == columns
        runner.run(pipeline)
        assert in_files(tmp_path / name) == sorted(map(repr, rows)), name


def test_panes_in_files_are_those_of_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", range(4))
    stream = panes(readings(tmp_path / "in"), AccumulationMode.RETRACTING, placed=True)
    wanted = ParquetFileSink[Any](tmp_path / "wanted")
    LocalRunner().run(Pipeline("wanted", stream.sink_to(wanted)))
    assert len(in_files(tmp_path / "wanted")) > 50
    for name, columns in (("columns", True), ("objects", False)):
        pipeline = Pipeline(name, stream.sink_to(ParquetFileSink(tmp_path / name)))
        runner = SparkRunner(spark, columnar=columns)
        assert ("runs as columns, panes" in pipeline.explain(runner)) == columns
        runner.run(pipeline)
        assert in_files(tmp_path / name) == in_files(tmp_path / "wanted"), name


def test_a_window_behind_one_that_retracts_takes_withdrawn_results_out(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", range(4))
    windows = (
        stamped(readings(tmp_path / "in"))
        .key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(millis(50)))
        .trigger(after_watermark(early=after_count(3)))
        .retracting()
    )
    behind = (
        windows.aggregate(summary())
        .filter(lambda found: found.readings > 1)
        .key_by(lambda found: found.sensor)
        .window(TumblingEventTimeWindows.of(millis(200)))
        .aggregate(agg.combine(agg.key(), agg.sum(lambda found: found.readings), agg.count()))
    )
    sink = CollectSink[Any]()
    pipeline = Pipeline("chained", behind.sink_to(sink))
    assert "runs as columns, panes" in pipeline.explain(SparkRunner(spark))
    wanted = LocalRunner().run(pipeline).collected(sink)
    found = SparkRunner(spark).run(pipeline).collected(sink)
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert len(found) > 5
