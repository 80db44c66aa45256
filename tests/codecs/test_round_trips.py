"""Elements come back from Arrow and JSON as they were; what does not fit its type is refused, also by CSV."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

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
    Reading,
    Trip,
    writers_of,
)
from tests.codecs.strategies import elements_of
from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.record_type import record_type

UTC = datetime.UTC
TYPES = [
    Everything, Trip, Reading, Defaults, Keywords, Point, Event, Options, int, float, str | None, list[str | None],
    dict[str, list[int]], tuple[str, int | None, tuple[float, bool]], tuple[Place, ...], Place | None,
    list[tuple[int, str] | None], list[list[dict[str, Place | None]] | None], frozenset[Point], None,
]  # fmt: skip


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
    for value in values:
        line = JsonEncoder(kind).encode(value)
        assert "\n" not in line
        for use_msgspec in (True, False):
            found = JsonDecoder(kind, use_msgspec=use_msgspec).decode(line)
            assert found == value
            assert type(found) is type(value)
            assert JsonDecoder(kind, use_msgspec=use_msgspec).decode(line.encode()) == value


AT_HOME = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, datetime.timezone(datetime.timedelta(hours=5, minutes=30)))


@pytest.mark.parametrize(
    ("annotation", "values", "expected"),
    [
        (float, [3, np.float32(0.5), -0.0, math.inf, math.nan], [3.0, 0.5, -0.0, math.inf, math.nan]),
        (int, [np.int32(3), Level.HIGH], [3, 2]),
        (Sequence[int], [(1, 2), [3]], [[1, 2], [3]]),
        (datetime.datetime, [AT_HOME], [AT_HOME.astimezone(UTC)]),
    ],
    ids=["float", "int", "Sequence", "datetime"],
)
def test_values_of_other_classes_come_back_as_the_type_says(
    annotation: object, values: list[object], expected: list[object]
) -> None:
    kind = record_type(annotation)
    # The texts tell classes, zones and negative zeros apart.
    assert repr(decode_batch(encode_batch(values, kind), kind)) == repr(expected)


@pytest.mark.parametrize("make", [list, tuple])
def test_no_elements(make: Callable[[], Sequence[object]]) -> None:
    batch = encode_batch(make(), record_type(Everything))
    assert batch.num_rows == 0
    assert decode_batch(batch, record_type(Everything)) == []


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
    (Reading, Reading("a", None, 2.0), "Reading.at", "None in a field"),  # type: ignore[arg-type]
    (Reading, Reading("\ud800", 1, 2.0), "Reading.sensor", "surrogate"),
    (Reading, Reading(b"a", 1, 2.0), "Reading.sensor", "is a bytes"),  # type: ignore[arg-type]
    (Reading, Reading("a", 1, None), "Reading.celsius", "None in a field"),  # type: ignore[arg-type]
    (Reading, Derived("a", 1, 2.0), "Reading", "is a Derived"),
    (Reading, None, "Reading", "None in a field"),
    (Reading, ("a", 1, 2.0), "Reading", "is a tuple"),
    (int, "x", "int", "'x' is a str"),
    (int, 2**63, "int", "9223372036854775808"),
    (bytes, "x", "bytes", "is a str"),
    (list[str], ["a", 1], "list[str][]", "1 is a int"),
    (dict[str, int], {"a": None}, "dict[str, int]{}", "None"),
    (dict[str, int], {1: 1}, "dict[str, int]{key}", "1 is a int"),
    (tuple[int, int], (1, 2, 3), "tuple[int, int]", "a tuple of 3|is no tuple of 2"),
    (tuple[int, int], (1,), "tuple[int, int]", "a tuple of 1|is no tuple of 2"),
    (tuple[int, str], (1, 2), "tuple[int, str][1]", "2 is a int"),
    (datetime.datetime, datetime.datetime(2024, 1, 1), "datetime", "no time zone"),
    (Dated, {"day": datetime.datetime(2024, 1, 1, tzinfo=UTC)}, "Dated.day", "is a datetime"),
    (Labels, {"name": "a", "extra": 1}, "Labels", "'extra'"),
    (Labels, {}, "Labels.name", "the key is missing"),
    (Options, {"name": "a", "size": None}, "Options.size", "None"),
    (Decimal, Decimal("NaN"), "Decimal", "NaN"),
    (Colour, "red", "Colour", "'red' is a str"),
    (uuid.UUID, "x", "UUID", "is a str"),
    (list[Place], [Place(1.0, 2.0), Place("x", 2.0)], "list[tests.codecs.samples.Place][].x", "'x' is a str"),  # type: ignore[arg-type]
    (None, 1, "None", "1 is not None|1 is a int"),
]


@pytest.mark.parametrize("way", ["columns", "a line", "lines", "a row"])
@pytest.mark.parametrize(("annotation", "wrong", "where", "reason"), WRONG, ids=count())
def test_encoding_names_the_field_at_fault(
    annotation: object, wrong: object, where: str, reason: str, way: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        writers_of(record_type(annotation))[way](wrong)
    assert caught.value.where == where
    assert caught.value.expected


def test_columns_have_fewer_digits_than_texts() -> None:
    assert JsonEncoder(record_type(Decimal)).encode(Decimal("1e30")) == '"1E+30"'
    with pytest.raises(InvalidArgumentError, match=r"1E\+30(.|\n)*where: +Decimal"):
        encode_batch([Decimal("1e30")], record_type(Decimal))


def test_encoding_shows_the_first_record_at_fault() -> None:
    values: list[object] = [Reading(f"sensor-{i}", i, 0.5) for i in range(1000)]
    values[617] = Reading("broken", "at", 0.5)  # type: ignore[arg-type]
    values[800] = Reading("later", 1, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="broken") as caught:
        encode_batch(values, record_type(Reading))
    assert caught.value.where == "Reading.at"
