"""Windows of the calendar, at every change of clocks of six zones from 1990 to 2040, against the clock of each zone."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import for_a_night
from windrow import KeyedStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.aggregates.facts import BoundTime, WindowFact
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows import CalendarProcessingTimeWindows, CalendarWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness, assign_windows

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # changes by half an hour
    "Asia/Kolkata",  # has no changes in this time
    "America/Sao_Paulo",  # changed at midnight
    "Pacific/Apia",  # had no 30 December 2011
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def millis(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@cache
def changes(zone: str) -> list[datetime]:
    """When the clock of a zone was changed, to the hour; at least the turn of each year is among them."""
    clock = ZoneInfo(zone)
    hours = [datetime(1990, 1, 1, tzinfo=UTC) + timedelta(hours=6 * number) for number in range(4 * 365 * 50 + 52)]
    return [
        before
        for before, after in pairwise(hours)
        if before.astimezone(clock).utcoffset() != after.astimezone(clock).utcoffset() or before.month > after.month
    ]


def days_around(zone: str) -> Iterator[list[tuple[int, datetime]]]:
    """Five days around each change, every quarter of an hour: the timestamp, and what the clock shows."""
    clock = ZoneInfo(zone)
    for change in changes(zone)[:: for_a_night(1, 3)]:
        moments = [change + timedelta(minutes=15 * number) for number in range(-4 * 36, 4 * 84)]
        yield [(millis(moment), moment.astimezone(clock)) for moment in moments]


def quarter_of(day: date) -> Hashable:
    return day.year, (day.month - 1) // 3


UNITS: dict[str, tuple[Callable[[str], CalendarWindows], Callable[[date], Hashable]]] = {
    "days": (CalendarWindows.days, lambda day: day),
    "weeks": (CalendarWindows.weeks, lambda day: day.isocalendar()[:2]),
    "weeks from Sunday": (
        lambda zone: CalendarWindows.weeks(zone, first_day="sunday"),
        lambda day: (day + timedelta(days=1)).isocalendar()[:2],
    ),
    "months": (CalendarWindows.months, lambda day: (day.year, day.month)),
    "quarters": (CalendarWindows.quarters, quarter_of),
    "years": (CalendarWindows.years, lambda day: day.year),
    "years from April": (
        lambda zone: CalendarWindows.years(zone, first_month=4),
        lambda day: day.year - (day.month < 4),
    ),
}


@pytest.mark.parametrize("zone", ZONES)
def test_each_change_of_clocks_is_in_the_window_of_its_day(zone: str) -> None:
    assert len(changes(zone)) >= (50 if zone == "Asia/Kolkata" else 60)
    for moments in days_around(zone):
        # A day that has begun goes on where the clock is put back into the day before.
        latest = moments[0][1].date()
        dated: list[tuple[int, date]] = []
        for timestamp, shown in moments:
            latest = max(latest, shown.date())
            dated.append((timestamp, latest))
        for windows_in, unit_of in UNITS.values():
            _agree(windows_in(zone), [(timestamp, unit_of(day)) for timestamp, day in dated])


TIMES = [time(0, 15), time(1, 30), time(2), time(2, 30), time(18), time(23, 45)]
STARTING: dict[str, tuple[Callable[[str, time], CalendarWindows], Callable[[date], Hashable]]] = {
    "days": (lambda zone, start: CalendarWindows.days(zone, start_time=start), lambda day: day),
    "weeks": (lambda zone, start: CalendarWindows.weeks(zone, start_time=start), lambda day: day.isocalendar()[:2]),
    "months": (lambda zone, start: CalendarWindows.months(zone, start_time=start), lambda day: (day.year, day.month)),
    "quarters": (lambda zone, start: CalendarWindows.quarters(zone, start_time=start), quarter_of),
    "years": (lambda zone, start: CalendarWindows.years(zone, start_time=start), lambda day: day.year),
}


@pytest.mark.parametrize("start", TIMES)
@pytest.mark.parametrize("zone", ZONES)
def test_days_begin_when_the_clock_first_shows_their_time_or_jumps_past_it(zone: str, start: time) -> None:
    since_midnight = datetime.combine(datetime.min, start) - datetime.min
    for moments in islice(days_around(zone), 0, None, 3):
        latest = (moments[0][1].replace(tzinfo=None) - since_midnight).date()
        dated: list[tuple[int, date]] = []
        for timestamp, shown in moments:
            latest = max(latest, (shown.replace(tzinfo=None) - since_midnight).date())
            dated.append((timestamp, latest))
        for windows_in, unit_of in STARTING.values():
            _agree(windows_in(zone, start), [(timestamp, unit_of(day)) for timestamp, day in dated])


@pytest.mark.parametrize("zone", ZONES)
def test_each_change_of_clocks_is_in_the_window_of_its_hour(zone: str) -> None:
    for moments in days_around(zone):
        hours = [(each, (shown.utcoffset(), shown.replace(minute=0, fold=0).isoformat())) for each, shown in moments]
        _agree(CalendarWindows.hours(zone), hours)


def _agree(assigner: CalendarWindows, units: Sequence[tuple[int, Hashable]]) -> None:
    """Timestamps of one unit are in one window, which begins and ends where the unit does."""
    runs = [[timestamp for timestamp, _ in run] for _, run in groupby(units, lambda each: each[1])]
    windows = [assign_windows(assigner, None, run[0]) for run in runs]
    for run, found in zip(runs, windows, strict=True):
        assert len(found) == 1
        assert all(
            assign_windows(assigner, None, timestamp) == found for timestamp in (run[-1], *run[:: len(run) // 9 + 1])
        )
        assert assign_windows(assigner, None, found[0].start) == found
        assert assign_windows(assigner, None, found[0].end - 1) == found
    for (before,), (after,), run in zip(windows, windows[1:], runs[1:], strict=False):
        assert before.end == after.start == run[0]


def hours_of(windows: list[TimeWindow]) -> list[float]:
    return [(window.end - window.start) / 3_600_000 for window in windows]


def windows_on(assigner: CalendarWindows, *moments: str) -> list[TimeWindow]:
    """The windows of moments of the assigner's zone."""
    stamps = [millis(datetime.fromisoformat(moment).replace(tzinfo=assigner.time_zone)) for moment in moments]
    return [window for stamp in stamps for window in assign_windows(assigner, None, stamp)]


