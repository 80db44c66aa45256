from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.codecs.samples import (
    Colour,
    Defaults,
    Event,
    Keywords,
    Level,
    Options,
    Place,
    Point,
    Positive,
    Reading,
    Trip,
)
from tests.codecs.strategies import elements_of
from windrow_runtime.codecs.csv import CsvDecoder, CsvRow
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import record_type

BY_MSGSPEC = [Trip, Reading, Defaults, Keywords, Point, Event, Options, int, float, datetime, dict[str, int]]


@pytest.mark.parametrize("use_msgspec", [True, False])
def test_the_last_of_equal_names_counts_and_case_matters(use_msgspec: bool) -> None:
    line = '{"name": 1, "name": "a", "Size": 9, "size": 4, "size": 5, "SIZE": 6}'
    decoder = JsonDecoder(record_type(Defaults), use_msgspec=use_msgspec)
    assert decoder.decode(line) == Defaults("a", 5)


def test_an_encoded_record_reads_as_expected() -> None:
    at = datetime(2024, 2, 29, 12, 30, 0, 250000, tzinfo=timezone(timedelta(hours=2)))
    trip = Trip(1, at, 3, True, None, [Place(1.5, 2.0, "é")], {"a": 1}, (1, "b"), Colour.RED)
    assert JsonEncoder(record_type(Trip)).encode(trip) == (
        '{"id":1,"at":"2024-02-29T10:30:00.250000Z","fare":3.0,"paid":true,"note":null,'
        '"stops":[{"x":1.5,"y":2.0,"name":"é"}],"counts":{"a":1},"pair":[1,"b"],"colour":"red","level":1}'
    )


@pytest.mark.parametrize("annotation", BY_MSGSPEC, ids=str)
def test_these_types_are_read_by_msgspec(annotation: object) -> None:
    assert JsonDecoder(record_type(annotation)).uses_msgspec
    assert not JsonDecoder(record_type(annotation), use_msgspec=False).uses_msgspec


def assert_read_alike(kind: object, line: str) -> None:
    """Both readers give equal values of the same classes, or the same fault."""
    fast = JsonDecoder(record_type(kind)).decode(line)
    plain = JsonDecoder(record_type(kind), use_msgspec=False).decode(line)
    # repr tells 1 from 1.0 and True, and one zone from another; equality would not.
    assert repr(fast) == repr(plain)
    assert type(fast) is type(plain)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["red", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00.1234567+02:00", "NaN", 1, 2, "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "name", "id", "at", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@examples(120)
@given(st.sampled_from(BY_MSGSPEC), st.data())
def test_msgspec_and_plain_python_agree_on_mutated_lines(annotation: object, data: st.DataObject) -> None:
    kind = record_type(annotation)
    valid: object = json.loads(JsonEncoder(kind).encode(data.draw(elements_of(kind))))
    if isinstance(valid, dict) and valid:
        name = data.draw(st.sampled_from(sorted(valid)))
        if data.draw(st.booleans()):
            valid[name] = data.draw(json_values)
        else:
            del valid[name]
        valid["unknown"] = data.draw(json_values)
    else:
        valid = data.draw(json_values)
    assert_read_alike(annotation, json.dumps(valid, ensure_ascii=data.draw(st.booleans())))


@examples(120)
@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("123456789012345678901234")
@example("1e999")
@example("-0")
@example("-0.0")
@example("9223372036854775807")
@example("9223372036854775808")
@example("-9223372036854775809")
def test_msgspec_and_plain_python_agree_on_numbers(text: str) -> None:
    assert_read_alike(float, text)
    assert_read_alike(int, text)
    assert_read_alike(Point, f'{{"x": {text}}}')
    assert_read_alike(list[int], f"[{text}]")


@examples(120)
@given(
    st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
        r"(\.[0-9]{0,9})?([Zz]|[+-][0-2][0-9]:?[0-6][0-9])?",
        fullmatch=True,
    )
)
@example("2024-01-01T23:59:60Z")
@example("2024-01-01T24:00:00Z")
@example("9999-12-31T23:59:59.9999999Z")
@example("0001-01-01T00:00:00+01:00")
@example("2024-01-01T00:00:00.1234565Z")
@example("2024-01-01T00:00:00-00:00")
@example("2024-01-01")
def test_msgspec_and_plain_python_agree_on_datetimes(text: str) -> None:
    assert_read_alike(datetime, json.dumps(text))
    decoded = JsonDecoder(record_type(datetime)).decode(json.dumps(text))
    assert isinstance(decoded, MalformedValue) or (isinstance(decoded, datetime) and decoded.tzinfo is UTC)


