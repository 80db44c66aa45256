from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from tests.codecs.samples import Colour, Defaults, Options, Place, Reading
from windrow.errors import MalformedRecordError, SourceError
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type

UTC = datetime.UTC

# Any in this module: columns, and elements of every type.


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_timestamps_of_any_unit_and_zone(unit: str, zone: str | None) -> None:
    kind = record_type(datetime.datetime)
    column = pa.array([1_700_000_000], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    batch = pa.record_batch({"value": column.view(pa.timestamp(unit, tz=zone))})
    assert decode_batch(batch, kind) == [datetime.datetime.fromtimestamp(1_700_000_000, UTC)]


def test_timestamps_without_a_zone_need_one_of_the_source() -> None:
    kind = record_type(dict[str, datetime.datetime])
    naive = datetime.datetime(2026, 10, 25, 2, 30)
    maps = pa.array([[("a", naive)]], pa.map_(pa.string(), pa.timestamp("us")))
    batch = pa.record_batch({"value": maps})
    with pytest.raises(SourceError, match="no time zone, so it names no moment"):
        decode_batch(batch, kind)
    berlin = kind.in_timezone(ZoneInfo("Europe/Berlin"))
    # The clock shows it twice, the first time in summer.
    assert decode_batch(batch, berlin) == [{"a": datetime.datetime(2026, 10, 25, 0, 30, tzinfo=UTC)}]


def readings(*rows: tuple[object, object, object]) -> pa.RecordBatch:
    names = ("sensor", "at", "celsius")
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(records, schema=arrow_schema(record_type(Reading)))


def test_a_null_in_a_required_field_is_raised_with_the_record() -> None:
    batch = readings(("a", 1, 2.0), ("b", None, 3.0))
    with pytest.raises(MalformedRecordError, match="null in a required field") as caught:
        decode_batch(batch, record_type(Reading))
    assert caught.value.where == "Reading.at"
    assert caught.value.given == '{"sensor": "b", "at": null, "celsius": 3.0}'


def test_malformed_rows_are_reported_in_order_and_left_out() -> None:
    rows: list[tuple[object, object, object]] = [(f"s{i}", i, 0.5) for i in range(100)]
    rows[3] = (None, 3, 0.5)
    rows[70] = ("s70", None, 0.5)
    rows[99] = ("s99", 99, None)
    bad: list[MalformedValue] = []
    good = decode_batch(readings(*rows), record_type(Reading), bad.append)
    assert [(record.row, record.field) for record in bad] == [
        (3, "Reading.sensor"), (70, "Reading.at"), (99, "Reading.celsius"),
    ]  # fmt: skip
    assert bad[1].raw == '{"sensor": "s70", "at": null, "celsius": 0.5}'
    assert good == [Reading(f"s{i}", i, 0.5) for i in range(100) if i not in (3, 70, 99)]


def test_a_long_record_is_shortened_in_the_error_only() -> None:
    batch = readings(("x" * 1000, None, 1.0))
    bad: list[MalformedValue] = []
    decode_batch(batch, record_type(Reading), bad.append)
    assert len(bad[0].raw) > 1000
    assert len(str(bad[0].error())) < 600


UNFIT: list[tuple[object, dict[str, Any], str, str]] = [
    # The type, the column of one row, the end of the field's name, and what is said of the value.
    (list[int], {"value": [[1, None]]}, "list[int][]", "null"),
    (
        dict[str, int],
        {"value": pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64()))},
        "dict[str, int]{}",
        "null",
    ),
    (tuple[int, str], {"_1": [1], "_2": pa.array([None], pa.string())}, "tuple[int, str][1]", "null"),
    (list[Place], {"value": [[{"x": 1.0, "y": None, "name": None}]]}, ".y", "null"),
    (Colour, {"value": ["blue"]}, "Colour", "not a Colour"),
    (uuid.UUID, {"value": ["x"]}, "UUID", "not a UUID"),
    (datetime.datetime, {"value": pa.array([2**62], pa.timestamp("us", tz="UTC"))}, "datetime", "not a datetime"),
    (
        datetime.datetime,
        {"value": pa.array([1001], pa.timestamp("ns", tz="UTC"))},
        "datetime",
        "not a datetime of microseconds",
    ),
    (
        datetime.timedelta,
        {"value": pa.array([1001], pa.duration("ns"))},
        "timedelta",
        "not a timedelta of microseconds",
    ),
    (datetime.date, {"value": pa.array([2**30], pa.int32()).view(pa.date32())}, "date", "not a date"),
]


@pytest.mark.parametrize(("annotation", "columns", "where", "reason"), UNFIT, ids=count())
def test_values_that_a_type_does_not_hold(annotation: object, columns: dict[str, Any], where: str, reason: str) -> None:
    bad: list[MalformedValue] = []
    assert decode_batch(pa.record_batch(columns), record_type(annotation), bad.append) == []
    assert str(bad[0].field).endswith(where)
    assert reason in bad[0].reason
    assert bad[0].raw


def test_nulls_under_a_null_parent_are_no_fault() -> None:
    kind = record_type(list[Place | None])
    column = pa.array([[None, {"x": 1.0, "y": 2.0, "name": None}], []], arrow_schema(kind).field(0).type)
    assert decode_batch(pa.record_batch({"value": column}), kind) == [[None, Place(1.0, 2.0)], []]


def test_missing_columns_take_their_defaults() -> None:
    values: Any = decode_batch(pa.record_batch({"name": ["a", "b"]}), record_type(Defaults))
    assert values == [Defaults("a", 3, [], None, 1.5), Defaults("b", 3, [], None, 1.5)]
    assert values[0].tags is not values[1].tags
    assert decode_batch(pa.record_batch({"name": pa.array(["a"])}), record_type(Options)) == [{"name": "a"}]


def test_wrong_columns_are_listed_together() -> None:
    batch = pa.record_batch({"sensor": pa.array([1]), "celsius": pa.array(["x"]), "other": pa.array([1])})
    with pytest.raises(SourceError) as caught:
        decode_batch(batch, record_type(Reading))
    text = str(caught.value)
    assert "Reading.sensor: expected str, not int64" in text
    assert "Reading.at: no such column" in text
    assert "Reading.celsius: expected float, not string" in text


@pytest.mark.parametrize(
    ("annotation", "column"),
    [
        (int, pa.array(["1"])),
        (bool, pa.array([1.0])),
        (float, pa.array([Decimal(1)], pa.decimal128(3, 1))),
        (Decimal, pa.array([1.5])),
        (str, pa.array([b"a"])),
        (uuid.UUID, pa.array([1])),
        (datetime.date, pa.array([1], pa.timestamp("us"))),
        (list[int], pa.array(["a"])),
        (dict[str, int], pa.array([[1]])),
        (Place | None, pa.array([1])),
        (Colour, pa.array([1])),
    ],
    ids=count(),
)
def test_narrowing_is_refused(annotation: object, column: pa.Array) -> None:
    with pytest.raises(SourceError, match="expected"):
        decode_batch(pa.record_batch({"value": column}), record_type(annotation))
