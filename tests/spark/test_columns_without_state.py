"""Steps without state on columns, from a source to sinks, on Spark: the interpreter says what is right."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import UserFunctionError
from windrow.sinks import CollectSink, JsonFileSink, ParquetFileSink
from windrow.sources import MalformedRecord, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: rows as Parquet gives them.

BAD = OutputTag("bad", MalformedRecord)
NAMES = {"a": "Anna", "b": "Bert"}


@dataclass(frozen=True, slots=True)
class Visit:
    user: str
    path: str
    at: int
    seconds: int
    note: str


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    section: str
    day: str
    is_long: bool
    twice: int


@dataclass(frozen=True, slots=True)
class Count:
    user: str
    section: str
    visits: int
    start: int


@dataclass(frozen=True, slots=True)
class Shown:
    label: str
    hour: str


def page(visit: Visit) -> Page:
    day = datetime.fromtimestamp(visit.at // 1_000, UTC).strftime("%Y-%m-%d")
    section = visit.path.split("/")[1] if "/" in visit.path else "none"
    return Page(NAMES.get(visit.user, "nobody"), section, day, visit.seconds > 60, visit.seconds * 2)


def shown_as(count: Count) -> Shown:
    hour = datetime.fromtimestamp(count.start // 1_000, UTC).strftime("%H:%M")
    return Shown("many" if count.visits > 4 else count.user, hour)


def write(folder: Path, *, large: bool = False, bad: bool = False, broken: bool = False) -> None:
    """Four files of two row groups each; some values are such that columns cannot compute a batch."""
    folder.mkdir()
    for number in range(4):
        places = range(number * 40, number * 40 + 40)
        seconds = [2**61 if large and place % 37 == 5 else place % 120 for place in places]
        table = {
            "user": pa.array(["abc"[place % 3] for place in places]),
            "path": pa.array(["/x/y" if place % 4 else "/" if broken and place == 20 else "home" for place in places]),
            "at": pa.array([None if bad and place % 50 == 3 else place * 1_000 for place in places], pa.int64()),
            "seconds": pa.array(seconds, pa.int64()),
            "note": pa.array([None if bad and place % 60 == 7 else "n" for place in places]),
        }
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(table), file, row_group_size=25)
        os.utime(file, (1_600_000_000 + number,) * 2)


def visits(folder: Path) -> DataStream[Visit]:
    source = ParquetFileSource(folder, Visit, files_per_batch=1)
    return from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda visit: visit.at
    )


def rows(folder: Path) -> list[Any]:
    """The rows of all batches of a sink, in no order."""
    files = [str(file) for file in folder.rglob("*") if file.suffix == ".parquet" and "_" not in file.parent.name[:1]]
    return sorted(map(repr, ds.dataset(files).to_table().to_pylist() if files else []))


def pages(stream: DataStream[Visit], out: Path) -> DataStreamSink:
    kept = stream.filter(lambda visit: visit.user in {"a", "b"} or visit.seconds % 7 == 0)
    return kept.map(page).sink_to(ParquetFileSink(out))


def test_columns_write_what_the_interpreter_writes(spark: SparkSession, tmp_path: Path) -> None:
    """Where a product has more than 64 bits a sink of ints would fail, so it is divided again here."""
    write(tmp_path / "in")
    write(tmp_path / "large", large=True)
    large = visits(tmp_path / "large").filter(lambda visit: visit.seconds * 8 % 5 < 9)
    halves = large.map(lambda visit: Visit(visit.user, visit.path, visit.at, visit.seconds * 4 // 8, visit.note))
    streams = {"small": visits(tmp_path / "in"), "large": halves}

    def plan(out: Path) -> Pipeline:
        return Pipeline("pages", *(pages(stream, out / name) for name, stream in streams.items()))

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert plan(tmp_path / "out").explain(runner).count("runs as columns, in Arrow") == len(streams)
    runner.run(plan(tmp_path / "out"))
    LocalRunner().run(plan(tmp_path / "local"))
    for name in streams:
        assert len(rows(tmp_path / "local" / name)) > 100
        assert rows(tmp_path / "out" / name) == rows(tmp_path / "local" / name), name


def test_a_batch_job_and_objects_write_the_same(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in")
    SparkRunner(spark).run_batch(Pipeline("job", pages(visits(tmp_path / "in"), tmp_path / "job")))
    runner = SparkRunner(spark, columnar=False)
    plan = Pipeline("objects", pages(visits(tmp_path / "in"), tmp_path / "objects"))
    assert "in Arrow" not in plan.explain(runner)
    runner.run(plan)
    assert rows(tmp_path / "job") == rows(tmp_path / "objects") != []


def test_malformed_records_are_set_aside_whole(spark: SparkSession, tmp_path: Path) -> None:
    """A file that may have them is read whole, though the sink takes two of its columns."""
    write(tmp_path / "in", bad=True)
    source = from_source(ParquetFileSource(tmp_path / "in", Visit, on_malformed=BAD))
    kept, bad = CollectSink[Any](), CollectSink[MalformedRecord]()
    local_kept, local_bad = CollectSink[Any](), CollectSink[MalformedRecord]()
    out = source.map(lambda visit: (visit.user, visit.seconds)).returns(tuple[str, int])

    def plan(one: CollectSink[Any], other: CollectSink[MalformedRecord], folder: Path) -> Pipeline:
        return Pipeline(
            "p", out.sink_to(ParquetFileSink(folder)), out.sink_to(one), source.get_side_output(BAD).sink_to(other)
        )

    result = SparkRunner(spark).run(plan(kept, bad, tmp_path / "out"))
    local = LocalRunner().run(plan(local_kept, local_bad, tmp_path / "local"))
    assert sorted(result.collected(kept)) == sorted(local.collected(local_kept))
    assert rows(tmp_path / "out") == rows(tmp_path / "local")
    assert len(result.collected(bad)) == len(local.collected(local_bad)) > 4
    assert sorted(each.raw for each in result.collected(bad)) == sorted(each.raw for each in local.collected(local_bad))


def test_the_error_is_that_of_the_function(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", broken=True)
    failing = visits(tmp_path / "in").map(lambda visit: visit.path.split("/")[2]).returns(str)
    plan = Pipeline("p", failing.filter(lambda part: part != "").sink_to(ParquetFileSink(tmp_path / "out")))
    with pytest.raises(UserFunctionError, match="list index out of range") as raised:
        SparkRunner(spark).run_batch(plan)
    assert "element Visit with path='home'" in str(raised.value)


def test_results_go_on_as_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A keyed step, steps without state behind it, two sinks of results and one of the source itself."""
    write(tmp_path / "in")
    stream = visits(tmp_path / "in")
    counts = (
        stream.key_by(lambda visit: (visit.user, visit.path.split("/")[1] if "/" in visit.path else "none"))
        .window(TumblingEventTimeWindows.of(timedelta(seconds=20)))
        .aggregate(
            agg.into(
                Count,
                user=agg.max(lambda visit: visit.user),
                section=agg.min(lambda visit: visit.path),
                visits=agg.count(),
                start=agg.window_start(),
            )
        )
    )
    shown = counts.filter(lambda count: count.visits > 2).map(shown_as)

    def plan(folder: Path) -> Pipeline:
        return Pipeline(
            "p",
            shown.sink_to(ParquetFileSink(folder / "shown")),
            counts.sink_to(ParquetFileSink(folder / "counts")),
            stream.map(page).sink_to(ParquetFileSink(folder / "pages")),
            counts.union(stream.map(lambda visit: Count(visit.user, visit.path, 1, visit.at))).sink_to(
                ParquetFileSink(folder / "both")
            ),
            stream.map(page).sink_to(JsonFileSink(folder / "json")),
        )

    result = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(plan(tmp_path / "spark"))
    local = LocalRunner().run(plan(tmp_path / "local"))
    for name in ("shown", "counts", "pages", "both"):
        assert rows(tmp_path / "spark" / name) == rows(tmp_path / "local" / name) != []
    lines = [
        sorted(
            repr(json.loads(line))
            for file in (tmp_path / engine / "json").rglob("[!.]*.json")
            for line in file.read_text().splitlines()
        )
        for engine in ("spark", "local")
    ]
    assert lines[0] == lines[1] != []
    assert result.counters == local.counters