def test_days_have_23_to_25_hours() -> None:
    berlin = CalendarWindows.days("Europe/Berlin")
    assert hours_of(windows_on(berlin, "2025-03-30", "2025-03-31", "2025-10-26")) == [23, 24, 25]
    assert hours_of(windows_on(CalendarWindows.days("Australia/Lord_Howe"), "2025-04-06", "2025-10-05")) == [24.5, 23.5]


def test_a_day_begins_at_one_where_the_clock_jumps_over_midnight() -> None:
    (day,) = windows_on(CalendarWindows.days("America/Sao_Paulo"), "2018-11-04 12:00")
    assert datetime.fromtimestamp(day.start / 1000, ZoneInfo("America/Sao_Paulo")).hour == 1
    assert hours_of([day]) == [23]


def test_a_day_begins_once_where_midnight_is_shown_twice() -> None:
    twice = windows_on(CalendarWindows.days("America/Havana"), "2024-11-03", "2024-11-03 12:00")
    assert hours_of(twice) == [25, 25]
    # At a minute past midnight the clock was put back into the day before.
    back = CalendarWindows.days("America/St_Johns")
    found = windows_on(back, "2010-11-06 12:00", "2010-11-07 12:00")
    assert hours_of(found) == [24, 25]
    assert assign_windows(back, None, found[1].start + 30 * 60_000) == [found[1]]


def test_a_day_that_does_not_exist_makes_no_window() -> None:
    before, after = windows_on(CalendarWindows.days("Pacific/Apia"), "2011-12-29 12:00", "2011-12-31")
    assert before.end == after.start
    assert hours_of([before, after]) == [24, 24]
    last_three = CalendarWindows.days("Pacific/Apia", size=3, slide=1)
    # Those that begin with the 31st, the 29th and the 28th... none begins with the 30th.
    assert hours_of(windows_on(last_three, "2011-12-31")) == [72, 48]
    assert hours_of(windows_on(CalendarWindows.weeks("Pacific/Apia"), "2011-12-31")) == [144]


def test_hours_that_exist_twice_or_not_at_all() -> None:
    berlin = CalendarWindows.hours("Europe/Berlin")
    autumn = [millis(datetime(2025, 10, 26, hour, tzinfo=UTC)) for hour in (0, 1)]
    assert [assign_windows(berlin, None, start) for start in autumn] == [
        [TimeWindow(start, start + 3_600_000)] for start in autumn
    ]
    spring = windows_on(berlin, "2025-03-30 01:00", "2025-03-30 03:00")
    assert spring[0].end == spring[1].start
    half = CalendarWindows.hours("Australia/Lord_Howe")
    assert hours_of(windows_on(half, "2025-10-05 01:30", "2025-10-05 02:45", "2025-10-05 03:10")) == [1, 0.5, 1]


