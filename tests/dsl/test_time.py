"""Durations and timestamps as milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dsl.plans import refusal
from windrow.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    duration_millis,
    duration_text,
    lag_text,
    positive_millis,
    timestamp_millis,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_the_range_is_that_of_64_bits() -> None:
    assert (MIN_TIMESTAMP, MAX_TIMESTAMP) == (-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("duration", "millis"),
    [
        (timedelta(0), 0),
        (timedelta(milliseconds=1), 1),
        (timedelta(seconds=-5), -5_000),
        (timedelta(days=1, seconds=2, milliseconds=3), 86_402_003),
        (timedelta.max - timedelta(microseconds=999_999), 86_399_999_999_999_000),
    ],
    ids=str,
)
def test_durations(duration: timedelta, millis: int) -> None:
    assert duration_millis(duration, "the size") == millis


@given(st.integers(-(10**15), 10**15))
def test_durations_there_and_back(millis: int) -> None:
    assert duration_millis(timedelta(milliseconds=millis), "the size") == millis


IS_DURATION = "a datetime.timedelta"
HAS_FRACTION = "the size has a fraction of a millisecond"


@pytest.mark.parametrize(
    ("duration", "message", "expected", "hint"),
    [
        (5, "the size must be a duration", IS_DURATION, "timedelta(seconds=5), or timedelta(milliseconds=5)"),
        ("5s", "the size must be a duration", IS_DURATION, None),
        (timedelta(microseconds=1_500), HAS_FRACTION, "whole milliseconds, the unit of event time", None),
    ],
    ids=["int", "text", "fraction"],
)
def test_durations_that_are_none(duration: timedelta, message: str, expected: str, hint: str | None) -> None:
    error = refusal(lambda: duration_millis(duration, "the size"))
    assert (error.message, error.given, error.expected, error.hint) == (message, duration, expected, hint)


@pytest.mark.parametrize("duration", [timedelta(0), timedelta(seconds=-1)], ids=str)
def test_durations_that_must_be_positive(duration: timedelta) -> None:
    assert refusal(lambda: positive_millis(duration, "the gap")).message == "the gap must be positive"
    assert positive_millis(timedelta(milliseconds=1), "the gap") == 1


@pytest.mark.parametrize(
    ("timestamp", "millis"),
    [
        (0, 0),
        (-1, -1),
        (MIN_TIMESTAMP, MIN_TIMESTAMP),
        (MAX_TIMESTAMP, MAX_TIMESTAMP),
        (EPOCH, 0),
        (EPOCH + timedelta(microseconds=1_999), 1),
        (EPOCH - timedelta(microseconds=1), -1),
        (datetime(2026, 1, 5, 7, 0, tzinfo=timezone(timedelta(hours=1))), 1_767_592_800_000),
        (datetime(1, 1, 1, tzinfo=UTC), -62_135_596_800_000),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999),
    ],
    ids=str,
)
def test_timestamps(timestamp: int | datetime, millis: int) -> None:
    assert timestamp_millis(timestamp) == millis


@given(st.datetimes(timezones=st.timezones()))
def test_a_datetime_is_rounded_down_to_its_millisecond(moment: datetime) -> None:
    start = EPOCH + timedelta(milliseconds=1) * timestamp_millis(moment)
    assert start <= moment < start + timedelta(milliseconds=1)


BEYOND, NAIVE = "a timestamp is out of range", "a timestamp has no time zone"
KIND = "a timestamp has the wrong type"
AWARE, EPOCH_MILLIS = "an aware datetime, or epoch milliseconds", "epoch milliseconds as int, or an aware datetime"


@pytest.mark.parametrize(
    ("timestamp", "message", "expected", "hint"),
    [
        (MAX_TIMESTAMP + 1, BEYOND, "milliseconds in the signed 64-bit range", None),
        (datetime(2026, 1, 5), NAIVE, AWARE, "datetime.replace(tzinfo=timezone.utc) if the value is in UTC"),
        (1.5, KIND, EPOCH_MILLIS, "int(seconds * 1000) for seconds as a float"),
        ("now", KIND, EPOCH_MILLIS, "datetime.fromisoformat(text), where the text has a time zone"),
        (True, KIND, EPOCH_MILLIS, None),
    ],
    ids=["out of range", "naive", "float", "text", "bool"],
)
def test_timestamps_that_are_none(timestamp: int | datetime, message: str, expected: str, hint: str | None) -> None:
    error = refusal(lambda: timestamp_millis(timestamp))
    assert (error.message, error.given, error.expected, error.hint) == (message, timestamp, expected, hint)


def test_the_longest_timedelta_means_for_ever() -> None:
    assert duration_millis(timedelta.max, "the lateness") == MAX_TIMESTAMP


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 ms"),
        (250, "250 ms"),
        (-999, "-999 ms"),
        (1_000, "1 s"),
        (1_500, "1.5 s"),
        (60_001, "1 min 0.001 s"),
        (300_000, "5 min"),
        (5_400_000, "1 h 30 min"),
        (86_400_000, "1 d"),
        (90_061_250, "1 d 1 h 1 min 1.25 s"),
        (-90_000, "-1 min 30 s"),
        (MAX_TIMESTAMP, "for ever"),
    ],
)
def test_durations_are_shown_to_the_millisecond(millis: int, text: str) -> None:
    assert duration_text(millis) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_840, "1.8 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min"),
        (125_999, "2 min 5 s"),
        (3_600_000 + 59_999, "1 h"),
        (443_000_000, "5 d 3 h"),
        (-3_120, "-3.1 s"),
    ],
)
def test_lags_are_shown_in_their_two_largest_units(millis: int, text: str) -> None:
    assert lag_text(millis) == text
