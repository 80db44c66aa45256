"""Hints of errors: what to write instead of what people who know other systems, or are in a hurry, write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

import pytest

from tests.dsl.plans import SECOND
from windrow import WatermarkStrategy, from_collection
from windrow.errors import WindrowError
from windrow.failures import Retry
from windrow.functions import ExponentialBackoffDelayRetryStrategy, FixedDelayRetryStrategy
from windrow.windows import CalendarWindows, CumulativeEventTimeWindows, SlidingEventTimeWindows

# Any: what a type checker would refuse.
numbers: Any = from_collection([1, 2])
keyed: Any = numbers.key_by(abs)
days: Any = CalendarWindows.days
weeks: Any = CalendarWindows.weeks
cumulative: Any = CumulativeEventTimeWindows.of
bounded: Any = WatermarkStrategy.for_bounded_out_of_orderness
retry: Any = Retry

ARGUMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "a number of seconds": (lambda: bounded(60), r"timedelta\(seconds=60\), or timedelta\(milliseconds=60\)"),
    "a number as within": (lambda: keyed.first(within=60), r"^within must be a duration(.|\n)*timedelta\(seconds=60\)"),
    "a negative within": (lambda: keyed.first(within=-SECOND), r"^within must be positive\n  given:    -1 s\n"),
    "a negative bound": (lambda: bounded(-60 * SECOND), r"must not be negative\n  given:    -1 min\n"),
    "a negative slide": (lambda: SlidingEventTimeWindows.of(SECOND, -SECOND), "given:    -1 s\n"),
    "a negative delay": (lambda: FixedDelayRetryStrategy(3, -SECOND), "must not be negative\n  given:    -1 s\n"),
    "delays that are swapped": (
        lambda: ExponentialBackoffDelayRetryStrategy(3, SECOND, SECOND / 1000),
        "given:    3 attempts, 1 s to 1 ms apart(.|\n)*max_attempts, initial_delay, max_delay",
    ),
    "the order of Flink's CUMULATE": (lambda: cumulative(SECOND, 60 * SECOND), "hint:     max_size comes first"),
    "a zone that is misspelt": (lambda: days("America/NewYork"), r"did you mean America/New_York\?"),
    "a zone in small letters": (lambda: days("europe/berlin"), r"did you mean Europe/Berlin\?"),
    "Beam's calendar": (lambda: days(1), r"days\(zone, size\)"),
    "a zone of datetime": (lambda: days(UTC), 'hint:     "UTC"'),
    "an offset": (lambda: days("UTC-5"), r"Etc/GMT\+5"),
    "a day in capitals": (lambda: weeks("UTC", first_day="Sunday"), r"did you mean sunday\?"),
    "windows that leave gaps": (lambda: days("UTC", 1, 7), "windows of 1 day follow"),
    "a policy that is misspelt": (lambda: numbers.map(abs, on_error="dorp"), r"did you mean drop\?"),
    "a last policy that is misspelt": (lambda: retry(FixedDelayRetryStrategy(3), then="Fail"), r"did you mean fail\?"),
    "a class as a policy": (lambda: numbers.map(abs, on_error=Retry), "an instance, not the class"),
    "None as a policy": (lambda: numbers.map(abs, on_error=None), "\n  given:    None\n"),
    "a time as a time to live": (
        lambda: keyed.stateful_map(int, max, ttl=timedelta(1)),
        r"hint:     ttl=StateTtlConfig\(timedelta\(\.\.\.\)\)",
    ),
    "a function as a sink": (lambda: numbers.sink_to(print), r"FunctionSink\(function\) calls it"),
}


@pytest.mark.parametrize("mistake", ARGUMENTS)
def test_a_wrong_argument_leads_to_the_right_one(mistake: str) -> None:
    call, text = ARGUMENTS[mistake]
    with pytest.raises(WindrowError, match=text):
        call()
