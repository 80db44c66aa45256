"""How many records each source has read, in Spark's report on a batch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.comparison import millis
from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner


class Reading(NamedTuple):
    sensor: str
    celsius: int


def counted(runner: SparkRunner, pipeline: Pipeline) -> dict[str, list[int]]:
    """By source, what the reports say of batches with data."""
    running = runner.start(pipeline)
    running.process_available()
    found: dict[str, list[int]] = {}
    for progress in running.streaming_query.recentProgress:
        if progress.numInputRows:
            for name, row in progress.observedMetrics.items():
                found.setdefault(name, []).append(row["records_read"])
    running.stop()
    return found


def test_files_that_workers_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        table = pa.table({"sensor": ["a", "b", None], "celsius": [1, 2, 3]})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    source = ParquetFileSource(str(tmp_path / "in"), Reading, on_malformed="drop")
    stream = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.celsius
    )
    windows = stream.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(millis(10)))
    pipeline = Pipeline("columns", windows.aggregate(agg.count()).sink_to(CollectSink()))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert "runs as columns" in pipeline.explain(runner)
    assert counted(runner, pipeline) == {"columns.1.source": [6]}


@pytest.mark.parametrize("name", ["json", "csv"])
def test_lines(spark: SparkSession, tmp_path: Path, name: str) -> None:
    text = {
        "json": '{"sensor": "a", "celsius": 1}\n\n{"sensor": "b"}\n{"sensor": "c", "celsius": 3}\n',
        "csv": 'sensor,celsius\n"a\nb",1\n\nb,\nc,3\n',
    }
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text(text[name])
    kind = {"json": JsonFileSource, "csv": CsvFileSource}[name]
    stream = from_source(kind(str(tmp_path / "in"), Reading, on_malformed="drop"))
    # Nothing is passed on, and it counts all the same; a line without anything is no record.
    pipeline = Pipeline("none", stream.filter(lambda r: r.celsius > 3).sink_to(CollectSink()))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert counted(runner, pipeline) == {"none.1.source": [3]}


def test_each_source_and_batch(spark: SparkSession, tmp_path: Path) -> None:
    one = from_source(CollectionSource(list(range(5)), int, batch_size=3))
    other = from_collection(list(range(2)))
    counts = one.union(other).key_by(lambda n: n % 2).count_window(1).aggregate(agg.count())
    pipeline = Pipeline("two", counts.sink_to(CollectSink()))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert counted(runner, pipeline) == {"two.1.source": [3, 2], "two.2.source": [2, 0]}
