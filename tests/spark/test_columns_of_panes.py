"""Panes on columns, from files to files on Spark: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from tests.budget import for_a_night
from tests.spark.comparison import millis
from tests.spark.test_columns import Reading, readings, stamped, summary, write
from windrow import DataStream, DataStreamSink, KeyedStream, Pipeline
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


def panes(keyed: KeyedStream[Reading, Any], mode: AccumulationMode, *, placed: bool = False) -> DataStream[Any]:
    """Panes at every three elements, on time, and at each late one, as changes; ``placed`` says where they stand."""
    windows: Any = (
        keyed.window(TumblingEventTimeWindows.of(millis(50)))
        .trigger(after_watermark(early=after_count(3), late=after_count(1)))
        .allowed_lateness(millis(40))
    )
    windows = getattr(windows, mode.name.lower())()
    found: DataStream[Any] = windows.aggregate(summary())
    if placed:
        found = windows.aggregate(agg.combine(agg.count(), agg.max(lambda r: r.celsius)), with_pane())
    return found.changelog()


def behind(keyed: KeyedStream[Reading, Any]) -> DataStream[Any]:
    """A window that takes out what the window in front of it withdraws."""
    windows = keyed.window(TumblingEventTimeWindows.of(millis(50))).trigger(after_watermark(early=after_count(3)))
    return (
        windows.retracting()
        .aggregate(summary())
        .filter(lambda found: found.readings > 1)
        .key_by(lambda found: found.sensor)
        .window(TumblingEventTimeWindows.of(millis(200)))
        .aggregate(agg.combine(agg.key(), agg.sum(lambda found: found.readings), agg.count()))
    )


def in_files(folder: Path) -> list[str]:
    """The rows of result files, in any order."""
    # Arrow takes the types of all JSON files from one, which may have nothing but null in a column.
    rows = [json.loads(line) for file in folder.rglob("*.json") for line in file.read_text().splitlines()]
    for file in folder.rglob("*.parquet"):
        rows += pq.read_table(file).to_pylist()
    return sorted(map(repr, rows))


SINKS: dict[str, Any] = {"parquet": ParquetFileSink, "json": JsonFileSink}


def test_panes_in_files_are_those_of_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    """Changes of each mode, and all that is known of each pane, in files of both formats, and a window behind one."""
    write(tmp_path / "in", range(2))
    keyed = stamped(readings(tmp_path / "in")).key_by(lambda r: r.sensor)
    modes = {mode.name: panes(keyed, mode) for mode in AccumulationMode}
    streams = {**modes, "placed": panes(keyed, AccumulationMode.RETRACTING, placed=True)}

    def files(name: str) -> list[DataStreamSink]:
        return [
            stream.sink_to(sink(tmp_path / name / step / form))
            for step, stream in streams.items()
            for form, sink in SINKS.items()
        ]

    collected = {step: CollectSink[Any]() for step in modes}
    ends = [stream.sink_to(collected[step]) for step, stream in modes.items()]
    totals = CollectSink[Any]()
    last = behind(keyed).sink_to(totals)
    local = LocalRunner().run(Pipeline("wanted", *files("wanted"), *ends, last))
    assert len(local.collected(totals)) > 5
    assert len(in_files(tmp_path / "wanted" / "placed" / "parquet")) > 50
    for step, sink in collected.items():
        changes = local.collected(sink)
        assert {change.kind.value for change in changes} == ({"+I", "-U", "+U"} if step == "RETRACTING" else {"+I"})
        rows = [{"kind": change.kind.value, "value": change.value._asdict()} for change in changes]
        for form in SINKS:
            assert in_files(tmp_path / "wanted" / step / form) == sorted(map(repr, rows))
    # tests/differential draws panes that run as objects, too.
    for columns in for_a_night((True, False), (True,)):
        name = "columns" if columns else "objects"
        pipeline = Pipeline(name, *files(name), last)
        runner = SparkRunner(spark, partitions=1, columnar=columns)
        assert pipeline.explain(runner).count("runs as columns, panes") == (len(streams) + 1 if columns else 0)
        found = runner.run(pipeline).collected(totals)
        assert sorted(map(repr, found)) == sorted(map(repr, local.collected(totals)))
        for step in streams:
            for form in SINKS:
                expected = in_files(tmp_path / "wanted" / step / form)
                assert in_files(tmp_path / name / step / form) == expected, (name, step, form)
