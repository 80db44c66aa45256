"""Batches of a source as columns: taken where decoding would give the same values, and refused otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windrow.errors import SourceError, WindrowError
from windrow_runtime.codecs.arrow.clean import clean_columns
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.arrow.parquet import UNREAD, read_parquet
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType

# Any in this module: pyarrow has no types.


@dataclass
class Parcel:
    price: Decimal
    sent: date
    took: timedelta | None


@dataclass
class Letter:
    to: str
    sent: date | None


@dataclass
class Mail:
    letter: Letter | None
    others: list[Letter]
    by_day: dict[str, date]


KIND = record_type(Parcel)
MAIL = record_type(Mail)


def parcels(price: Any = None, sent: Any = None, took: Any = None) -> Any:
    columns = {
        "took": took or pa.array([timedelta(1), None], pa.duration("us")),
        "price": price or pa.array([Decimal("1.10"), Decimal(2)], pa.decimal128(9, 2)),
        "sent": sent or pa.array([date.min, date.max]),
        "other": pa.array([1, 2]),
    }
    return pa.RecordBatch.from_pydict(columns)


def read_back(folder: Path, rows: Any, kind: RecordType, **said: Any) -> Any:
    """The rows of a file, as a source reads them."""
    file = folder / "part.parquet"
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]), file)
    (batch,) = read_parquet(str(file), kind, **said)
    return batch.rows


@pytest.mark.parametrize(
    "batch",
    [
        parcels(),
        parcels(price=pa.array([Decimal("1.5"), Decimal(10**19)], pa.decimal128(38, 18))),
        parcels(took=pa.array([-3, 4], pa.duration("ms"))),
        parcels(took=pa.nulls(2)),
    ],
    ids=["cents", "widest", "milliseconds", "nothing"],
)
def test_columns_hold_what_decoding_gives(batch: Any) -> None:
    found = clean_columns(batch, KIND)
    assert found is not None
    assert found.schema == arrow_schema(KIND)
    assert decode_batch(found, KIND) == decode_batch(batch, KIND)


LATE = 2_932_897  # in days: the year 10000


@pytest.mark.parametrize(
    ("letter", "others", "by_day", "is_clean"),
    [
        (None, [{"to": "a", "sent": None}], [("x", 1)], True),
        ({"to": None, "sent": 1}, [], [], False),
        ({"to": "a", "sent": LATE}, [], [], False),
        (None, [{"to": "a", "sent": LATE}], [], False),
        (None, [None], [], False),
        (None, [], [("x", None)], False),
        (None, [], [("x", LATE)], False),
    ],
)
def test_what_lies_within_a_column_is_looked_at(letter: Any, others: Any, by_day: Any, is_clean: bool) -> None:
    def as_ints(kind: Any) -> Any:
        """The same type with days as ints, since Python has no such dates."""
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(as_ints(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(kind.key_type, as_ints(kind.item_type))
        if pa.types.is_list(kind):
            return pa.list_(kind.value_field.with_type(as_ints(kind.value_type)))
        return pa.int32() if pa.types.is_date(kind) else kind

    schema = arrow_schema(MAIL)
    rows = zip(schema, ([None, letter], [[], others], [[], by_day]), strict=True)
    columns = [pa.array(values, as_ints(field.type)).cast(field.type) for field, values in rows]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    assert (clean_columns(batch, MAIL) is not None) == is_clean
    if not is_clean:
        with pytest.raises(WindrowError):
            decode_batch(batch, MAIL)


@pytest.mark.parametrize(
    "batch",
    [
        parcels(price=pa.array([1.5, 2.0])),
        parcels(price=pa.array([1, 2])),
        parcels(price=pa.array([Decimal(1), None], pa.decimal128(38, 18))),
        parcels(sent=pa.array([0, -719_163], pa.int32()).view(pa.date32())),
        parcels(sent=pa.array([0, 2_932_897], pa.int32()).view(pa.date32())),
        parcels(sent=pa.array([0, 1], pa.timestamp("us"))),
        parcels().drop_columns("price"),
    ],
    ids=["floats", "ints", "null", "before the year 1", "year 10000", "timestamps", "missing"],
)
def test_what_decoding_refuses_is_left_to_it(batch: Any) -> None:
    assert clean_columns(batch, KIND) is None
    with pytest.raises(WindrowError):
        decode_batch(batch, KIND)


def test_time_spans_of_files_that_spark_wrote_are_numbers_of_microseconds(tmp_path: Path) -> None:
    found = clean_columns(read_back(tmp_path, parcels(took=pa.array([-1, None], pa.int64())), KIND), KIND)
    assert found is not None
    assert found.column("took").to_pylist() == [timedelta(microseconds=-1), None]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "dictionary"])
def test_decimals_of_files_look_the_same_with_and_without_a_malformed_row(tmp_path: Path, packed: bool) -> None:
    # Two files, a batch each; the second has a row without a price.
    shown: list[list[str]] = []
    prices: list[list[str | None]] = [["1.10", "2.00"], ["1.10", None]]
    for cents in prices:
        price = pa.array([None if c is None else Decimal(c) for c in cents], pa.decimal128(10, 2))
        rows = read_back(tmp_path, parcels(price=price.dictionary_encode() if packed else price), KIND)
        clean = clean_columns(rows, KIND)
        assert (clean is None) == (None in cents)
        bad: list[MalformedValue] = []
        # Any: elements.
        found: list[Any] = decode_batch(rows if clean is None else clean, KIND, bad.append)
        assert len(bad) == cents.count(None)
        shown.append([str(parcel.price) for parcel in found])
    assert shown == [["1.100000000000000000", "2.000000000000000000"], ["1.100000000000000000"]]


def test_decimals_too_fine_for_columns_do_not_fit(tmp_path: Path) -> None:
    fine = parcels(price=pa.array([Decimal("1e-19"), Decimal(1)], pa.decimal128(38, 19)))
    rows = read_back(tmp_path, fine, KIND)
    assert clean_columns(rows, KIND) is None
    bad: list[MalformedValue] = []
    decoded: list[Any] = decode_batch(rows, KIND, bad.append)  # Any: elements
    assert [parcel.price for parcel in decoded] == [1]
    assert len(bad) == 1


@dataclass(frozen=True)
class Wide:
    number: int
    text: str
    at: datetime
    note: str | None = None


WIDE = record_type(Wide)


def test_columns_that_nobody_asks_for_are_not_read(tmp_path: Path) -> None:
    rows = [Wide(n, f"text {n}", datetime(2026, 1, 1, tzinfo=UTC), None) for n in range(5)]
    cleaned = clean_columns(read_back(tmp_path, encode_batch(rows, WIDE), WIDE, only=frozenset({"number"})), WIDE)
    assert cleaned is not None
    kept = cleaned.filter(pa.array([True, False, True, False, True]))
    assert kept.schema.metadata == {UNREAD: b"at,note,text"}
    assert kept.column("number").to_pylist() == [0, 2, 4]
    assert set(kept.column("text").to_pylist()) == {""}


@pytest.mark.parametrize("changed", ["null", "type", "missing", "year"])
def test_a_file_that_may_have_malformed_rows_is_read_whole(tmp_path: Path, changed: str) -> None:
    late = pa.array([253_402_300_800_000_000], pa.timestamp("us", tz="UTC"))
    columns: dict[str, pa.Array] = {
        "number": pa.array([1]),
        "text": pa.array([None], pa.string()) if changed == "null" else pa.array(["a"]),
        "at": late if changed == "year" else pa.array([datetime(2026, 1, 1, tzinfo=UTC)]),
        "note": pa.array([None], pa.string()) if changed != "type" else pa.array([1]),
    }
    if changed == "missing":
        del columns["note"]
    if changed == "type":
        with pytest.raises(SourceError):
            read_back(tmp_path, pa.table(columns), WIDE, only=frozenset({"number"}))
        return
    rows = read_back(tmp_path, pa.table(columns), WIDE, only=frozenset({"number"}))
    assert not rows.schema.metadata
    assert rows.column("text").to_pylist() == columns["text"].to_pylist()
