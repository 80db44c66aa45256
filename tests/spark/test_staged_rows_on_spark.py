"""Tables of PostgreSQL whose rows workers stage have on Spark what the interpreter writes there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.outputs.test_database import Database, postgresql
from tests.outputs.test_staged_rows import SOME_SENT, staged_tables
from tests.support.files import forget_batch, put
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.errors import UserFunctionError
from windrow.sources import JsonFileSource
from windrow.triggers import after_count, after_watermark
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_sql.database.spark_writer import DatabaseSparkWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgresql"]  # a fixture

# Any in this module: rows as the driver gives them.


class Read(NamedTuple):
    key: str
    at: int
    value: int


class Total(NamedTuple):
    key: str
    start: int
    value: int


class Latest(NamedTuple):
    bucket: int
    at: int


FILES = 4
ROWS = 300


@pytest.fixture(autouse=True)
def _stage_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks stage all elements but their first two."""
    monkeypatch.setattr(DatabaseSparkWriter, "limits", SOME_SENT)


def give(folder: Path, first: int, last: int) -> None:
    for number in range(first, last):
        reads = [Read(f"k{place % 7}", number * 100 + place % 90, place) for place in range(ROWS)]
        put(folder, number, reads, second=number)


def of_window(key: str, window: TimeWindow, reads: Sequence[Read]) -> list[Total]:
    return [Total(key, window.start, sum(read.value for read in reads))]


def build(folder: Path, database: Database, name: str, *, fails: bool = False) -> Pipeline:
    """Rows of sources and of windows, in tables with and without keys; results are withdrawn and come again."""

    def checked(read: Read) -> Read:
        if fails and read.at >= 250:
            raise ValueError("broken")
        return read

    reads = from_source(JsonFileSource(folder, Read, files_per_batch=2)).map(checked)
    stamped = reads.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=100)), timestamp=lambda read: read.at
    )
    windows = stamped.key_by(lambda read: read.key).window(TumblingEventTimeWindows.of(timedelta(milliseconds=50)))
    refined = windows.trigger(after_watermark(early=after_count(3))).retracting().apply(of_window)
    return Pipeline(
        name,
        reads.sink_to(database.sink(f"{name}_reads")),
        # Keys that lie in every partition: the last one in the order of the files counts.
        reads.map(lambda read: Latest(read.value % 5, read.at)).sink_to(database.sink(f"{name}_latest", "bucket")),
        refined.sink_to(database.sink(f"{name}_totals", "key", "start")),
        windows.apply(of_window).sink_to(database.sink(f"{name}_all")),
    )


def tables(database: Database, name: str) -> list[list[tuple[Any, ...]]]:
    return [sorted(database.run(f"TABLE {name}_{table}")) for table in ("reads", "latest", "totals", "all")]


def test_streams_and_jobs_write_what_the_interpreter_writes(
    spark: SparkSession, postgresql: Database, tmp_path: Path
) -> None:
    give(tmp_path / "in", 0, FILES)
    LocalRunner().run(build(tmp_path / "in", postgresql, "local"))
    expected = tables(postgresql, "local")
    assert [len(rows) for rows in expected[:2]] == [FILES * ROWS, 5]
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(UserFunctionError, match="broken"):
        runner.run(build(tmp_path / "in", postgresql, "stream", fails=True), drain=False)
    assert len(postgresql.run("TABLE stream_reads")) == 2 * ROWS
    runner.run(build(tmp_path / "in", postgresql, "stream"), drain=False)
    forget_batch(tmp_path / "checkpoint", 1)
    runner.run(build(tmp_path / "in", postgresql, "stream"))
    assert tables(postgresql, "stream") == expected
    SparkRunner(spark).run_batch(build(tmp_path / "in", postgresql, "job"))
    assert tables(postgresql, "job") == expected
    assert staged_tables(postgresql) == []


def test_rows_of_two_levels_keep_their_order(spark: SparkSession, postgresql: Database, tmp_path: Path) -> None:
    """Results of the first level pass the second one, in any order, to where they are staged."""
    give(tmp_path / "in", 0, FILES)

    def build_levels(name: str) -> Pipeline:
        reads = from_source(JsonFileSource(tmp_path / "in", Read, files_per_batch=2))
        running = reads.key_by(lambda read: read.key).reduce(lambda a, b: replace_value(b, a.value + b.value))
        highest = running.key_by(lambda read: read.value % 3).reduce(lambda a, b: a if a.value > b.value else b)
        return Pipeline(
            name,
            running.sink_to(postgresql.sink(f"{name}_running", "key")),
            highest.map(lambda read: Latest(read.value % 3, read.value)).sink_to(
                postgresql.sink(f"{name}_highest", "bucket")
            ),
        )

    LocalRunner().run(build_levels("local"))
    SparkRunner(spark).run(build_levels("stream"))
    SparkRunner(spark).run_batch(build_levels("job"))
    for name in ("stream", "job"):
        for table in ("running", "highest"):
            assert sorted(postgresql.run(f"TABLE {name}_{table}")) == sorted(postgresql.run(f"TABLE local_{table}"))


def replace_value(read: Read, value: int) -> Read:
    return read._replace(value=value)
