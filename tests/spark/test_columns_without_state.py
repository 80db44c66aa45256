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

from tests.spark.timed import timed
from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, from_source
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
    source = ParquetFileSource(folder, Visit, files_per_batch=2)
    return timed(from_source(source))


def rows(folder: Path) -> list[Any]:
    """The rows of all batches of a sink, in no order."""
    files = [str(file) for file in folder.rglob("*") if file.suffix == ".parquet" and "_" not in file.parent.name[:1]]
    return sorted(map(repr, ds.dataset(files).to_table().to_pylist() if files else []))


def pages(stream: DataStream[Visit], out: Path) -> DataStreamSink:
    kept = stream.filter(lambda visit: visit.user in {"a", "b"} or visit.seconds % 7 == 0)
    return kept.map(page).sink_to(ParquetFileSink(out))


class Everything:
    """Steps without state behind sources of all kinds, and behind a keyed step."""

    def __init__(self, folder: Path, out: Path) -> None:
        """Where a product has more than 64 bits a sink of ints would fail, so it is divided again here."""
        stream = visits(folder / "in")
        large = visits(folder / "large").filter(lambda visit: visit.seconds * 8 % 5 < 9)
        halves = large.map(lambda visit: Visit(visit.user, visit.path, visit.at, visit.seconds * 4 // 8, visit.note))
        # A file that may have malformed records is read whole, though the sink takes two of its columns.
        source = from_source(ParquetFileSource(folder / "bad", Visit, on_malformed=BAD))
        kept = source.map(lambda visit: (visit.user, visit.seconds)).returns(tuple[str, int])
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
        both = counts.union(stream.map(lambda visit: Count(visit.user, visit.path, 1, visit.at)))
        shown = counts.filter(lambda count: count.visits > 2).map(shown_as)
        files: dict[str, DataStream[Any]] = {
            "kept": kept,
            "shown": shown,
            "counts": counts,
            "pages": stream.map(page),
            "both": both,
        }
        self.kept, self.bad = CollectSink[Any](), CollectSink[MalformedRecord]()
        self.pipeline = Pipeline(
            "everything",
            pages(stream, out / "small"),
            pages(halves, out / "large"),
            *(stream.sink_to(ParquetFileSink(out / name)) for name, stream in files.items()),
            stream.map(page).sink_to(JsonFileSink(out / "json")),
            kept.sink_to(self.kept),
            source.get_side_output(BAD).sink_to(self.bad),
        )
        self.files = ["small", "large", *files]


def lines(folder: Path) -> list[str]:
    texts = (file.read_text() for file in folder.rglob("[!.]*.json"))
    return sorted(repr(json.loads(line)) for text in texts for line in text.splitlines())


def test_columns_write_what_the_interpreter_writes(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("in", "large", "bad"):
        write(tmp_path / name, **{} if name == "in" else {name: True})
    on_spark, wanted = Everything(tmp_path, tmp_path / "spark"), Everything(tmp_path, tmp_path / "local")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    assert on_spark.pipeline.explain(runner).count("runs as columns, in Arrow") == 5
    result, local = runner.run(on_spark.pipeline), LocalRunner().run(wanted.pipeline)
    for name in wanted.files:
        assert rows(tmp_path / "spark" / name) == rows(tmp_path / "local" / name) != [], name
    assert lines(tmp_path / "spark" / "json") == lines(tmp_path / "local" / "json") != []
    assert sorted(result.collected(on_spark.kept)) == sorted(local.collected(wanted.kept))
    malformed = sorted(each.raw for each in result.collected(on_spark.bad))
    assert malformed == sorted(each.raw for each in local.collected(wanted.bad))
    assert len(malformed) > 4
    assert result.counters == local.counters


def test_a_batch_job_and_objects_write_the_same(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in")
    SparkRunner(spark).run_batch(Pipeline("job", pages(visits(tmp_path / "in"), tmp_path / "job")))
    runner = SparkRunner(spark, columnar=False)
    plan = Pipeline("objects", pages(visits(tmp_path / "in"), tmp_path / "objects"))
    assert "in Arrow" not in plan.explain(runner)
    runner.run_batch(plan)
    assert rows(tmp_path / "job") == rows(tmp_path / "objects") != []


def test_the_error_is_that_of_the_function(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", broken=True)
    failing = visits(tmp_path / "in").map(lambda visit: visit.path.split("/")[2]).returns(str)
    plan = Pipeline("p", failing.filter(lambda part: part != "").sink_to(ParquetFileSink(tmp_path / "out")))
    with pytest.raises(UserFunctionError, match="list index out of range") as raised:
        SparkRunner(spark).run_batch(plan)
    assert "element Visit with path='home'" in str(raised.value)
