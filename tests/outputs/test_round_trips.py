"""What file sinks write of every type of a field: windrow reads it back, and other readers read the same values."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.outputs.every_type import AT, COLUMNS, FLATS, FORMATS, INNER, NESTED, RECORDS, Columns, pipeline_of
from windrow import Pipeline, from_source
from windrow.formats import DateFormat, EpochMillis
from windrow.sinks import CsvFileSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource
from windrow_runtime.codecs.arrow.decoding import lines_of_rows
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.json.encoder import JsonEncoder, JsonLines
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner

# Any in this module: records of several classes, and readers without types.


class Part(NamedTuple):
    key: str
    number: int


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("round") / "out"
    LocalRunner().run(pipeline_of(folder))
    return folder


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", RECORDS)
def test_what_was_written_reads_back(out: Path, form: str, name: str) -> None:
    elements, kind = RECORDS[name]
    assert from_source(FORMATS[form][1](out / f"{name}-{form}", kind)).collect() == elements


def test_what_a_value_looks_like(out: Path) -> None:
    (flat, *_), nested = (rows_of_json(out, name) for name in ("flat", "nested"))
    assert flat == {
        "flag": True, "number": 2**60, "ratio": 1e20, "text": 'a,"b"\nc%s', "raw": "AGhp", "amount": "1.10",
        "identity": "00000000-0000-0000-0000-000000000001", "colour": 're"d', "level": 1,
        "at": "2026-03-01T09:00:00Z", "day": "2026-03-01", "took": "P0DT5S", "maybe": None, "perhaps": None,
    }  # fmt: skip
    assert nested[0]["inner"]["pair"] == [7, "é"]
    assert nested[0]["inner"]["point"] == {"x": -1, "span": "P400DT0S"}
    assert nested[0]["names"] == list("abcdefgh")
    assert nested[0]["numbers"] == [9, 10, 2**40]
    assert nested[0]["pairs"] == [[1, "z"], [2, "b"]]


def rows_of_json(out: Path, name: str) -> list[Any]:
    files = sorted((out / f"{name}-json").glob("[!_.]*.json"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]


def test_readers_of_parquet_find_the_same_values(out: Path) -> None:
    """Each by the name of the folder alone."""
    folder = str(out / "flat-parquet")
    arrow = ds.dataset(folder).to_table().to_pylist()
    pandas = pd.read_parquet(folder)
    assert pd.read_parquet(folder).shape == (3, 14)
    polars = pl.read_parquet(folder).to_dicts()
    duck = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')").fetchall()
    assert len(duck) == len(polars) == len(arrow) == 3
    for number, record in enumerate(FLATS):
        assert arrow[number]["took"] == polars[number]["took"] == record.took
        assert pandas["took"][number] == pd.Timedelta(record.took)
        assert arrow[number]["at"] == polars[number]["at"] == record.at
        assert arrow[number]["amount"] == polars[number]["amount"] == record.amount
        assert arrow[number]["text"] == polars[number]["text"] == pandas["text"][number] == record.text
        in_duck = dict(zip(polars[0], duck[number], strict=True))
        # DuckDB reads no note of a reader: it sees the microseconds.
        assert in_duck["took"] == record.took // timedelta(microseconds=1)
        assert (in_duck["amount"], in_duck["text"], in_duck["raw"]) == (record.amount, record.text, record.raw)
    nested = ds.dataset(str(out / "nested-parquet")).to_table().to_pylist()[0]
    assert nested["spans"] == NESTED[0].spans
    assert nested["inner"]["took"] == INNER.took
    assert dict(nested["by_name"]) == NESTED[0].by_name
    for file in (out / "flat-parquet").glob("*.parquet"):
        assert "INT96" not in str(pq.ParquetFile(file).schema)


def test_readers_of_text_find_the_same_values(out: Path) -> None:
    folder = str(out / "flat-json")
    found = rows_of_json(out, "flat")
    polars = pl.scan_ndjson(folder).collect().to_dicts()
    duck = duckdb.sql(f"SELECT text, number, amount FROM read_json('{folder}/*.json')").fetchall()
    arrow = ds.dataset(folder, format="json").to_table().to_pylist()
    for number, row in enumerate(found):
        for column in ("text", "number", "amount", "took", "colour"):
            assert polars[number][column] == arrow[number][column] == row[column]
        assert duck[number][0] == row["text"]
        assert duck[number][1] == row["number"]
        assert Decimal(str(duck[number][2])) == Decimal(row["amount"])
    csv = pd.concat([pd.read_csv(file) for file in (out / "flat-csv").glob("[!_.]*.csv")])
    assert list(csv["number"]) == [record.number for record in FLATS]
    assert list(csv["took"]) == [row["took"] for row in found]


@pytest.mark.parametrize("name", RECORDS)
def test_lines_of_many_are_those_of_each(name: str) -> None:
    elements, annotation = RECORDS[name]
    kind = record_type(annotation)
    encode = JsonEncoder(kind).encode
    wanted = "".join(f"{encode(element)}\n" for element in elements)
    lines = JsonLines(kind)
    assert lines.encode(elements) == wanted
    if name == "columns":
        assert lines_of_rows(encode_batch(elements, kind), kind, lines) == wanted


def test_an_element_that_is_unlike_the_others_is_written_like_them() -> None:
    odd = COLUMNS[0]._replace(ratio=math.nan, number=True)
    kind = record_type(Columns)
    encode = JsonEncoder(kind).encode
    nan = [COLUMNS[0], COLUMNS[1]._replace(ratio=math.inf, maybe=-math.inf)]
    assert JsonLines(kind).encode(nan) == "".join(f"{encode(element)}\n" for element in nan)
    with pytest.raises(Exception, match=r"Columns.number") as caught:
        JsonLines(kind).encode([COLUMNS[0], odd])
    assert "nan" in str(caught.value)
    with pytest.raises(Exception, match=r"half a surrogate"):
        JsonLines(kind).encode([COLUMNS[0]._replace(key="\ud800")])


@pytest.mark.parametrize("sink", [JsonFileSink, CsvFileSink, ParquetFileSink])
def test_readers_find_files_in_folders_of_values(sink: Any, tmp_path: Path) -> None:
    rows = [Part("a", 1), Part("b", 2)]
    stream = from_source(CollectionSource(rows, Part))
    LocalRunner().run(Pipeline("parts", stream.sink_to(sink(tmp_path / "out", partition_by="key"))))
    table = ds.dataset(tmp_path / "out", format=sink.format_name, partitioning="hive").to_table()
    assert sorted(table["key"].to_pylist()) == ["a", "b"]
    if sink is ParquetFileSink:
        assert sorted(pl.read_parquet(tmp_path / "out")["key"]) == ["a", "b"]
        assert sorted(pd.read_parquet(tmp_path / "out")["key"]) == ["a", "b"]
        found = duckdb.sql(f"SELECT key FROM read_parquet('{tmp_path}/out/key=*/*.parquet', hive_partitioning=true)")
        assert sorted(found.fetchall()) == [("a",), ("b",)]


def test_a_datetime_is_the_same_moment_everywhere(out: Path) -> None:
    folder = out / "columns-parquet"
    assert pl.read_parquet(folder)["at"][0] == ds.dataset(folder).to_table()["at"][0].as_py() == AT


@pytest.mark.parametrize("pattern", ["**/*.parquet", "**/part-*", "**/batch-*/*"])
def test_patterns_of_readers_find_nothing_beside_the_files(out: Path, pattern: str) -> None:
    folder = out / "flat-parquet"
    found = [path for path in folder.glob(pattern) if path.is_file()]
    assert found == (list(folder.glob("*.parquet")) if pattern == "**/*.parquet" else [])
    beside = [path for name in ("_windrow", "_batches") for path in (folder / name).rglob("*") if path.is_file()]
    assert beside
    assert not any(path.stat().st_size for path in beside)  # Polars opens all that is not empty


@dataclass(frozen=True)
class Formatted:
    millis: Annotated[datetime, EpochMillis]
    day: Annotated[date, DateFormat("%d.%m.%Y")]
    price: Decimal


def test_formats_of_times_hold_for_many_elements_as_for_one() -> None:
    kind = record_type(Formatted)
    elements = [Formatted(AT, AT.date(), Decimal("1.10")), Formatted(AT, date(2001, 1, 1), Decimal(2))]
    encode = JsonEncoder(kind).encode
    wanted = '{"millis":1772355600000,"day":"01.03.2026","price":"1.10"}\n'
    assert JsonLines(kind).encode(elements[:1]) == f"{encode(elements[0])}\n" == wanted
    assert JsonLines(kind).encode(elements) == "".join(f"{encode(element)}\n" for element in elements)
