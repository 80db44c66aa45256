from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import TypedDict
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.codecs.samples import (
    Colour,
    Defaults,
    Event,
    Everything,
    Keywords,
    Level,
    Options,
    Place,
    Point,
    Positive,
    Reading,
)
from tests.codecs.strategies import elements_of
from windrow.errors import InvalidArgumentError, MalformedRecordError, SourceError
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type

UTC = datetime.UTC
TYPES = [
    Everything,
    Reading,
    Defaults,
    Keywords,
    Point,
    Event,
    Options,
    int,
    str | None,
    list[str | None],
    dict[str, list[int]],
    tuple[str, int | None, tuple[float, bool]],
    tuple[Place, ...],
    Place | None,
    list[tuple[int, str] | None],
    list[list[dict[str, Place | None]] | None],
    frozenset[Point],
    None,
]


@pytest.mark.parametrize("annotation", TYPES, ids=str)
@examples(25)
@given(data=st.data())
def test_round_trip(annotation: object, data: st.DataObject) -> None:
    kind = record_type(annotation)
    values = data.draw(st.lists(elements_of(kind), max_size=5))
    batch = encode_batch(values, kind)
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(kind))
    decoded = decode_batch(batch, kind)
    assert decoded == values
    assert list(map(type, decoded)) == list(map(type, values))
    # A slice has offsets of its own.
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    assert decode_batch(batch.slice(start, stop - start), kind) == values[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)])
def test_a_slice_of_records_has_its_own_rows(start: int, stop: int) -> None:
    """`RecordBatch.from_struct_array` ignored the offset of a slice up to pyarrow 21, older than what is allowed."""
    kind = record_type(Place | None)
    places = [Place(0.0, 1.0), None]
    assert decode_batch(encode_batch(places, kind).slice(start, stop - start), kind) == places[start:stop]


def test_an_int_is_a_float_and_special_floats_survive() -> None:
    kind = record_type(float)
    assert decode_batch(encode_batch([3, np.float32(0.5), -0.0, math.inf], kind), kind) == [3.0, 0.5, 0.0, math.inf]
    (nan,) = decode_batch(encode_batch([math.nan], kind), kind)
    assert isinstance(nan, float)
    assert math.isnan(nan)


def test_numpys_integers_are_ints() -> None:
    kind = record_type(int)
    decoded = decode_batch(encode_batch([np.int32(3), Level.HIGH], kind), kind)
    assert decoded == [3, 2]
    assert set(map(type, decoded)) == {int}


def test_a_sequence_takes_tuples_and_comes_back_as_lists() -> None:
    kind = record_type(Sequence[int])
    assert decode_batch(encode_batch([(1, 2), [3]], kind), kind) == [[1, 2], [3]]


def test_datetimes_come_back_in_utc() -> None:
    kind = record_type(datetime.datetime)
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    moment = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=zone)
    (decoded,) = decode_batch(encode_batch([moment], kind), kind)
    assert decoded == moment
    assert isinstance(decoded, datetime.datetime)
    assert decoded.tzinfo is UTC


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


def test_times_finer_than_microseconds_do_not_fit() -> None:
    for unit, kind in ((pa.timestamp("ns", "UTC"), datetime.datetime), (pa.duration("ns"), datetime.timedelta)):
        batch = pa.record_batch({"value": pa.array([1000, 1001], pa.int64()).view(unit)})
        bad: list[MalformedValue] = []
        assert len(decode_batch(batch, record_type(kind), bad.append)) == 1
        assert [(record.row, record.field) for record in bad] == [(1, kind.__name__)]


class Dated(TypedDict):
    day: datetime.date


@dataclass
class Derived(Reading):
    more: int = 0


class Labels(TypedDict):
    name: str