@pytest.mark.parametrize(
    "line",
    [
        "", "{", '{"x": 1} {"x": 2}', "[1]", "nul", '{"x": NaN}', '{"x": 01}', '{"x": 1, "x": 2}', '{"x": 1, "x": "a"}',
        '{"x": 1, "other": "\\ud800"}', '﻿{"x": 1}', ' {"x": 1}\r\n', "[" * 100_000, '{"x": ' + "1" * 5000 + "}",
    ],
    ids=count(),
)  # fmt: skip
def test_msgspec_and_plain_python_agree_on_odd_lines(line: str) -> None:
    assert_read_alike(Point, line)


READING = '{"sensor": "a", "at": 1, "celsius": 2.5}'
FAULTS: list[tuple[object, str, str | None, str]] = [
    (Reading, "{", None, "not JSON"),
    (Reading, "3", "Reading", "expected Reading, not int 3"),
    (Reading, '{"sensor": "a", "celsius": 2.5}', "Reading.at", "the field is missing"),
    (Reading, READING.replace("1,", "null,"), "Reading.at", "null in a required field"),
    (Reading, READING.replace("1,", '"1",'), "Reading.at", "expected int, not str '1'"),
    (Reading, READING.replace("1,", "1.0,"), "Reading.at", "expected int, not float 1.0"),
    (Reading, READING.replace("1,", "true,"), "Reading.at", "expected int, not bool True"),
    (Reading, READING.replace("1,", f"{2**63},"), "Reading.at", "does not fit 64 bits"),
    (Reading, READING.replace("2.5", '"2.5"'), "Reading.celsius", "expected float, not str '2.5'"),
    (Reading, READING.replace("2.5", "1e999"), "Reading.celsius", "out of range"),
    (Reading, READING.replace('"a"', '"\\ud800"'), "Reading.sensor", "surrogate"),
    (list[Place], '[{"x": 1, "y": {}}]', "list[tests.codecs.samples.Place][].y", "expected float, not object"),
    (Options, '{"name": "a", "size": null}', "Options.size", "null in a required field"),
    (tuple[int, str], "[1]", "tuple[int, str]", "expected 2 elements, not 1"),
    (dict[int, str], '{"01": "a"}', "dict[int, str]{key}", "expected the digits"),
    (Colour, '"blue"', "Colour", "'blue' is no value of Colour"),
    (datetime, "1700000000", "datetime", "expected an ISO 8601 date and time, not int"),
    (date, '"2024-02-30"', "date", "'2024-02-30'"),
    (timedelta, '"P"', "timedelta", "duration"),
    (Decimal, '"1,5"', "Decimal", "not a decimal number"),
    (bytes, '"*"', "bytes", "not base64"),
    (Positive, '{"n": -1}', "Positive", "ValueError: n is negative"),
]


@pytest.mark.parametrize("use_msgspec", [True, False])
@pytest.mark.parametrize(("annotation", "line", "field", "reason"), FAULTS, ids=count())
def test_faults_name_the_field_and_the_reason(
    annotation: object, line: str, field: str | None, reason: str, use_msgspec: bool
) -> None:
    decoder = JsonDecoder(record_type(annotation), use_msgspec=use_msgspec)
    record = decoder.decode(line)
    assert isinstance(record, MalformedValue)
    assert (record.field, record.raw) == (field, line)
    error = record.error()
    assert error.where == field
    assert reason in error.message
    assert error.given == line


