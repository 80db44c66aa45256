"""Columns of other programs whose values fit a field: read value by value, and what does not fit is malformed."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from windrow import DecimalType, from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError, WindrowWarning
from windrow.sources import CsvFileSource, ParquetFileSource
from windrow_runtime.codecs.arrow.clean import clean_columns
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.spark_schema import spark_ddl

UTC = datetime.UTC
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
MICRO = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


class Note(NamedTuple):
    note: str | None = None


class Counted(NamedTuple):
    note: str = "none"
    weight: int = 1


class Inner(NamedTuple):
    a: int | None = None


class Outer(NamedTuple):
    inner: Inner


class Text(NamedTuple):
    text: str


def _storage(kind: pa.DataType, values: list[object], storage: pa.DataType) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, storage))


COLUMNS: dict[str, tuple[object, pa.Array, list[object], int]] = {
    # The type of the field, the column, the elements, and how many rows are malformed.
    "int32": (int, pa.array([1], pa.int32()), [1], 0),
    "uint32": (int, pa.array([1], pa.uint32()), [1], 0),
    "float32": (float, pa.array([0.5], pa.float32()), [0.5], 0),
    "int32 as floats": (float, pa.array([1], pa.int32()), [1.0], 0),
    "large texts": (str, pa.array(["a"], pa.large_string()), ["a"], 0),
    "codes of texts": (str, pa.array(["a"]).dictionary_encode(), ["a"], 0),
    "large lists": (list[int], pa.array([[1]], pa.large_list(pa.int16())), [[1]], 0),
    "nulls": (int | None, pa.nulls(1), [None], 0),
    "decimals of another scale": (Decimal, pa.array([Decimal("1.5")], pa.decimal128(10, 2)), [Decimal("1.5")], 0),
    "uuid": (uuid.UUID, _storage(pa.uuid(), [ID.bytes], pa.binary(16)), [ID], 0),
    "uuid as bytes": (uuid.UUID, pa.array([ID.bytes, b"short"]), [ID], 1),
    "uuid of 16": (uuid.UUID | None, pa.array([ID.bytes, None], pa.binary(16)), [ID, None], 0),
    "json": (str, _storage(pa.json_(), ["{}"], pa.string()), ["{}"], 0),
    "text views": (str | None, pa.array(["a", None], pa.string_view()), ["a", None], 0),
    "byte views": (bytes | None, pa.array([b"a", None], pa.binary_view()), [b"a", None], 0),
    "bytes of one size": (bytes, pa.array([b"ab"], pa.binary(2)), [b"ab"], 0),
    "uint64": (int, pa.array([1, 2**63], pa.uint64()), [1], 1),
    "decimals without scale as ints": (int, pa.array([Decimal(7), Decimal(10**19)], pa.decimal128(20, 0)), [7], 1),
    "decimals with a scale as ints": (int, pa.array([Decimal("7.00"), Decimal("7.5")], pa.decimal128(20, 2)), [7], 1),
    "floats as ints": (int | None, pa.array([1.0, None, 1.5, math.nan, 1e300], pa.float64()), [1, None], 3),
    "short floats as ints": (int, pa.array([3.0], pa.float32()), [3], 0),
    "floats without a fraction as ints": (int | None, pa.array([1.0, None, -2.0], pa.float64()), [1, None, -2], 0),
    "int64 as floats": (float, pa.array([1, 2**53 + 1, 2**60], pa.int64()), [1.0, float(2**60)], 1),
    "uint64 as floats": (float, pa.array([2**63, 2**64 - 1], pa.uint64()), [float(2**63)], 1),
    "decimal32": (Decimal, pa.array([Decimal("1.5")], pa.decimal32(5, 2)), [Decimal("1.5")], 0),
    "decimal64": (Decimal, pa.array([Decimal("1.5")], pa.decimal64(12, 2)), [Decimal("1.5")], 0),
    "decimal256": (
        Decimal, pa.array([Decimal("1.5"), Decimal(10) ** 25, Decimal("1e-25")], pa.decimal256(60, 30)),
        [Decimal("1.5")], 2,
    ),
    "wide decimals": (Decimal, pa.array([Decimal(3), Decimal(10) ** 30], pa.decimal128(38, 2)), [Decimal(3)], 1),
    "decimals of 10 digits": (
        Annotated[Decimal, DecimalType(10, 2)],
        pa.array([Decimal("1.25"), Decimal("1.125"), Decimal(10) ** 9], pa.decimal128(38, 18)), [Decimal("1.25")], 2,
    ),
    "decimals of 38 digits": (
        Annotated[Decimal, DecimalType(38, 0)], pa.array([Decimal(10) ** 37], pa.decimal256(50, 2)),
        [Decimal(10) ** 37], 0,
    ),
    "dates of milliseconds": (
        datetime.date, pa.array([86_400_000, 1], pa.int64()).view(pa.date64()), [datetime.date(1970, 1, 2)], 1,
    ),
    "nanoseconds": (datetime.datetime, pa.array([1_000, 1_001], pa.timestamp("ns", "UTC")), [EPOCH + MICRO], 1),
    "spans of nanoseconds": (datetime.timedelta, pa.array([1_000, 1_001], pa.duration("ns")), [MICRO], 1),
    "run ends": (str | None, pc.run_end_encode(pa.array(["a", "a", None])), ["a", "a", None], 0),
    "codes": (uuid.UUID, pa.array([str(ID), str(ID)]).dictionary_encode(), [ID, ID], 0),
    "lists of one size": (list[int] | None, pa.array([[1, 2], None], pa.list_(pa.uint64(), 2)), [[1, 2], None], 0),
    "list views": (list[int], pa.array([[1], [2, 3]], pa.list_view(pa.int64())), [[1], [2, 3]], 0),
    "large list views": (list[int], pa.array([[1]], pa.large_list_view(pa.int64())), [[1]], 0),
    "spans in lists": (list[datetime.timedelta], pa.array([[1]], pa.list_(pa.int64())), [[MICRO]], 0),
    "in maps": (
        dict[str, float], pa.array([[("a", 1)], [("b", 2**53 + 1)]], pa.map_(pa.string_view(), pa.int64())),
        [{"a": 1.0}], 1,
    ),
    "in structs": (
        tuple[uuid.UUID, int],
        pa.array([{"_1": ID.bytes, "_2": 1}], pa.struct([("_1", pa.binary(16)), ("_2", pa.uint64())])), [(ID, 1)], 0,
    ),
    # A column without values says nothing by its type.
    "empty lists": (list[int], pa.array([[], []]), [[], []], 0),
    "lists of nulls": (list[int], pa.array([[], [None]]), [[]], 1),
    "lists of optional": (list[int | None], pa.array([[None], []]), [[None], []], 0),
    "lists of lists": (list[list[str]], pa.array([[[]], []]), [[[]], []], 0),
    "sets": (set[str], pa.array([[]]), [set()], 0),
    "tuples": (tuple[Inner | None, ...], pa.array([[None]]), [(None,)], 0),
    "records in lists": (list[Inner], pa.array([[{"a": None}], []]), [[Inner()], []], 0),
    "maps": (dict[str, int], pa.array([[], [("k", None)]], pa.map_(pa.string(), pa.null())), [{}], 1),
    "maps of optional": (
        dict[str, int | None], pa.array([[("k", None)]], pa.map_(pa.string(), pa.null())), [{"k": None}], 0
    ),
    "maps without keys": (dict[int, int], pa.array([[]], pa.map_(pa.int64(), pa.null())), [{}], 0),
    "records": (tuple[Text | None], pa.array([{"_1": {"text": None}}, {"_1": None}]), [(None,)], 1),
    "required": (int, pa.nulls(2), [], 2),
    "none": (None, pa.array([None, 3]), [None], 1),
}  # fmt: skip


@pytest.mark.parametrize("case", COLUMNS)
def test_values_that_fit_are_read_and_others_are_malformed(case: str) -> None:
    annotation, column, expected, bad = COLUMNS[case]
    # Arrow cannot slice lists of encoded runs; codes and extensions within lists are the point of the test.
    values = pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column
    # Nested in a record, so that a tuple is one column; and a slice, which has offsets of its own.
    kind = record_type(list[annotation])  # type: ignore[valid-type]  # a type that is known when the test runs
    lists = pa.ListArray.from_arrays(pa.array(range(len(column) + 1), pa.int32()), values)
    malformed: list[MalformedValue] = []
    batch = pa.RecordBatch.from_arrays([lists], ["value"])
    found: list[Any] = decode_batch(batch, kind, malformed.append)
    assert found == [[value] for value in expected]
    assert [type(value) for (value,) in found] == list(map(type, expected))
    assert len(malformed) == bad
    if not bad:
        assert decode_batch(batch.slice(len(column) - 1), kind) == [[expected[-1]]]


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_are_taken_as_they_are_decoded(case: str) -> None:
    annotation, column, expected, bad = COLUMNS[case]
    kind = record_type(tuple[annotation])  # type: ignore[valid-type]  # a type that is known when the test runs
    batch = pa.RecordBatch.from_arrays([column], ["_1"])
    malformed: list[MalformedValue] = []
    assert decode_batch(batch, kind, malformed.append) == [(value,) for value in expected]
    assert len(malformed) == bad
    columns = clean_columns(batch, kind)
    if columns is not None:
        assert not bad
        assert decode_batch(columns, kind) == [(value,) for value in expected]


class Foreign(NamedTuple):
    key: uuid.UUID
    text: str
    amount: Annotated[Decimal, DecimalType(10, 2)]
    pair: list[int]
    ratio: float
    kind: str
    at: datetime.datetime


def test_a_parquet_file_of_others(tmp_path: Path) -> None:
    table = pa.table(
        {
            "key": _storage(pa.uuid(), [ID.bytes, ID.bytes], pa.binary(16)),
            "text": _storage(pa.json_(), ["{}", "[]"], pa.string()),
            "amount": pa.array([Decimal("1.5"), Decimal("1.125")], pa.decimal256(60, 30)),
            "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.uint64(), 2)),
            "ratio": pa.array([1, 2], pa.int64()),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "at": pa.array([1_000, 2_000], pa.timestamp("ns", "UTC")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    expected = Foreign(ID, "{}", Decimal("1.50"), [1, 2], 1.0, "a", EPOCH + MICRO)
    (found,) = from_source(ParquetFileSource(tmp_path, Foreign, on_malformed="drop")).collect()
    assert found == expected
    assert str(found.amount) == "1.50"
    with pytest.raises(MalformedRecordError, match="amount"):
        from_source(ParquetFileSource(tmp_path, Foreign)).collect()


def test_digits_of_a_field_are_those_of_its_column() -> None:
    class Priced(NamedTuple):
        amount: Annotated[Decimal, DecimalType(10, 2)]
        other: Annotated[Decimal | None, pa.decimal128(20, 0)]

    kind = record_type(Priced)
    assert spark_ddl(kind) == "`amount` DECIMAL(10,2), `other` DECIMAL(20,0)"
    assert arrow_schema(kind).types == [pa.decimal128(10, 2), pa.decimal128(20, 0)]
    batch = encode_batch([Priced(Decimal("1.5"), None)], kind)
    assert decode_batch(batch, kind) == [Priced(Decimal("1.50"), None)]
    with pytest.raises(InvalidArgumentError, match="8 digits before the point and 2 after"):
        encode_batch([Priced(Decimal("1.125"), None)], kind)


@pytest.mark.parametrize("digits", [(0, 0), (39, 0), (2, 3), (True, 0), (1.0, 0)], ids=str)
def test_digits_that_no_column_has_are_refused(digits: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        DecimalType(*digits)


CASES = {
    "optional": (Note, {"id": [1, 2, 3]}, [Note()] * 3),
    "defaults": (Counted, {"id": [1, 2, 3]}, [Counted()] * 3),
    "nested": (
        Outer,
        {"inner": pa.array([{"b": 1}, {"b": 2}], pa.struct([("b", pa.int64())]))},
        [Outer(Inner()), Outer(Inner())],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_without_a_column_of_a_field_have_defaults(tmp_path: Path, case: str) -> None:
    kind, columns, expected = CASES[case]
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.warns(WindrowWarning, match="which no field takes, and lacks '(inner.a|note)"):
        assert from_source(ParquetFileSource(tmp_path, kind)).collect() == expected


def test_old_and_new_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1], "NOTE": ["x"]}), tmp_path / "b.parquet")
    with pytest.warns(WindrowWarning) as warned:
        found = from_source(ParquetFileSource(tmp_path, Note)).collect()
    assert sorted(found, key=str) == [Note("x"), Note(), Note()]
    assert len(warned) == 1


def test_a_file_with_fewer_columns_and_no_other_is_no_cause_to_warn(tmp_path: Path) -> None:
    pq.write_table(pa.table({"weight": [5]}), tmp_path / "a.parquet")
    assert from_source(ParquetFileSource(tmp_path, Counted)).collect() == [Counted(weight=5)]


def test_csv_without_a_column_of_a_field(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    with pytest.warns(WindrowWarning, match="lacks 'note'"):
        assert from_source(CsvFileSource(tmp_path, Note)).collect() == [Note()] * 2


class Stamped(NamedTuple):
    at: datetime.datetime | None
    number: int


def test_oldest_timestamps_keep_their_nanoseconds(tmp_path: Path) -> None:
    at = pa.array([1_000, 2_000, 1_001, None, 1_002, 3_000], pa.timestamp("ns"))
    table = pa.table({"at": at, "number": range(6)})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    late = pa.table({"at": pa.array([253_402_300_799_000], pa.timestamp("ms")), "number": [6]})
    pq.write_table(late, tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    found = from_source(ParquetFileSource(tmp_path, Stamped, on_malformed="drop")).collect()
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert sorted(found, key=lambda row: row.number) == [
        Stamped(EPOCH + MICRO, 0),
        Stamped(EPOCH + 2 * MICRO, 1),
        Stamped(None, 3),
        Stamped(EPOCH + 3 * MICRO, 5),
        Stamped(last, 6),
    ]
    with pytest.raises(MalformedRecordError, match="row 2"):
        from_source(ParquetFileSource(tmp_path, Stamped)).collect()


class Holder(NamedTuple):
    at: datetime.datetime | None


class Holders(NamedTuple):
    number: int
    times: list[datetime.datetime | None]
    by_name: dict[str, datetime.datetime]
    holders: list[Holder] | None


def test_oldest_timestamps_within_others_keep_their_nanoseconds(tmp_path: Path) -> None:
    kind = pa.timestamp("ns")
    holder = pa.struct([("at", kind)])
    good, fine = 1_000, 1_001
    table = pa.table(
        {
            "number": range(6),
            "times": pa.array([[good, None], [good, fine], [], [good], [good], [good]], pa.list_(kind)),
            "by_name": pa.array([[("a", good)], [], [("a", fine)], [], [], []], pa.map_(pa.string(), kind)),
            "holders": pa.array(
                [[{"at": good}], [], None, [{"at": None}, {"at": fine}], [None], [{"at": good}]], pa.list_(holder)
            ),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    at = EPOCH + MICRO
    assert from_source(ParquetFileSource(tmp_path, Holders, on_malformed="drop")).collect() == [
        Holders(0, [at, None], {"a": at}, [Holder(at)]),
        Holders(5, [at], {}, [Holder(at)]),
    ]
