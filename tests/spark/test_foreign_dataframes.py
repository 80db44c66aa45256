"""DataFrames and Parquet files whose columns are not those of the record: other names and types, or none at all."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.thorough import thorough
from windrow import DataStream, OutputTag, Pipeline, from_dataframe, from_source
from windrow.errors import WindrowWarning
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import MalformedRecord, ParquetFileSource
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spelt = TypedDict("Spelt", {"a.b": int, "x`y": str, "A": int})


class Cases(TypedDict):
    a: int
    A: int


class Note(NamedTuple):
    note: str | None = None
    weight: int = 1


class Wide(NamedTuple):
    number: int
    ratio: float
    key: UUID
    note: str | None


class Part(NamedTuple):
    a: int | None


class Void(NamedTuple):
    numbers: list[int]
    counts: dict[str, int]
    part: Part
    parts: list[Part]


class Text(NamedTuple):
    text: str
    number: int


BAD = OutputTag("bad", MalformedRecord)
ID = "12345678-1234-5678-1234-567812345678"


OF_A_STREAM = "a batch job reads rows likewise; a test below and test_runner_sources.py have streams"


@pytest.mark.parametrize("batch", [thorough(False, reason=OF_A_STREAM), True])
def test_dataframes_of_others(spark: SparkSession, batch: bool) -> None:
    spelt = spark.sql("SELECT 1 AS `a.b`, 'x' AS `x``y`, 2 AS A, 3 AS a")
    cases = spark.sql("SELECT 1 AS a, 2 AS A")
    wide = spark.sql(
        "SELECT CAST(n AS DECIMAL(20, 0)) AS number, CAST(r AS BIGINT) AS ratio, k AS key, NULL AS note FROM VALUES "
        f"(7, 4, unhex('{ID.replace('-', '')}')), (18446744073709551615, 1, unhex('00')), "
        f"(8, 9007199254740993, unhex('{ID.replace('-', '')}')) AS t(n, r, k)"
    )
    void = spark.sql(
        "SELECT array() AS numbers, CAST(map() AS MAP<STRING, VOID>) AS counts, struct(NULL AS a) AS part, "
        "array(struct(NULL AS a, NULL AS b)) AS parts"
    )
    streams: list[DataStream[Any]] = [
        from_dataframe(spelt, Spelt),
        from_dataframe(cases, Cases),
        from_dataframe(spark.range(3), Note),
        from_dataframe(wide, Wide, on_malformed=BAD),
        from_dataframe(void, Void),
    ]
    with pytest.warns(WindrowWarning, match="the DataFrame has 'id', which no field takes, and lacks 'note', 'weight'"):
        found = collected(SparkRunner(spark), batch, *streams)
    assert found == [
        [{"a.b": 1, "x`y": "x", "A": 2}],
        [{"a": 1, "A": 2}],
        [Note()] * 3,
        [Wide(7, 4.0, UUID(ID), None)],
        [Void([], {}, Part(None), [Part(None)])],
    ]


def test_a_stream_of_a_dataframe_without_a_column_of_a_field(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    frame = spark.readStream.schema("id bigint, `p.q` bigint").json(str(tmp_path))
    with pytest.warns(WindrowWarning, match="lacks 'note', 'weight'"):
        assert collected(SparkRunner(spark), False, from_dataframe(frame, Note)) == [[Note()] * 2]


@pytest.mark.parametrize("batch", [thorough(False, reason=OF_A_STREAM), True])
def test_parquet_without_a_column_of_a_field(spark: SparkSession, tmp_path: Path, batch: bool) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"weight": [4], "note": ["new"]}), tmp_path / "b.parquet")
    out = tmp_path / "out"
    stream = from_source(ParquetFileSource(tmp_path / "*.parquet", Note))
    ones = stream.map(lambda note: 1).returns(int)
    runner = SparkRunner(spark)
    told = "the file has 'id', which no field takes, and lacks 'note', 'weight'"
    (tmp_path / "texts").mkdir()
    texts = pa.array([b"a", b"\xff", "é".encode(), b"b"])
    for name, column, numbers in (("a", texts.view(pa.string()), [1, 2, 3, None]), ("b", texts, [4, 5, 6, 7])):
        pq.write_table(pa.table({"text": column, "number": numbers}), tmp_path / "texts" / f"{name}.parquet")
    good = from_source(ParquetFileSource(tmp_path / "texts", Text, on_malformed="drop"))
    pipeline = Pipeline(
        "notes", stream.sink_to(ParquetFileSink[Note](out)), good.sink_to(ParquetFileSink[Text](tmp_path / "good"))
    )
    with pytest.warns(WindrowWarning, match=told):
        result = runner.run_batch(pipeline) if batch else runner.run(pipeline)
    assert result.counter("records_malformed") == 3
    written = sorted((row["number"], row["text"]) for row in pq.read_table(tmp_path / "good").to_pylist())
    assert written == [(1, "a"), (3, "é"), (4, "a"), (6, "é"), (7, "b")]
    with pytest.warns(WindrowWarning, match=told):
        assert collected(runner, batch, ones) == [[1] * 4]
    assert sorted(row["note"] or "" for row in pq.read_table(out).to_pylist()) == ["", "", "", "new"]


def test_floats_without_a_fraction_are_ints_and_nobody_is_warned_where_all_columns_are_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.sql("SELECT * FROM VALUES (5D), (5.5D), (6D) AS t(weight)")
    pq.write_table(pa.table({"weight": [7.0, None, 8.5]}), tmp_path / "a.parquet")
    streams = (
        from_dataframe(frame, Note, on_malformed="drop"),
        from_source(ParquetFileSource(tmp_path, Note, on_malformed="drop")),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", WindrowWarning)
        found = collected(SparkRunner(spark), True, *streams)
    assert found == [[Note(weight=5), Note(weight=6)], [Note(weight=7)]]


def collected(runner: SparkRunner, batch: bool, *streams: DataStream[object]) -> list[list[object]]:
    sinks = [CollectSink[object]() for _ in streams]
    pipeline = Pipeline("others", *(stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True)))
    result = runner.run_batch(pipeline) if batch else runner.run(pipeline, drain=False)
    return [result.collected(sink) for sink in sinks]