def test_bytes_that_are_not_utf_8() -> None:
    record = JsonDecoder(record_type(str)).decode(b'"\xff"')
    assert isinstance(record, MalformedValue)
    assert record.raw == '"\\xff"'
    assert "utf-8" in record.reason


@pytest.mark.parametrize("use_msgspec", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "2026-07-01T12:00:00", "2026-07-01T12:00:00.1234567Z", "2026-07-01T12:00:00.0000001Z",
        "2026-07-01T12:00:00\\u002e1234567Z", "2026-07-01T12\\u003a00:00.5",
    ],
)  # fmt: skip
def test_datetimes_that_name_no_moment_or_are_too_fine(text: str, use_msgspec: bool) -> None:
    kinds: dict[object, str] = {
        Stamped: f'{{"at": "{text}", "n": 1.12345678}}',
        dict[datetime, int]: f'{{"{text}": 1}}',
        list[tuple[datetime, int]]: f'[["{text}", 1]]',
    }
    for kind, line in kinds.items():
        for text_or_bytes in (line, line.encode()):
            record = JsonDecoder(record_type(kind), use_msgspec=use_msgspec).decode(text_or_bytes)
            assert isinstance(record, MalformedValue), kind
            assert "timezone=" in record.reason or "finer than a microsecond" in record.reason


@dataclass
class Stamped:
    at: datetime
    n: float


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-31T12:00:00", "2026-01-31T11:00:00"),
        ("2026-07-31 12:00:00.5", "2026-07-31T10:00:00.500000"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00"),  # shown twice
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00"),  # never shown
        ("2026-07-31T12:00:00Z", "2026-07-31T12:00:00"),
        ("2026-07-31T12:00:00+05:00", "2026-07-31T07:00:00"),
    ],
)
def test_a_source_says_where_the_clock_is(text: str, utc: str) -> None:
    expected = datetime.fromisoformat(utc).replace(tzinfo=UTC)
    kind = record_type(dict[datetime, list[datetime | None]]).in_timezone(ZoneInfo("Europe/Berlin"))
    assert JsonDecoder(kind).decode(f'{{"{text}": ["{text}", null]}}') == {expected: [expected, None]}
    row = record_type(Stamped).in_timezone(ZoneInfo("Europe/Berlin"))
    assert CsvDecoder(row, ["n", "at"]).decode(CsvRow(1, "", ["1", text])) == Stamped(expected, 1.0)


@pytest.mark.parametrize("use_msgspec", [True, False])
def test_missing_and_extra_fields(use_msgspec: bool) -> None:
    decoder = JsonDecoder(record_type(Defaults), use_msgspec=use_msgspec)
    assert decoder.decode('{"name": "a", "extra": [1]}') == Defaults("a", 3, [], None, 1.5)
    assert JsonDecoder(record_type(Trip), use_msgspec=use_msgspec).decode(
        '{"id": 1, "at": "2024-01-01T00:00:00Z", "fare": 3, "paid": false, "stops": [{"x": 1, "y": 2}],'
        ' "counts": {}, "pair": [1, "a"], "colour": "red"}'
    ) == Trip(
        1, datetime(2024, 1, 1, tzinfo=UTC), 3.0, False, None, [Place(1.0, 2.0)], {}, (1, "a"), Colour.RED, Level.LOW
    )


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_floats_that_json_lacks_are_texts(number: float) -> None:
    kind = record_type(float)
    line = JsonEncoder(kind).encode(number)
    assert json.loads(line) in ("NaN", "Infinity", "-Infinity")
    assert repr(JsonDecoder(kind).decode(line)) == repr(number)


def test_decimals_keep_their_digits() -> None:
    digits = "12345678901234567.123456789012345678"
    decoder = JsonDecoder(record_type(Decimal))
    assert decoder.decode(digits) == decoder.decode(f'"{digits}"') == Decimal(digits)


@dataclass(init=False)
class Custom:
    n: int

    def __init__(self, n: int) -> None:
        self.n = n * 2


def test_a_constructor_of_the_users_is_called() -> None:
    assert JsonDecoder(record_type(Custom)).decode('{"n": 2}') == Custom(2)
