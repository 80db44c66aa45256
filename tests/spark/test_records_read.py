"""How many records each source has read, in Spark's report on a batch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.spark.comparison import millis
from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

LINES = {
    JsonFileSource: '{"sensor": "a", "celsius": 1}\n\n{"sensor": "b"}\n{"sensor": "c", "celsius": 3}\n',
    CsvFileSource: 'sensor,celsius\n"a\nb",1\n\nb,\nc,3\n',
}


class Reading(NamedTuple):
    sensor: str
    celsius: int


def test_each_source_and_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    for number in range(2):
        table = pa.table({"sensor": ["a", "b", None], "celsius": [1, 2, 3]})
        pq.write_table(table, tmp_path / "columns" / f"{number}.parquet")
    columns = from_source(
        ParquetFileSource(str(tmp_path / "columns"), Reading, on_malformed="drop"), name="columns"
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.celsius
    )
    windows = columns.key_by(lambda reading: reading.sensor).window(TumblingEventTimeWindows.of(millis(10)))
    ends = [windows.aggregate(agg.count(), name="windows").sink_to(CollectSink())]
    for kind, text in LINES.items():
        file = tmp_path / kind.__name__ / "1"
        file.parent.mkdir()
        file.write_text(text)
        stream = from_source(kind(str(file.parent), Reading, on_malformed="drop"), name=kind.__name__)
        # Nothing is passed on, and it counts all the same; a line without anything is no record.
        ends.append(stream.filter(lambda reading: reading.celsius > 3).sink_to(CollectSink()))
    one = from_source(CollectionSource(list(range(5)), int, batch_size=3), name="one")
    other = from_collection(list(range(2)), name="other")
    counts = one.union(other).key_by(lambda number: number % 2).count_window(1).aggregate(agg.count())
    pipeline = Pipeline("read", *ends, counts.sink_to(CollectSink()))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert "runs as columns" in pipeline.explain(runner)

    running = runner.start(pipeline)
    running.process_available()
    read: dict[str, list[int]] = {}
    for progress in running.streaming_query.recentProgress:
        if progress.numInputRows:
            for name, row in progress.observedMetrics.items():
                read.setdefault(name.rpartition(".")[2], []).append(row["records_read"])
    running.stop()
    assert read == {
        "columns": [6, 0],
        "JsonFileSource": [3, 0],
        "CsvFileSource": [3, 0],
        "one": [3, 2],
        "other": [2, 0],
    }
