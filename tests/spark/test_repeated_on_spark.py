"""What repeats, and functions with a state by key, on Spark, over a restart."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

# Any in this module: results of every type.


class Click(NamedTuple):
    user: str
    page: str
    at: int


def write(folder: Path, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        ats = [number * 100 + step for step in range(100)]
        table = {"user": ["ab"[at % 3 == 0] for at in ats], "page": [f"/{at * at % 7}" for at in ats], "at": ats}
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(table), file)
        os.utime(file, (1_600_000_000 + number,) * 2)


def numbered(count: int, click: Click) -> tuple[int, tuple[str, int]]:
    return count + 1, (click.page, count + 1)


def test_state_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint, within = tmp_path / "in", tmp_path / "checkpoint", timedelta(milliseconds=40)
    write(folder, range(2))
    stamped = from_source(ParquetFileSource(str(folder), Click, files_per_batch=1)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda click: click.at
    )
    keyed = stamped.key_by(lambda click: click.user)
    streams = [
        keyed.distinct(lambda click: click.page, within=within),
        keyed.first(within=within),
        keyed.on_change(lambda click: click.page),
        keyed.stateful_map(int, numbered),
        keyed.group_into_batches(7, timeout=timedelta(hours=1)),
    ]
    sinks = [CollectSink[Any]() for _ in streams]
    plan = Pipeline("clicks", *(stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)))
    before = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan, drain=False)
    write(folder, range(2, 4))
    after = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan)
    expected = LocalRunner().run(plan)
    for sink in sinks:
        assert before.collected(sink)
        assert after.collected(sink)
        found = [*before.collected(sink), *after.collected(sink)]
        assert sorted(map(repr, found)) == sorted(map(repr, expected.collected(sink)))
