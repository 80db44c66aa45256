"""Windows of the calendar on Spark, around the night in which clocks are put back, over a restart."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.spark.timed import timed
from windrow import Pipeline, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow.windows import CalendarWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

# Any in this module: results of every type.

HOUR = 3_600_000
BERLIN = ZoneInfo("Europe/Berlin")
FIRST = int(datetime.fromisoformat("2025-10-24T00:00Z").timestamp()) * 1000


class Reading(NamedTuple):
    sensor: str
    at: int
    celsius: float


class Day(NamedTuple):
    sensor: str
    start: datetime
    end: datetime
    readings: int
    mean: float | None


def write(folder: Path, numbers: range) -> None:
    """The files of these numbers: each has 100 readings of a day, with disorder."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        chance = random.Random(number)
        ats = [FIRST + number * 24 * HOUR + chance.randrange(-3 * HOUR, 24 * HOUR) for _ in range(100)]
        celsius = [chance.randrange(1000) / 8 for _ in ats]
        table = {"sensor": [chance.choice("abc") for _ in ats], "at": ats, "celsius": celsius}
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(table), file)
        os.utime(file, (1_600_000_000 + number,) * 2)


def day_of() -> Any:
    return agg.into(
        Day, agg.key(), agg.window_start(datetime), agg.window_end(datetime), agg.count(), agg.mean(lambda r: r.celsius)
    )


def hours(key: str, window: TimeWindow, elements: Any) -> list[tuple[str, int, int]]:
    return [(key, window.start, window.end)]


def test_days_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    source = from_source(ParquetFileSource(str(folder), Reading, files_per_batch=1))
    keyed = timed(source, 2 * HOUR).key_by(lambda r: r.sensor)
    streams = [
        keyed.window(CalendarWindows.days("Europe/Berlin")).allowed_lateness(timedelta(hours=1)).aggregate(day_of()),
        keyed.window(CalendarWindows.days("Europe/Berlin", size=3, slide=1)).aggregate(day_of()),
        keyed.window(CalendarWindows.hours("Australia/Lord_Howe")).apply(hours),
        keyed.window(CalendarWindows.days("Asia/Kolkata")).reduce(lambda a, b: a if a.celsius < b.celsius else b),
    ]
    sinks = [CollectSink[Any]() for _ in streams]
    plan = Pipeline("days", *(stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)))
    runner = SparkRunner(spark, checkpoint=checkpoint, partitions=1)
    assert plan.explain(runner).count("runs as columns") == 3
    before = runner.run(plan, drain=False)
    write(folder, range(2, 4))
    after = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan)
    expected = LocalRunner().run(plan)
    for sink in sinks:
        found = [*before.collected(sink), *after.collected(sink)]
        assert sorted(map(repr, found)) == sorted(map(repr, expected.collected(sink)))
        assert before.collected(sink)
        assert after.collected(sink)


class Shown(NamedTuple):
    sensor: str
    shown: datetime


class Hour(NamedTuple):
    shown: datetime
    readings: int
    last: datetime | None


class First(NamedTuple):
    sensor: str
    first: datetime | None


def shown_in_berlin(reading: Reading) -> Shown:
    """The half hour as a clock in Berlin shows it."""
    half_hour = datetime.fromtimestamp(reading.at // 1_800_000 * 1_800, BERLIN)
    return Shown(reading.sensor, half_hour)


def test_hours_that_a_clock_shows_alike_and_bounds_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, range(1, 4))
    night = [FIRST + 48 * HOUR + number * HOUR // 6 for number in range(12)]  # the hour that the clock shows twice
    pq.write_table(pa.table({"sensor": ["a"] * 12, "at": night, "celsius": [1.0] * 12}), folder / "night.parquet")
    stamped = timed(from_source(ParquetFileSource(str(folder), Reading)), 3 * HOUR)
    by_hour = stamped.map(shown_in_berlin).key_by(lambda each: each.shown)
    hours = by_hour.window(TumblingEventTimeWindows.of(timedelta(days=2))).aggregate(
        agg.into(Hour, agg.key(), agg.count(), agg.max(lambda each: each.shown))
    )
    days = stamped.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(timedelta(hours=6)))
    bounds = days.aggregate(day_of())
    firsts = (
        bounds.key_by(lambda day: day.sensor)
        .window(TumblingEventTimeWindows.of(timedelta(days=9)))
        .aggregate(agg.into(First, agg.key(), agg.min(lambda day: day.start)))
    )

    def plan(out: Path) -> Pipeline:
        streams: dict[str, Any] = {"hours": hours, "bounds": bounds, "firsts": firsts}
        return Pipeline("bounds", *(stream.sink_to(ParquetFileSink(out / name)) for name, stream in streams.items()))

    def rows(engine: str, name: str) -> list[tuple[Any, ...]]:
        files = (tmp_path / engine / name).glob("*.parquet")
        return sorted(tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist())

    runner = SparkRunner(spark, partitions=1)
    assert "bounds of windows with their time zone" not in plan(tmp_path / "spark").explain(runner)
    runner.run_batch(plan(tmp_path / "spark"))
    LocalRunner().run(plan(tmp_path / "local"))
    for name in ("hours", "bounds", "firsts"):
        assert rows("spark", name) == rows("local", name) != []
    half_hours = {shown for shown, _, _ in rows("spark", "hours")}
    assert {datetime(2025, 10, 26, hour, minute, tzinfo=UTC) for hour in (0, 1) for minute in (0, 30)} <= half_hours