WRONG: list[tuple[object, object, str, str]] = [
    (Reading, Reading("a", "1", 2.0), "Reading.at", "'1' is a str"),  # type: ignore[arg-type]
    (Reading, Reading("a", True, 2.0), "Reading.at", "True is a bool"),
    (Reading, Reading("a", 2**63, 2.0), "Reading.at", "9223372036854775808"),
    (Reading, Reading("a", 1.5, 2.0), "Reading.at", "1.5 is a float"),  # type: ignore[arg-type]
    (Reading, Reading("\ud800", 1, 2.0), "Reading.sensor", "surrogates"),
    (Reading, Reading(b"a", 1, 2.0), "Reading.sensor", "is a bytes"),  # type: ignore[arg-type]
    (Reading, Reading("a", 1, None), "Reading.celsius", "None in a field"),  # type: ignore[arg-type]
    (Reading, Derived("a", 1, 2.0), "Reading", "is a Derived"),
    (Reading, None, "Reading", "None in a field"),
    (Reading, ("a", 1, 2.0), "Reading", "is a tuple"),
    (int, "x", "int", "'x' is a str"),
    (bytes, "x", "bytes", "is a str"),
    (list[str], ["a", 1], "list[str][]", "1 is a int"),
    (dict[str, int], {"a": None}, "dict[str, int]{}", "None"),
    (dict[str, int], {1: 1}, "dict[str, int]{key}", "1 is a int"),
    (tuple[int, int], (1, 2, 3), "tuple[int, int]", "a tuple of 3"),
    (tuple[int, str], (1, 2), "tuple[int, str][1]", "2 is a int"),
    (datetime.datetime, datetime.datetime(2024, 1, 1), "datetime", "no time zone"),
    (Dated, {"day": datetime.datetime(2024, 1, 1, tzinfo=UTC)}, "Dated.day", "is a datetime"),
    (Labels, {"name": "a", "extra": 1}, "Labels", "'extra'"),
    (Labels, {}, "Labels.name", "the key is missing"),
    (Options, {"name": "a", "size": None}, "Options.size", "None"),
    (Decimal, Decimal("1e30"), "Decimal", "1E+30"),
    (Colour, "red", "Colour", "'red' is a str"),
    (uuid.UUID, "x", "UUID", "is a str"),
    (list[Place], [Place(1.0, 2.0), Place("x", 2.0)], "list[tests", "'x' is a str"),  # type: ignore[arg-type]
    (None, 1, "None", "1 is not None"),
]


@pytest.mark.parametrize(("annotation", "wrong", "where", "reason"), WRONG, ids=count())
def test_encoding_names_the_field_at_fault(annotation: object, wrong: object, where: str, reason: str) -> None:
    kind = record_type(annotation)
    with pytest.raises(InvalidArgumentError, match=re.escape(reason)) as caught:
        encode_batch([wrong], kind)
    assert str(caught.value.where).startswith(where)
    assert caught.value.expected


def test_encoding_shows_the_first_record_at_fault() -> None:
    values: list[object] = [Reading(f"sensor-{i}", i, 0.5) for i in range(1000)]
    values[617] = Reading("broken", "at", 0.5)  # type: ignore[arg-type]
    values[800] = Reading("later", 1, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError) as caught:
        encode_batch(values, record_type(Reading))
    assert "broken" in str(caught.value)
    assert caught.value.where == "Reading.at"


def readings(*rows: tuple[object, object, object]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, arrow_schema(record_type(Reading)), strict=True)
        ],
        schema=arrow_schema(record_type(Reading)),
    )


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
        (3, "Reading.sensor"),
        (70, "Reading.at"),
        (99, "Reading.celsius"),
    ]
    assert bad[1].raw == '{"sensor": "s70", "at": null, "celsius": 0.5}'
    assert good == [Reading(f"s{i}", i, 0.5) for i in range(100) if i not in (3, 70, 99)]


def test_a_long_record_is_shortened_in_the_error_only() -> None:
    batch = readings(("x" * 1000, None, 1.0))
    bad: list[MalformedValue] = []
    decode_batch(batch, record_type(Reading), bad.append)
    assert len(bad[0].raw) > 1000
    assert len(str(bad[0].error())) < 600


NULLS: list[tuple[object, object, str]] = [
    (list[int], [1, None], "list[int][]"),
    (dict[str, int], [("a", None)], "dict[str, int]{}"),
    (tuple[int, str], {"_1": 1, "_2": None}, "tuple[int, str][1]"),
    (list[Place], [{"x": 1.0, "y": None, "name": None}], ".y"),
]


