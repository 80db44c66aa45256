"""Paths on Spark: literal wherever something has that name, and patterns elsewhere."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from tests.budget import for_a_night
from tests.spark.comparison import millis
from tests.spark.streams import stamped
from windrow import DataStream, Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, SourceError
from windrow.sinks import CollectSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import LineRecords
from windrow_runtime.connectors.files.formats import TextReader
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.connectors.files.scanner import NamedFiles
from windrow_spark.paths import as_read_path, as_spark_path, source_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ["w[1]", "x{y,z}", "a*b", "a?b", "back\\slash", "co:lon", "bl ank", "p%20q", "h#h", "ünï", "a]b}c"]


@dataclass(frozen=True)
class Row:
    batch: int


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("/a/w[1]", r"file:///a/w\[1\]"),
        ("/a/back\\slash", "file:///a/back\\\\slash"),
        ("file:/a/b c%20", "file:///a/b c%20"),
        ("s3a://bucket:80/{x}*?", r"s3a://bucket:80/\{x\}\*\?"),
        ("/a:b/c", "file:///a:b/c"),
    ],
)
def test_a_literal_path_as_spark_reads_it(path: str, taken: str) -> None:
    assert as_read_path(path) == taken
    assert as_spark_path(path) == taken.replace("\\\\", "/").replace("\\", "").replace("back/", "back\\")


def test_spark_cannot_look_for_a_name_with_a_colon(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a:b[1]").mkdir()
    step = from_source(JsonFileSource(tmp_path / "a:b[1]", int)).sink_to(CollectSink[int]())
    with pytest.raises(InvalidArgumentError, match=r"a colon(.|\n)*test_paths.py:\d+"):
        SparkRunner(spark).run(Pipeline("colon", step))
    with pytest.raises(InvalidArgumentError, match="a colon"):
        SparkRunner(spark, checkpoint=tmp_path / "a:b[1]").run(
            Pipeline("colon", from_collection([1]).sink_to(CollectSink[int]()))
        )


def test_the_path_of_a_source(tmp_path: Path) -> None:
    (tmp_path / "w[1]").mkdir()

    def taken(path: str) -> str:
        return source_path(cast("SparkSession", None), f"{tmp_path}/{path}")

    assert taken("w[1]") == rf"file://{tmp_path}/w\[1\]"
    assert taken("w[1]/logs-*/?x/[a-c]") == rf"file://{tmp_path}/w\[1\]/logs-*/[^_.]x/[a-c]"
    assert taken("w[2]") == f"file://{tmp_path}/w[2]"
    with pytest.raises(SourceError, match="does not exist"):
        taken("w[1]/none")
    with pytest.raises(InvalidArgumentError, match="not closed"):
        taken("w[1]/x{")


def test_a_name_that_is_not_utf_8_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in (b"a\xff", b"b\xfe.json", b"_hidden\xff"):
        folder = os.fsencode(tmp_path) + b"/in/" + name
        os.mkdir(folder)
        with open(folder + b"/x.json", "w") as file:
            file.write('{"batch": 1}')
    runners = (LocalRunner(), SparkRunner(spark), SparkRunner(spark, checkpoint=tmp_path / "checkpoint"))
    for path, shown in (("in/*b*.json", r"b\xfe.json"), ("in/a*", r"a\xff")):
        stream = from_source(JsonFileSource(tmp_path / path, Row))
        pipeline = Pipeline("names", stream.sink_to(CollectSink[Row]()))
        for runner in runners:
            with pytest.raises(SourceError, match="the name of a file is not UTF-8") as caught:
                runner.run(pipeline)
            assert caught.value.given == f"{tmp_path}/in/{shown}"
            assert str(caught.value.where).startswith("names.1.source, ")
    with pytest.raises(SourceError, match="is not UTF-8"):
        runners[1].run_batch(
            Pipeline("names", from_source(JsonFileSource(tmp_path / "in", Row)).sink_to(CollectSink[Row]()))
        )


def test_a_file_with_the_name_of_the_pattern_that_comes_later(tmp_path: Path) -> None:
    pattern = str(tmp_path / "logs*.json")
    lines = TextReader(LineRecords(record_type(str), "utf-8", json=False))
    files = NamedFiles(pattern, "logs*.json", "p.1.source", lines)
    names = [f"file://{tmp_path}/{name}" for name in ("logs1.json", "logs*.json", "other.json", "logs/_x.json")]
    (tmp_path / "logs1.json").write_text("1")
    (tmp_path / "logs*.json").write_text("2")
    given = pa.table({"__time": [7, 8, 8, 8], "__file": names, "__part": [0] * 4, "__parts": [1] * 4})
    assert [value for chunk in files(iter([given])) for value in chunk.values] == ["1", "2"]


def write(folder: Path, number: int, *below: str) -> None:
    folder.joinpath(*below).mkdir(parents=True)
    (folder.joinpath(*below) / "a.json").write_text(f'{{"batch": {number}}}\n')


def sums(stream: DataStream[Row]) -> DataStream[int]:
    keyed = stamped(stream, at=lambda row: row.batch).key_by(lambda row: row.batch % 2)
    windows = keyed.window(TumblingEventTimeWindows.of(millis(100)))
    return windows.apply(lambda key, window, rows: [sum(row.batch for row in rows)]).returns(int)


def test_sources_are_literal_or_patterns(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate(ODD):
        write(tmp_path / "in" / name, number, "day=7", "deep")
    for number, name in enumerate(["w1", "xy", "axb", "logs-1", "logs-2", "_logs", "logs[1]"]):
        write(tmp_path / "in" / name, 200 + number)
        write(tmp_path / "in" / "patterns" / name, 100 + number)
    patterns = ["logs-*", "logs-[2]", "logs[[]1]", "{w1,xy}", "?xb/*.json", "*/*.json", "logs[1]", "*xy", "{*logs,xy}"]
    paths = [*ODD, *(f"patterns/{pattern}" for pattern in patterns), "a?b/*/*/*.json"]
    sinks = [CollectSink[Row](path) for path in paths]
    pipeline = Pipeline(
        "paths",
        *(
            from_source(JsonFileSource(tmp_path / "in" / path, Row)).sink_to(sink)
            for path, sink in zip(paths, sinks, strict=True)
        ),
    )
    runner = SparkRunner(spark)
    results = [run(pipeline) for run in (LocalRunner().run, runner.run, *for_a_night([runner.run_batch], []))]
    local, *on_spark = ([sorted(row.batch for row in result.collected(sink)) for sink in sinks] for result in results)
    names = len(ODD)
    assert local[:names] == [[number] for number in range(names)]
    shown = [[103, 104], [104], [106], [100, 101], [102], [100, 101, 102, 103, 104, 106], [106], [101], [101]]
    assert local[names:] == [*shown, [3]]
    assert all(rows == local for rows in on_spark)


def test_a_pattern_beside_a_name_with_a_colon(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate(("logs-1", "10:30")):
        write(tmp_path / name, number)
    sink = CollectSink[Row]()
    pipeline = Pipeline("p", from_source(JsonFileSource(tmp_path / "logs-*", Row)).sink_to(sink))
    with pytest.raises(SourceError, match=r"a name holds a colon(.|\n)*10:30"):
        SparkRunner(spark).run(pipeline)
    # Spark lists no files for a batch job.
    assert SparkRunner(spark).run_batch(pipeline).collected(sink) == [Row(0)]


def test_a_checkpoint_and_sinks_with_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    odd = "all *?[1]{x}\\ %20#ü"
    elements = [Row(number) for number in range(8)]
    for number, row in enumerate(elements):
        write(tmp_path / odd, row.batch, f"batch={number}")
        os.utime(tmp_path / odd / f"batch={number}" / "a.json", (1_600_000_000 + number,) * 2)
    files = from_source(JsonFileSource(tmp_path / odd, Row, files_per_batch=4))
    taken, listed = CollectSink[int]("windows"), CollectSink[Row]("collection")
    rows = from_collection(elements)
    pipeline = Pipeline(
        "odd",
        sums(files).sink_to(taken),
        rows.sink_to(listed),
        files.sink_to(JsonFileSink(tmp_path / f"json {odd}")),
        files.sink_to(ParquetFileSink(tmp_path / f"parquet {odd}")),
    )
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoints" / odd, partitions=1)
    first = runner.run(pipeline, drain=False)
    assert sorted(first.collected(listed), key=lambda row: row.batch) == elements
    assert sorted([*first.collected(taken), *runner.run(pipeline).collected(taken)]) == [12, 16]

    # The files that were written hold the field as it was, whatever the folders are called.
    sinks = CollectSink[Row]("json"), CollectSink[Row]("parquet")
    back = Pipeline(
        "back",
        from_source(JsonFileSource(tmp_path / f"json {odd}", Row)).sink_to(sinks[0]),
        from_source(ParquetFileSource(tmp_path / f"parquet {odd}", Row)).sink_to(sinks[1]),
    )
    for result in (LocalRunner().run(back), SparkRunner(spark).run_batch(back)):
        for sink in sinks:
            assert sorted(result.collected(sink), key=lambda row: row.batch) == elements
