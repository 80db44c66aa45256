"""Files that Spark's workers write are those that the interpreter writes, and Spark reads the same values from them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.budget import for_a_night
from tests.outputs.every_type import COLUMNS, FLATS, FORMATS, NESTED, RECORDS, lines_in, pipeline_of
from windrow import Pipeline, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.spark import SparkRunner

# Any in this module: records of several classes.


def read_back(run: Callable[[Pipeline], PipelineResult], out: Path) -> dict[str, list[str]]:
    """What windrow reads of each folder."""
    ends, sinks = [], {}
    for name, (_, kind) in RECORDS.items():
        for form, (_, source) in FORMATS.items():
            folder = f"{name}-{form}"
            sinks[folder] = CollectSink[Any](folder)
            ends.append(from_source(source(out / folder, kind)).sink_to(sinks[folder]))
    result = run(Pipeline("read", *ends))
    return {folder: sorted(map(repr, map(plain, result.collected(sink)))) for folder, sink in sinks.items()}


def plain(record: Any) -> Any:
    """An element whose sets and keys have an order."""
    if isinstance(record, dict):
        return sorted(record.items())
    values = [getattr(record, name) for name in getattr(record, "__annotations__", ())]
    return [sorted(value) if isinstance(value, frozenset) else value for value in values] or record


def test_both_engines_write_the_same_files_as_a_stream_and_as_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    pipelines = {how: pipeline_of(tmp_path / how) for how in ("local", "stream", "batch")}
    LocalRunner().run(pipelines["local"])
    SparkRunner(spark).run(pipelines["stream"])
    SparkRunner(spark).run_batch(pipelines["batch"])
    wanted = lines_in(tmp_path / "local")
    assert all(wanted.values())
    expected = read_back(LocalRunner().run, tmp_path / "local")
    for name, (elements, _) in RECORDS.items():
        for form in FORMATS:
            assert len(expected[f"{name}-{form}"]) == len(elements)
    for how in ("stream", "batch"):
        found = lines_in(tmp_path / how)
        for folder, lines in wanted.items():
            # Each file of CSV begins with the header.
            assert (set(found[folder]) if folder.endswith("csv") else found[folder]) == (
                set(lines) if folder.endswith("csv") else lines
            ), f"{how} {folder}"
        assert read_back(LocalRunner().run, tmp_path / how) == expected
    assert read_back(SparkRunner(spark).run_batch, tmp_path / "stream") == expected

    # Plain Spark, by the names of the folders.
    def folders(name: str) -> list[str]:
        return [str(tmp_path / how / name) for how in pipelines]

    # PySpark makes no datetime of the year 1.
    frame = spark.read.parquet(*folders("flat-parquet")).drop("at")
    flat = sorted(frame.collect(), key=lambda row: row["number"])
    for row, record in zip(flat, sorted(FLATS * 3, key=lambda record: record.number), strict=True):
        values = ("flag", "number", "ratio", "text", "amount", "day", "took", "maybe", "perhaps")
        assert [row[name] for name in values] == [getattr(record, name) for name in values]
        assert bytes(row["raw"]) == record.raw
    nested = spark.read.parquet(*folders("nested-parquet")).where("size(spans) > 0").collect()
    assert len(nested) == 3
    for row in nested:
        assert row["spans"] == NESTED[0].spans
        assert row["by_name"] == NESTED[0].by_name
        assert row["inner"]["point"]["span"] == timedelta(days=400)
    assert spark.read.json(folders("flat-json")).count() == 3 * len(FLATS)
    assert spark.read.csv(folders("columns-csv"), header=True).count() == 3 * len(COLUMNS)
    for file in tmp_path.glob("*/flat-parquet/*.parquet"):
        assert "INT96" not in str(pq.ParquetFile(file).schema)


# Spark writes lines of text elsewhere, whatever records they are of.
ELSEWHERE = for_a_night(
    [(name, form) for name in RECORDS for form in FORMATS if form == "parquet" or name in {"flat", "columns"}],
    [("flat", "json"), ("nested", "parquet"), *(("columns", form) for form in FORMATS)],
)


def test_what_spark_writes_elsewhere_is_the_same(spark: SparkSession, view: str, tmp_path: Path) -> None:
    """In a file system of Spark's that is not mounted, as far as windrow can see: one job writes all formats."""
    streams = {name: from_source(CollectionSource(*records), name=name) for name, records in RECORDS.items()}
    ends = [streams[name].sink_to(FORMATS[form][0](f"{view}/{name}-{form}")) for name, form in ELSEWHERE]
    SparkRunner(spark).run_batch(Pipeline("elsewhere", *ends))
    LocalRunner().run(pipeline_of(tmp_path / "mounted"))
    for name, form in ELSEWHERE:
        assert_same(form, name, tmp_path / "here" / f"{name}-{form}", tmp_path / "mounted" / f"{name}-{form}")
    for form in FORMATS:
        assert spark.read.format(form).load(str(tmp_path / "here" / f"columns-{form}")).count() > 0


def assert_same(form: str, name: str, *places: Path) -> None:
    """Two folders hold the same records of a kind."""
    if form != "parquet":
        files = [[each for each in place.rglob("*part-*") if each.suffix != ".crc"] for place in places]
        found, wanted = ({line for file in each for line in file.read_bytes().splitlines()} for each in files)
        assert found, (form, name)
        assert found == wanted, (form, name)
        return
    sinks = [CollectSink[Any](), CollectSink[Any]()]
    _, source = FORMATS[form]
    kind = RECORDS[name][1]
    read = [from_source(source(place, kind)).sink_to(end) for place, end in zip(places, sinks, strict=True)]
    result = LocalRunner().run(Pipeline("read", *read))
    one, other = (sorted(map(repr, map(plain, result.collected(sink)))) for sink in sinks)
    assert one == other
    for file in places[0].rglob("*.parquet"):
        assert "INT96" not in str(pq.ParquetFile(file).schema)
