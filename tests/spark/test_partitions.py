"""Files in folders of values on Spark: the rows, batches that are run again, and readers."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.budget import examples, for_a_night
from tests.outputs.test_partitions import BY, Level, Row, expected, rows, written
from tests.spark.comparison import Event
from tests.spark.stopped_moves import ROWS, Stopper, pipeline
from tests.spark.streams import tumbling
from tests.support.files import forget_batch
from tests.support.thorough import thorough
from windrow import DataStream, Pipeline, from_source
from windrow.aggregates import count, into, key, window_start
from windrow.errors import SinkError, UnsupportedOperationError
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource
from windrow_runtime.spark import SparkRunner
from windrow_spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: rows have columns of several types.

SINKS: Final[dict[str, Callable[..., FileSink[Row]]]] = {
    "parquet": ParquetFileSink,
    "csv": CsvFileSink,
    "json": JsonFileSink,
}


@dataclass(frozen=True)
class Total:
    key: str
    start: int
    size: int


def stream_of(elements: list[Row], size: int) -> DataStream[Row]:
    return from_source(CollectionSource(elements, Row, batch_size=size))


# Few examples: each is a run of three sinks. Workers write two of them, and Spark's writer the files of JSON;
# tests/outputs/test_partitions.py has many.
@examples(2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(elements=st.lists(rows, min_size=1, max_size=30))
def test_arrow_reads_what_was_written(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, elements: list[Row]
) -> None:
    out = tmp_path_factory.mktemp("out")
    stream = stream_of(elements, 1 + len(elements) // 2)
    ends = [stream.sink_to(sink(out / form, partition_by=BY)) for form, sink in SINKS.items()]
    SparkRunner(spark).run(Pipeline("write", *ends), drain=False)
    for form in SINKS:
        assert written(out / form, form) == expected(elements)
    # Spark and DuckDB take the values from the folders as well, by the types that they guess.
    whole = sorted((row.count, row.note) for row in elements)
    frame = spark.read.parquet(f"{out}/parquet")
    assert sorted((row["count"], row["note"]) for row in frame.collect()) == whole
    assert set(frame.columns) == {"count", "note", *BY}
    found = duckdb.sql(f"SELECT * FROM read_parquet('{out}/parquet/name=*/**/*.parquet', hive_partitioning=true)")
    assert set(found.columns) == {"count", "note", *BY}
    assert sorted(found.project('"count", note').fetchall()) == whole


def elements_of(size: int) -> list[Row]:
    return [
        Row(f"06:{place % 4:02}", place, place % 2, None, date(2026, 3, 1), Level.LOW, "x") for place in range(size)
    ]


@pytest.mark.classic("fails between two renames in this process, where no batch of a server is written")
@pytest.mark.parametrize("form", ["parquet", "json", thorough("csv", reason="workers write it as they do Parquet")])
def test_a_run_that_died_while_it_made_a_batch_visible_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    elements = elements_of(24)
    out = tmp_path / "out"
    pipeline = Pipeline("write", stream_of(elements, 8).sink_to(SINKS[form](out, partition_by=("name", "number"))))
    replace = os.replace
    moved = [0]

    def dying(source: Any, target: Any) -> None:
        moved[0] += "batch-1-" in str(target)
        if moved[0] == 3:
            raise OSError(5, "the machine is gone")
        replace(source, target)

    def found() -> Counter[str]:
        """How many rows there are of each batch."""
        counts: Counter[str] = Counter()
        for file in out.glob("name=*/*/batch-*"):
            rows = ds.dataset(file, format=form).count_rows()
            counts[file.name.split("-")[1]] += rows
        return counts

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        with pytest.raises(SinkError, match="the machine is gone"):
            runner.run(pipeline, drain=False)
    assert found()["0"] == 8
    assert 0 < found()["1"] < 8
    seen = {file: file.stat().st_mtime_ns for file in out.rglob("batch-*")}
    runner.run(pipeline, drain=False)
    assert found() == {"0": 8, "1": 8, "2": 8}
    # The attempt that died wrote the files: none that a reader has seen went or became another one.
    assert {file: file.stat().st_mtime_ns for file in seen} == seen

    # As after a crash between the sinks and Spark's note that the batch is done.
    forget_batch(tmp_path / "checkpoint", 2)
    before = {file.name for file in out.rglob("batch-2-*")}
    runner.run(pipeline, drain=False)
    after = {file.name for file in out.rglob("batch-2-*")}
    assert found() == {"0": 8, "1": 8, "2": 8}
    assert before == after


def test_results_of_windows_are_written_as_columns(spark: SparkSession, tmp_path: Path) -> None:
    events = from_source(CollectionSource([Event("a:b"[n % 3], n * 10, n) for n in range(24)], Event, batch_size=8))
    totals = tumbling(events, 60).aggregate(into(Total, key=key(), start=window_start(), size=count()))
    pipeline = Pipeline("totals", totals.sink_to(ParquetFileSink(tmp_path, partition_by="key")))
    SparkRunner(spark).run_batch(pipeline)
    found = duckdb.sql(f"SELECT key, sum(size) FROM read_parquet('{tmp_path}/key=*/*.parquet') GROUP BY key").fetchall()
    assert dict(found) == {"a": 8, ":": 8, "b": 8}
    assert sorted(entry.name for entry in tmp_path.glob("key=*")) == ["key=%3A", "key=a", "key=b"]


def test_other_file_systems(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    # A file system of Spark's that is not mounted, as far as windrow can see.
    spark.conf.set("fs.viewfs.mounttable.parts.link./out", f"file://{tmp_path}/elsewhere")
    elements = elements_of(24)
    forms = for_a_night(tuple(SINKS), ("csv",))  # a test below has JSON there, test_older_checkpoints.py Parquet

    def pipeline(size: int = 24) -> Pipeline:
        stream = stream_of(elements[:size], 12)
        options = {"csv": {"header": False}}
        ends = [
            stream.sink_to(
                SINKS[form](f"viewfs://parts/out/{form}", partition_by=("name", "number"), **options.get(form, {}))
            )
            for form in forms
        ]
        return Pipeline("elsewhere", *ends)

    def counts(form: str) -> int:
        frame = spark.read.format(form).load(f"{tmp_path}/elsewhere/{form}")
        assert {"name", "number", "windrow_batch"} < set(frame.columns)
        found = frame.collect()
        assert {row["name"] for row in found} == {f"06:{minute:02}" for minute in range(4)}
        return len(found)

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    try:
        runner.run(pipeline(), drain=False)
        assert [counts(form) for form in forms] == [24] * len(forms)
        whole = {f"batch-{number}" for number in range(2)}
        for form in () if is_connect(spark) else forms:
            assert {file.name for file in (tmp_path / "elsewhere" / form / "_windrow").glob("batch-*")} == whole
        # What an earlier version has written in place until it was killed is deleted, and written anew.
        stale = [tmp_path / "elsewhere" / form / "name=gone" / "number=99" / "windrow_batch=1" / "a" for form in forms]
        for file in stale:
            file.parent.mkdir(parents=True)
            file.write_bytes(b"damaged")
        for form in () if is_connect(spark) else forms:
            (tmp_path / "elsewhere" / form / "_windrow" / "batch-1").unlink()
        forget_batch(tmp_path / "checkpoint", 1)
        runner.run(pipeline(), drain=False)
        if is_connect(spark):
            for file in stale:
                file.unlink()
        assert not any(file.exists() for file in stale)
        assert [counts(form) for form in forms] == [24] * len(forms)
        with pytest.raises(SinkError, match=r"batches of another run(.|\n)*viewfs://parts/out"):
            SparkRunner(spark).run(pipeline())
        headed = CsvFileSink[Row]("viewfs://parts/out/new", partition_by="name")
        with pytest.raises(UnsupportedOperationError, match=r"with a header(.|\n)*header=False"):
            SparkRunner(spark).run(Pipeline("headed", stream_of(elements, 8).sink_to(headed)))
    finally:
        spark.conf.unset("fs.viewfs.mounttable.parts.link./out")


# File systems that are not mounted: when readers see the files of batches, and that these stay. Here it is Hadoop's
# view of a folder of this machine; tests/elsewhere and tests/crash have S3 and HDFS.

IN_PLACE = "over Spark Connect nothing can be moved, and Spark writes in place"


def shown(out: Path) -> dict[str, tuple[int, bytes]]:
    """The files that no reader passes over, by their paths, with when they were written and what they have."""
    return {
        str(file.relative_to(out)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in out.rglob("*")
        if file.is_file() and not any(re.match(r"\.|_(?!.*=)", part) for part in file.relative_to(out).parts)
    }


def numbers(files: dict[str, Any]) -> dict[str, int]:
    """How many files each batch has."""
    found = [name.partition("windrow_batch=")[2].partition("/")[0] for name in files]
    return {number: found.count(number) for number in sorted(set(found))}


def staged(out: Path) -> list[Path]:
    return list((out / "_windrow").rglob("part-*"))


@pytest.mark.classic(reason=IN_PLACE)
@pytest.mark.thorough(reason="test_storage.py stops a batch at each move; the test below goes on from the first one")
def test_a_run_that_died_between_two_moves_goes_on_with_the_next(
    spark: SparkSession, view: str, tmp_path: Path
) -> None:
    """``test_storage.py`` stops a batch at each move."""
    out = tmp_path / "here" / "out"
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    stopper = Stopper(1)
    with pytest.raises(SinkError, match="the machine is gone"):
        runner.run(pipeline(JsonFileSink(f"{view}/out", partition_by=("key", "value"))), drain=False)
    stopper.end()
    before = shown(out)
    assert numbers(before)["1"] == 1
    listed = json.loads(next((out / "_windrow" / "staging").rglob("batch-1/files")).read_text())
    # The list holds, whatever would be written now.
    runner.run(pipeline(JsonFileSink(f"{view}/out", partition_by="value")), drain=False)
    after = shown(out)
    assert before.items() <= after.items()
    assert numbers(after).keys() == {"0", "1", "3"}
    assert numbers(after)["1"] == len(listed["files"])
    moved = {name.replace("windrow_batch=1/", "") for name in after if "windrow_batch=1/" in name}
    assert moved == set(listed["files"])
    rows = [json.loads(line)["at"] for _, content in after.values() for line in content.splitlines()]
    assert sorted(rows) == [event.at for event in ROWS]
    assert {file.name for file in (out / "_windrow").iterdir() if file.is_file() and file.suffix != ".crc"} == {
        "batch-0",
        "batch-1",
        "batch-3",
    }
    assert staged(out) == []

    # As after a crash between the sinks and Spark's note that the batch is done.
    forget_batch(tmp_path / "checkpoint", 3)
    runner.run(pipeline(JsonFileSink(f"{view}/out", partition_by="value")), drain=False)
    assert shown(out) == after
    assert staged(out) == []


@pytest.mark.classic(reason=IN_PLACE)
def test_readers_pass_over_a_batch_until_all_of_it_is_written(spark: SparkSession, view: str, tmp_path: Path) -> None:
    out = tmp_path / "here" / "out"
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    stopper = Stopper(0)

    def counts() -> set[int]:
        pattern = f"SELECT count(*) FROM read_parquet('{out}/windrow_batch=*/*.parquet')"
        return {
            spark.read.parquet(str(out)).count(),
            spark.read.option("recursiveFileLookup", "true").parquet(str(out)).count(),
            ds.dataset(out, partitioning="hive").count_rows(),
            duckdb.sql(pattern).fetchall()[0][0],
        }

    with pytest.raises(SinkError, match="the machine is gone"):
        runner.run(pipeline(ParquetFileSink(f"{view}/out")), drain=False)
    stopper.end()
    assert staged(out)
    assert counts() == {8}
    # Another attempt of the batch, which never came to its list, and a dead run of another checkpoint.
    for left in ("staging/another/batch-1/attempt-1", "staging/another/batch-9/attempt-1"):
        place = out / "_windrow" / left / "part-0.parquet"
        place.parent.mkdir(parents=True)
        place.write_bytes(b"half")
    assert counts() == {8}
    runner.run(pipeline(ParquetFileSink(f"{view}/out")), drain=False)
    assert counts() == {24}
    assert staged(out) == []
    assert {file.parent.name for file in out.rglob("_SUCCESS")} == {f"windrow_batch={batch}" for batch in (0, 1, 3)}