@given(
    st.sampled_from(ZONES),
    st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP) | st.integers(-(2**47), 2**48),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_windows_that_slide_hold_their_timestamps(zone: str, timestamp: int, size: int, slide: int) -> None:
    size, slide = max(size, slide), min(size, slide)
    for assigner in (
        CalendarWindows.days(zone, size, slide),
        CalendarWindows.weeks(zone, size, slide, "wednesday"),
        CalendarWindows.months(zone, size, slide),
        CalendarWindows.quarters(zone, size, slide),
        CalendarWindows.years(zone, size, slide, 2),
    ):
        windows = assign_windows(assigner, None, timestamp)
        assert len(windows) in (size // slide, size // slide + bool(size % slide))
        assert all(window.start <= timestamp < window.end for window in windows)
        assert windows == sorted(set(windows), reverse=True)
        after = assign_windows(assigner, None, windows[-1].end)
        assert windows[-1] not in after


def test_windows_of_several_units_count_from_1970() -> None:
    (pair,) = windows_on(CalendarWindows.days("UTC", size=2), "1970-01-02")
    assert pair == TimeWindow(0, 2 * 86_400_000)
    (half_year,) = windows_on(CalendarWindows.quarters("UTC", size=2), "2026-08-01")
    assert [datetime.fromtimestamp(bound / 1000, UTC).month for bound in half_year] == [7, 1]
    (fiscal,) = windows_on(CalendarWindows.years("UTC", first_month=4), "2026-03-31")
    assert datetime.fromtimestamp(fiscal.start / 1000, UTC) == datetime(2025, 4, 1, tzinfo=UTC)
    (first_week,) = windows_on(CalendarWindows.weeks("UTC", size=2, first_day="sunday"), "1970-01-01")
    assert datetime.fromtimestamp(first_week.start / 1000, UTC) == datetime(1969, 12, 28, tzinfo=UTC)


def test_it_goes_to_other_processes() -> None:
    assigner = CalendarWindows.days("Europe/Berlin", 7, 1)
    copied = pickle.loads(pickle.dumps(assigner))
    assert assign_windows(copied, None, 0) == assign_windows(assigner, None, 0)
    assert repr(copied) == repr(assigner)


TEXTS = {
    "CalendarWindows.hours('Asia/Kolkata')": "CalendarWindows(hours, Asia/Kolkata)",
    "CalendarWindows.days('Europe/Berlin')": "CalendarWindows(days, Europe/Berlin)",
    "CalendarWindows.days('Europe/Berlin', size=7, slide=1)": "CalendarWindows(7 days every day, Europe/Berlin)",
    "CalendarWindows.weeks('UTC', first_day='sunday')": "CalendarWindows(weeks from sunday, UTC)",
    "CalendarWindows.months('UTC', size=3, slide=2)": "CalendarWindows(3 months every 2 months, UTC)",
    "CalendarWindows.years('UTC', first_month=4)": "CalendarWindows(years from month 4, UTC)",
    "CalendarWindows.days('UTC', start_time=time(18, 30))": "CalendarWindows(days from 18:30:00, UTC)",
    "CalendarProcessingTimeWindows.days('UTC')": "CalendarProcessingTimeWindows(days, UTC)",
}


@pytest.mark.parametrize("written", TEXTS)
def test_it_is_shown_as_it_is_written(written: str) -> None:
    windows = {"CalendarWindows": CalendarWindows, "CalendarProcessingTimeWindows": CalendarProcessingTimeWindows}
    names: dict[str, Any] = {**windows, "time": time}  # Any: names of a program
    assigner = eval(written, names)
    assert repr(assigner) == written
    assert assigner.describe() == TEXTS[written]


REFUSED: dict[str, Callable[[], object]] = {
    "the machine knows no such time zone": lambda: CalendarWindows.days("Europe/Atlantis"),
    "the machine knows no such time zone ": lambda: CalendarWindows.days("../etc/passwd"),
    "a time of the clock": lambda: CalendarWindows.days("UTC", start_time=time(18, tzinfo=UTC)),
    "a time of the clock ": lambda: CalendarWindows.months("UTC", start_time=time(microsecond=1)),
    "a time of the clock  ": lambda: CalendarWindows.weeks("UTC", start_time=18),  # type: ignore[arg-type]  # the case
    "the machine knows no such time zone  ": lambda: CalendarWindows.hours(UTC),  # type: ignore[arg-type]  # the case
    "was read from a file": lambda: CalendarWindows.hours(_from_file()),
    "must be positive": lambda: CalendarWindows.days("UTC", 0),
    "a whole number ": lambda: CalendarWindows.months("UTC", 1.5),  # type: ignore[arg-type]  # the case
    "does not fit their size": lambda: CalendarWindows.days("UTC", 1, 2),
    "does not fit their size ": lambda: CalendarWindows.days("UTC", 1_000_000, 1),
    "a day of the week": lambda: CalendarWindows.weeks("UTC", first_day="mon"),  # type: ignore[arg-type]  # the case
    "a month of the year": lambda: CalendarWindows.years("UTC", first_month=0),
}


def _from_file() -> ZoneInfo:
    from importlib.resources import files

    with (files("tzdata.zoneinfo") / "UTC").open("rb") as file:
        return ZoneInfo.from_file(file)


@pytest.mark.parametrize("why", REFUSED)
def test_it_is_refused(why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why.strip()):
        REFUSED[why]()


def readings() -> KeyedStream[tuple[str, datetime], str]:
    """Two elements of one day in Berlin, and one of the next, which is the same day in UTC."""
    moments = ["2025-10-25T22:30Z", "2025-10-26T22:59Z", "2025-10-26T23:00Z"]
    elements = [("a", datetime.fromisoformat(moment)) for moment in moments]
    stamped = from_collection(elements).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda element: element[1]
    )
    return stamped.key_by(lambda element: element[0])


