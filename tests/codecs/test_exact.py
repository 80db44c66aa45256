"""What a scalar type holds: the value that equals a datum, or an error that names the field."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from windrow_runtime.codecs.csv import CsvDecoder, CsvRow
from windrow_runtime.codecs.exact import NANOS, NumberForm, exactly, float_of_digits, stored
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedValue, UnfitError
from windrow_runtime.codecs.record_type import record_type


@pytest.mark.parametrize(
    ("annotation", "datum", "expected"),
    [
        (int, 2**63 - 1, 2**63 - 1),
        (int, np.uint64(7), 7),
        (int, 3.0, 3),
        (int, Decimal(2**62), 2**62),
        (float, 2**53, 2.0**53),
        (float, np.float32(0.1), float(np.float32(0.1))),
        (float, -math.inf, -math.inf),
        (bool, np.bool_(1), True),
        (str, "\U0001f600", "\U0001f600"),
        (Decimal, Decimal("1.5"), Decimal("1.5")),
        (Decimal, 12, Decimal(12)),
        (datetime, datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), datetime(2026, 1, 1, tzinfo=UTC)),
        (datetime, pd.Timestamp("2026-01-01T00:00:00.000001Z"), datetime(2026, 1, 1, 0, 0, 0, 1, UTC)),
        (datetime, -1, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (timedelta, -(2**40), timedelta(microseconds=-(2**40))),
        (date, -1, date(1969, 12, 31)),
    ],
)
def test_value_that_equals_a_datum(annotation: type, datum: object, expected: object) -> None:
    value = exactly(datum, record_type(annotation).root, "Row.x")
    assert value == expected
    assert isinstance(value, annotation)


UNFIT: dict[type, list[object]] = {
    int: [2**63, -(2**63) - 1, 2.5, math.nan, math.inf, True, "5"],
    float: [2**53 + 1, 10**400, np.longdouble(1) / 3, True, "1"],
    bool: [1],
    str: ["\ud800", b"a"],
    Decimal: [Decimal("1e-19"), Decimal("1e20"), Decimal("NaN"), 1.5],
    datetime: [datetime(2026, 1, 1), pd.Timestamp("2026-01-01T00:00:00.000000001Z"), 2**62],
    timedelta: [pd.Timedelta(1, "ns"), 2**70],
    date: [datetime(2026, 1, 1, tzinfo=UTC), 2**31],
}


@pytest.mark.parametrize(("annotation", "datum"), [(kind, datum) for kind in UNFIT for datum in UNFIT[kind]])
def test_datum_that_a_type_does_not_hold(annotation: type, datum: object) -> None:
    with pytest.raises(UnfitError) as raised:
        exactly(datum, record_type(annotation).root, "Row.x")
    assert raised.value.path == "Row.x"


def test_counts_of_finer_units() -> None:
    moment, span = record_type(datetime).root, record_type(timedelta).root
    assert exactly(-1_000, moment, "x", NANOS) == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    assert exactly(5, moment, "x", 1_000) == datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)
    assert exactly(3_000, span, "x", NANOS) == timedelta(microseconds=3)
    for value in (moment, span):
        with pytest.raises(UnfitError, match="finer than a microsecond"):
            exactly(-1, value, "x", NANOS)


def test_forms_of_others_schemas() -> None:
    assert stored(2**31 - 1, NumberForm.INT32, "x") == 2**31 - 1
    assert stored(2**64 - 1, NumberForm.UINT64, "x") == 2**64 - 1
    assert math.isinf(stored(math.inf, NumberForm.FLOAT32, "x"))
    assert stored(0.1, NumberForm.FLOAT32, "x") == 0.1
    for number, form in (
        (2**31, NumberForm.INT32),
        (-1, NumberForm.UINT32),
        (-1, NumberForm.UINT64),
        (1e39, NumberForm.FLOAT32),
    ):
        with pytest.raises(UnfitError, match="beyond"):
            stored(number, form, "Row.x")
    for wrong in (1.5, True, "1"):
        with pytest.raises(UnfitError, match="no whole number"):
            stored(wrong, NumberForm.INT64, "Row.x")
    assert stored(2.0**-149, NumberForm.FLOAT32, "x") == 2.0**-149
    assert stored(-0.0, NumberForm.FLOAT32, "x") == 0
    with pytest.raises(UnfitError, match="nearer to zero"):
        stored(-1e-50, NumberForm.FLOAT32, "x")


def test_floats_named_by_digits() -> None:
    assert float_of_digits(590295810358705700000, "x") == 2.0**69  # as JavaScript writes it
    assert float_of_digits(2**53 + 2, "x") == 2.0**53 + 2
    for number in (2**53 + 1, 10**17 + 1, 10**400):
        with pytest.raises(UnfitError):
            float_of_digits(number, "x")


class Weighed(NamedTuple):
    weight: float
    maybe: float | None = None


@pytest.mark.parametrize("text", ["9007199254740993", "-9007199254740993", f"1{'0' * 400}"])
def test_whole_numbers_of_texts_that_are_no_floats(text: str) -> None:
    kind = record_type(Weighed)
    for use_msgspec in (True, False):
        decoder = JsonDecoder(kind, use_msgspec=use_msgspec)
        for line in (f'{{"weight": {text}}}', f'{{"weight": 1, "maybe": {text}}}'):
            assert isinstance(decoder.decode(line), MalformedValue)
    read = CsvDecoder(kind, ["weight", "maybe"]).decode(CsvRow(1, text, [text, "1"]))
    assert isinstance(read, MalformedValue)
    assert read.field == "Weighed.weight"


@pytest.mark.parametrize("text", ["9007199254740992", "590295810358705700000", "1e300", "-9007199254740994", "0.1"])
def test_numbers_of_texts_that_name_floats(text: str) -> None:
    kind = record_type(Weighed)
    for use_msgspec in (True, False):
        assert JsonDecoder(kind, use_msgspec=use_msgspec).decode(f'{{"weight": {text}}}') == Weighed(float(text))
    assert CsvDecoder(kind, ["weight"]).decode(CsvRow(1, text, [text])) == Weighed(float(text))