@pytest.mark.parametrize(("annotation", "cell", "where"), NULLS, ids=count())
def test_nulls_inside(annotation: object, cell: object, where: str) -> None:
    kind = record_type(annotation)
    schema = arrow_schema(kind)
    if kind.single:
        batch = pa.RecordBatch.from_arrays([pa.array([cell], schema.field(0).type)], schema=schema)
    else:
        batch = pa.RecordBatch.from_pylist([cell], schema=schema)
    bad: list[MalformedValue] = []
    assert decode_batch(batch, kind, bad.append) == []
    assert bad[0].field is not None
    assert bad[0].field.endswith(where)


def test_nulls_under_a_null_parent_are_no_fault() -> None:
    kind = record_type(list[Place | None])
    column = pa.array([[None, {"x": 1.0, "y": 2.0, "name": None}], []], arrow_schema(kind).field(0).type)
    assert decode_batch(pa.record_batch({"value": column}), kind) == [[None, Place(1.0, 2.0)], []]


@pytest.mark.parametrize(
    ("annotation", "column", "reason"),
    [
        (Colour, pa.array(["blue"]), "not a Colour"),
        (uuid.UUID, pa.array(["x"]), "not a UUID"),
        (datetime.datetime, pa.array([2**62], pa.timestamp("us", tz="UTC")), "not a datetime"),
        (datetime.date, pa.array([2**30], pa.int32()).view(pa.date32()), "not a date"),
    ],
    ids=count(),
)
def test_values_without_a_python_form(annotation: object, column: pa.Array, reason: str) -> None:
    bad: list[MalformedValue] = []
    assert decode_batch(pa.record_batch({"value": column}), record_type(annotation), bad.append) == []
    assert reason in bad[0].reason
    assert bad[0].raw


def test_a_constructor_may_refuse_a_record() -> None:
    bad: list[MalformedValue] = []
    batch = pa.record_batch({"n": pa.array([1, -2, 3])})
    assert decode_batch(batch, record_type(Positive), bad.append) == [Positive(1), Positive(3)]
    assert bad[0].reason == "Positive refuses the record: ValueError: n is negative"
    assert bad[0].row == 1


def test_missing_columns_take_their_defaults() -> None:
    (value, other) = decode_batch(pa.record_batch({"name": pa.array(["a", "b"])}), record_type(Defaults))
    assert value == Defaults("a", 3, [], None, 1.5)
    assert isinstance(value, Defaults)
    assert isinstance(other, Defaults)
    assert value.tags is not other.tags
    assert decode_batch(pa.record_batch({"name": pa.array(["a"])}), record_type(Options)) == [{"name": "a"}]


@pytest.mark.parametrize(
    ("annotation", "column", "expected"),
    [
        (int, pa.array([1], pa.int32()), 1),
        (int, pa.array([1], pa.uint32()), 1),
        (float, pa.array([0.5], pa.float32()), 0.5),
        (float, pa.array([1], pa.int32()), 1.0),
        (str, pa.array(["a"], pa.large_string()), "a"),
        (str, pa.array(["a"]).dictionary_encode(), "a"),
        (list[int], pa.array([[1]], pa.large_list(pa.int16())), [1]),
        (int | None, pa.nulls(1), None),
        (Decimal, pa.array([Decimal("1.5")], pa.decimal128(10, 2)), Decimal("1.5")),
    ],
    ids=count(),
)
def test_widening(annotation: object, column: pa.Array, expected: object) -> None:
    (value,) = decode_batch(pa.record_batch({"value": column}), record_type(annotation))
    assert value == expected
    assert type(value) is type(expected)


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


@pytest.mark.parametrize("make", [list, tuple])
def test_no_elements(make: Callable[[], Sequence[object]]) -> None:
    batch = encode_batch(make(), record_type(Everything))
    assert batch.num_rows == 0
    assert decode_batch(batch, record_type(Everything)) == []