def test_a_plan_runs() -> None:
    counted = readings().window(CalendarWindows.days("Europe/Berlin")).aggregate(agg.count())
    assert counted.collect() == [2, 1]
    text = Pipeline("days", counted.sink_to(CollectSink())).explain()
    assert "CalendarWindows(days, Europe/Berlin)" in text


def test_a_window_by_the_clock_fires_when_its_day_is_over() -> None:
    numbers = PushSource(int)
    days = from_source(numbers).window_all(CalendarProcessingTimeWindows.days("Europe/Berlin"))
    with StreamHarness(days.aggregate(agg.combine(agg.window_start(datetime), agg.count())), numbers) as harness:
        harness.set_processing_time(datetime.fromisoformat("2025-10-26T12:00Z"))
        harness.process_element(7)
        harness.set_processing_time(datetime.fromisoformat("2025-10-26T22:59Z"))
        assert harness.take_values() == []
        harness.set_processing_time(datetime.fromisoformat("2025-10-26T23:00Z"))
        assert harness.take_values() == [(datetime.fromisoformat("2025-10-25T22:00Z"), 1)]


class Day(NamedTuple):
    key: str
    start: datetime
    end: datetime
    readings: int


def test_bounds_are_datetimes_of_the_zone() -> None:
    days = readings().window(CalendarWindows.days("Europe/Berlin"))
    first, second = days.aggregate(
        agg.into(Day, agg.key(), agg.window_start(datetime), agg.window_end(datetime), agg.count())
    ).collect()
    assert [first.start.isoformat(), first.end.isoformat()] == [
        "2025-10-26T00:00:00+02:00",
        "2025-10-27T00:00:00+01:00",
    ]
    assert second.start.tzinfo == ZoneInfo("Europe/Berlin")
    assert days.aggregate(agg.window_start(datetime)).collect() == [first.start, second.start]


def test_the_bounds_of_an_hour_that_comes_twice_differ() -> None:
    zone = ZoneInfo("Europe/Berlin")
    starts = [BoundTime("window_start", zone).of(millis(datetime(2025, 10, 26, hour, tzinfo=UTC))) for hour in (0, 1)]
    assert [start.isoformat() for start in starts] == ["2025-10-26T02:00:00+02:00", "2025-10-26T02:00:00+01:00"]
    assert len(set(starts)) == 2


def test_bounds_of_other_windows_are_in_utc() -> None:
    hours = readings().window(TumblingEventTimeWindows.of(timedelta(hours=1)))
    start = hours.aggregate(agg.window_start(datetime)).collect()[0]
    assert start.isoformat() == "2025-10-25T22:00:00+00:00"


def test_bounds_are_shown_as_they_are_written() -> None:
    bounds: WindowFact[object, datetime, object] = agg.window_end(datetime)
    assert str(bounds) == "window_end(as_type=datetime)"
    with pytest.raises(InvalidArgumentError, match="milliseconds or datetimes"):
        agg.window_start(date)  # type: ignore[arg-type]  # the case


def test_a_bound_that_no_datetime_has_is_told() -> None:
    far = BoundTime("window_end", UTC)
    assert far.of(0) == EPOCH
    with pytest.raises(InvalidArgumentError, match="in the years 1 to 9999"):
        far.of(2**60)
