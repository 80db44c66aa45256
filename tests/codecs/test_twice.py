"""Columns of one name or in another case, columns of nulls alone, and texts that are not UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypedDict
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from tests.codecs.spark_types import LONG, RAW, TEXT, struct
from windrow import from_arrow, from_pandas, from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError, SourceError
from windrow.sources import ParquetFileSource
from windrow_runtime.codecs.arrow.clean import clean_columns
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.spark_schema import check_spark_schema, with_texts, without_void


class Part(NamedTuple):
    a: int | None = None


class Row(NamedTuple):
    part: Part | None = None


class Rows(NamedTuple):
    part: list[Part] | None = None


class Named(NamedTuple):
    part: dict[str, Part] | None = None


class Deep(NamedTuple):
    part: tuple[Row, int] | None = None


class Counts(NamedTuple):
    counts: dict[str, int]


class Void(NamedTuple):
    items: list[int]
    by_name: dict[str, int]
    part: Part
    number: int


class TwoCases(TypedDict):
    a: int | None
    A: int


class Text(NamedTuple):
    text: str


class Texts(NamedTuple):
    text: list[str]


Nest = Callable[[pa.Array], pa.Array]


def _list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _map(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array([0, len(values)], pa.int32()), pa.array(["k"]), values)


def _deep(values: pa.Array) -> pa.Array:
    row = pa.StructArray.from_arrays([values], ["part"])
    return pa.StructArray.from_arrays([row, pa.array([1])], ["_1", "_2"])


NESTS: dict[type, Nest] = {Row: lambda values: values, Rows: _list, Named: _map, Deep: _deep}


def _struct(*names: str) -> pa.Array:
    fields = [pa.field(name, pa.int64()) for name in names]
    return pa.StructArray.from_arrays([pa.array([number]) for number in range(len(names))], fields=fields)


@pytest.mark.parametrize("kind", NESTS)
@pytest.mark.parametrize(
    ("names", "reason"),
    [(("a", "a"), "a: 2 columns of this name"), (("A",), "a: no such column; .*there is 'A': names differ in case")],
    ids=["twice", "case"],
)
def test_field_that_two_columns_or_none_may_be(
    tmp_path: Path, kind: type[object], names: tuple[str, ...], reason: str
) -> None:
    table = pa.table({"part": NESTS[kind](_struct(*names))})
    with pytest.raises(SourceError, match=reason):
        from_arrow(table, kind).collect()
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=reason):
        from_source(ParquetFileSource(tmp_path, kind)).collect()


@pytest.mark.parametrize("kind", NESTS)
def test_two_columns_that_no_field_is_do_not_matter(tmp_path: Path, kind: type[object]) -> None:
    table = pa.table({"part": NESTS[kind](_struct("x", "a", "x"))})
    (row,) = from_arrow(table, kind).collect()
    assert "a=1" in repr(row)
    pq.write_table(table, tmp_path / "a.parquet")
    assert from_source(ParquetFileSource(tmp_path, kind)).collect() == [row]


def test_optional_column_twice_at_the_top(tmp_path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    for stream in (from_arrow(table, Part), from_source(ParquetFileSource(tmp_path, Part))):
        with pytest.raises(SourceError, match=r"Part\.a: 2 columns of this name"):
            stream.collect()
    with pytest.raises(SourceError, match="'a'"):
        from_pandas(pd.DataFrame([[1, 2]], columns=["a", "a"]), Part).collect()
    with pytest.raises(InvalidArgumentError, match="'a'"):
        from_arrow(table)
    with pytest.raises(InvalidArgumentError, match="struct<a: int64, a: int64>"):
        from_arrow(pa.table({"part": _struct("a", "a")}))


PART_TWICE, PART_IN_CAPITALS = StructType().add("a", LONG).add("a", LONG), StructType().add("A", LONG)


@pytest.mark.parametrize(
    ("part", "reason"),
    [(PART_TWICE, "2 columns of this name"), (PART_IN_CAPITALS, "there is 'A': names differ in case")],
    ids=["twice", "case"],
)
def test_fields_of_a_dataframe_twice_and_in_another_case(part: StructType, reason: str) -> None:
    nested = {
        Part: part, Row: struct(part=part), Rows: struct(part=ArrayType(part)), Named: struct(part=MapType(TEXT, part)),
    }  # fmt: skip
    for kind, schema in nested.items():
        with pytest.raises(SourceError, match=reason):
            check_spark_schema(schema, record_type(kind))


def test_fields_of_a_dataframe_twice_that_nobody_asks_for() -> None:
    part = StructType().add("a", LONG).add("x", LONG).add("x", LONG)
    with pytest.raises(SourceError, match=r"Row\.part\.x: several fields of this name"):
        check_spark_schema(struct(part=part), record_type(Row))
    check_spark_schema(part, record_type(Part))


def test_field_whose_name_differs_by_case_from_that_of_another() -> None:
    assert from_arrow(pa.table({"A": [1]}), TwoCases).collect() == [{"a": None, "A": 1}]
    check_spark_schema(struct(A=LONG), record_type(TwoCases))


def test_void_of_a_dataframe_is_read_by_its_values() -> None:
    none = NullType()
    void = struct(items=ArrayType(none), by_name=MapType(TEXT, none), part=struct(a=none, b=none), number=none)
    check_spark_schema(void, record_type(Void))

    def filled(part: StructType) -> StructType:
        return struct(items=ArrayType(LONG), by_name=MapType(TEXT, LONG), part=part, number=LONG)

    # What nobody asks for is a text, which any file holds.
    assert without_void(void, filled(struct(a=LONG))) == filled(struct(a=LONG, b=TEXT))
    assert without_void(filled(struct(a=LONG)), filled(struct(a=LONG))) == filled(struct(a=LONG))


def test_bytes_of_parquet_that_spark_reads_as_texts() -> None:
    class Mixed(NamedTuple):
        text: str | None
        texts: list[str]
        named: dict[str, bytes]
        part: Text
        raw: bytes
        key: UUID

    def with_text(kind: DataType) -> StructType:
        return struct(
            other=RAW, text=kind, texts=ArrayType(kind), named=MapType(kind, RAW), part=struct(text=kind, more=RAW),
            raw=RAW, key=RAW,
        )  # fmt: skip

    assert with_texts(with_text(RAW), record_type(Mixed)) == with_text(TEXT)
    check_spark_schema(with_text(TEXT), record_type(Mixed))


def test_required_column_of_nulls_alone_is_malformed() -> None:
    for kind in (Text, Texts, int):
        rows = pa.record_batch({"text": pa.nulls(2), "value": pa.nulls(2)})
        malformed: list[MalformedValue] = []
        assert decode_batch(rows, record_type(kind), malformed.append) == []
        assert len(malformed) == 2
        assert clean_columns(rows, record_type(kind)) is None
        assert decode_batch(rows.slice(2), record_type(kind)) == []


def test_files_of_nulls_and_of_values(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [[], []]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": [["x"]]}), tmp_path / "b.parquet")
    found = from_source(ParquetFileSource(tmp_path, Texts)).collect()
    assert sorted(found, key=repr) == [Texts(["x"]), Texts([]), Texts([])]


def _view(values: list[bytes], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.binary()).view(kind)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_texts_of_parquet_that_are_not_utf_8(tmp_path: Path, kind: pa.DataType) -> None:
    values = [b"a", b"\xff", "é".encode(), b"\xc3", b""]
    pq.write_table(pa.table({"text": _view(values, kind)}), tmp_path / "a.parquet")
    source = ParquetFileSource(tmp_path, Text, on_malformed="drop")
    assert from_source(source).collect() == [Text("a"), Text("é"), Text("")]
    with pytest.raises(MalformedRecordError, match=r"Text\.text: the text is not UTF-8(.|\n)*row 1"):
        from_source(ParquetFileSource(tmp_path, Text)).collect()
    nested = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), _view(values, kind))
    pq.write_table(pa.table({"text": nested}), tmp_path / "a.parquet")
    lists = ParquetFileSource(tmp_path, Texts, on_malformed="drop")
    assert from_source(lists).collect() == [Texts(["a"]), Texts(["é"]), Texts([""])]


def test_columns_of_texts_that_are_not_utf_8_are_decoded() -> None:
    kind = record_type(Text)
    good = pa.record_batch({"text": _view([b"\xff", "é".encode(), b"a"], pa.string())}).slice(1)
    assert clean_columns(good, kind) is not None
    assert clean_columns(pa.record_batch({"text": _view([b"\xc3", b"\xa9"], pa.string())}), kind) is None
    assert clean_columns(pa.record_batch({"text": pa.array([], pa.string())}), kind) is not None


def test_bytes_of_arrow_are_no_text() -> None:
    with pytest.raises(SourceError, match=r"Text\.text: expected str, not binary"):
        from_arrow(pa.table({"text": [b"a"]}), Text).collect()


def test_key_of_a_map_twice() -> None:
    maps = pa.array([[("a", 1)], [("a", 1), ("b", 2), ("a", 3)], [], [("b", 1)]], pa.map_(pa.string(), pa.int64()))
    kind = record_type(Counts)
    rows = pa.record_batch({"counts": maps})
    assert clean_columns(rows, kind) is None
    assert clean_columns(rows.slice(2), kind) is not None
    malformed: list[MalformedValue] = []
    assert decode_batch(rows, kind, malformed.append) == [Counts({"a": 1}), Counts({}), Counts({"b": 1})]
    (bad,) = malformed
    assert (bad.row, bad.field, bad.reason) == (1, "Counts.counts{key}", "a map has a key twice")
