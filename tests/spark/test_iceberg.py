"""Iceberg tables that Spark's workers write have what the interpreter writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyiceberg.transforms import BucketTransform, DayTransform

from tests.spark.timed import timed
from tests.support.files import forget_batch
from tests.support.iceberg import catalog_in, iceberg_rows, iceberg_sink, table_in
from windrow import Pipeline, from_source
from windrow.sinks import ParquetFileSink
from windrow.sources import CollectionSource, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reading(NamedTuple):
    sensor: str
    at: datetime
    celsius: float | None
    tags: list[str]


START = datetime(2026, 2, 28, 23, 59, 58, 1, UTC)
READINGS = [
    Reading(f"s{n % 3}", START + timedelta(seconds=n, microseconds=n), None if n % 5 == 0 else n / 4, ["t"] * (n % 3))
    for n in range(40)
]


def partitioned_table(folder: Path) -> None:
    folder.mkdir()
    fields = [("sensor", pa.string()), ("at", pa.timestamp("us", "UTC")), ("celsius", pa.float64())]
    schema = pa.schema([*fields, ("tags", pa.list_(pa.string())), ("note", pa.string())])
    with catalog_in(folder).create_table("db.raw", schema).update_spec() as update:
        update.add_field("at", DayTransform(), "day")
        update.add_field("sensor", BucketTransform(2), "bucket")


def colder(one: Reading, other: Reading) -> Reading:
    return min(one, other, key=lambda reading: (reading.celsius or 0.0, reading.at))


def pipeline_into(folder: Path, source: Path) -> Pipeline:
    """Readings as they are read, which are columns, mapped ones, and results of windows."""
    readings = from_source(ParquetFileSource(source / "*.parquet", Reading, files_per_batch=1))
    coldest = (
        timed(readings, 60_000)
        .key_by(lambda reading: reading.sensor)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
        .reduce(colder)
    )
    return Pipeline(
        "iceberg",
        readings.sink_to(iceberg_sink(folder, "db.raw")),
        readings.map(lambda reading: (reading.sensor, reading.celsius)).sink_to(iceberg_sink(folder, "db.mapped")),
        coldest.sink_to(iceberg_sink(folder, "db.coldest")),
    )


TABLES = ("db.raw", "db.mapped", "db.coldest")


def test_workers_write_what_the_interpreter_writes(spark: SparkSession, tmp_path: Path) -> None:
    local, stream, job, source = (tmp_path / name for name in ("local", "stream", "job", "in"))
    for half in (READINGS[:25], READINGS[25:]):
        part = from_source(CollectionSource(half, Reading))
        LocalRunner().run(Pipeline("files", part.sink_to(ParquetFileSink(source / str(len(half))))))
    for number, file in enumerate(sorted(source.rglob("*.parquet"))):
        file.rename(source / f"{number}.parquet")
    for folder in (local, stream, job):
        partitioned_table(folder)
    LocalRunner().run(pipeline_into(local, source))
    wanted = [iceberg_rows(local, name) for name in TABLES]
    assert [len(rows) for rows in wanted] == [40, 40, 14]

    def state() -> list[object]:
        snapshots = [len(table_in(stream, name).snapshots()) for name in TABLES[:2]]
        return [*snapshots, *sorted((stream / "warehouse").rglob("data/**/*"))]

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    runner.run(pipeline_into(stream, source), drain=False)
    before = state()
    # Spark has lost that the batch had ended: it runs again, and its files go.
    forget_batch(tmp_path / "checkpoint", 1)
    runner.run(pipeline_into(stream, source), drain=False)
    assert state() == before
    runner.run(pipeline_into(stream, source))
    assert [iceberg_rows(stream, name) for name in TABLES] == wanted

    SparkRunner(spark).run_batch(pipeline_into(job, source))
    assert [iceberg_rows(job, name) for name in TABLES] == wanted
    for folder in (stream, job):
        assert table_in(folder, "db.raw").inspect.partitions().num_rows == 4
