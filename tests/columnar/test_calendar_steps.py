"""Windows of the calendar on columns give what the general operator gives, around changes of clocks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, time, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples, seeded
from tests.columnar.engine import FEW, Element, batches, run
from tests.columnar.planning import column_form
from tests.columnar.window_steps import (
    FROM_START,
    OF_ELEMENTS,
    TINY,
    TOTALS,
    UNORDERED,
    WHOLE_WINDOW,
    Plan,
    agree,
    planned,
    purged,
)
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    after_count,
    after_watermark,
)
from windrow.windows import AssignerContext, CalendarWindows
from windrow.windows.spec import FARTHEST
from windrow_spark.columnar.windows.calendar_slices import CalendarSlices

# Any in this module: windows with results of every type.

HOUR = 3_600_000
DAY = 24 * HOUR

BERLIN_IN_AUTUMN = datetime(2025, 10, 26, tzinfo=UTC)
SAMOA_WITHOUT_A_DAY = datetime(2011, 12, 30, tzinfo=UTC)
LORD_HOWE_IN_AUTUMN = datetime(2025, 4, 5, tzinfo=UTC)
SAO_PAULO_IN_SPRING = datetime(2018, 11, 4, tzinfo=UTC)

days = CalendarWindows.days
PLANS: dict[str, tuple[Plan, datetime, int]] = {
    "days": (planned(days("Europe/Berlin"), FROM_START), BERLIN_IN_AUTUMN, HOUR // 6),
    "days without one": (planned(days("Pacific/Apia"), FROM_START, lateness=DAY), SAMOA_WITHOUT_A_DAY, HOUR // 6),
    "pairs of days without one": (planned(days("Pacific/Apia", 2), FROM_START), SAMOA_WITHOUT_A_DAY, HOUR // 2),
    "days with lateness": (
        planned(days("America/Sao_Paulo"), WHOLE_WINDOW, lateness=2 * DAY, late=True),
        SAO_PAULO_IN_SPRING,
        HOUR // 3,
    ),
    "days that slide": (planned(days("America/Havana", 7, 1), UNORDERED), BERLIN_IN_AUTUMN, HOUR // 2),
    "days that slide, in order": (planned(days("America/Sao_Paulo", 3, 1), FROM_START), SAO_PAULO_IN_SPRING, HOUR // 6),
    "days that slide unevenly, with lateness": (
        planned(days("America/Sao_Paulo", 5, 2), WHOLE_WINDOW, lateness=DAY, late=True),
        SAO_PAULO_IN_SPRING,
        HOUR // 6,
    ),
    "hours": (planned(CalendarWindows.hours("Australia/Lord_Howe"), WHOLE_WINDOW), LORD_HOWE_IN_AUTUMN, HOUR // 60),
    "hours with late output": (
        planned(CalendarWindows.hours("Europe/Berlin"), OF_ELEMENTS, late=True),
        BERLIN_IN_AUTUMN,
        HOUR // 60,
    ),
    "weeks": (planned(CalendarWindows.weeks("Asia/Kolkata", first_day="sunday"), UNORDERED), BERLIN_IN_AUTUMN, HOUR),
    "months that slide": (planned(CalendarWindows.months("America/New_York", 3, 1), UNORDERED), BERLIN_IN_AUTUMN, DAY),
    "years": (planned(CalendarWindows.years("Europe/Berlin", first_month=4), UNORDERED), BERLIN_IN_AUTUMN, 5 * DAY),
    "counted": (
        planned(days("Europe/Berlin"), WHOLE_WINDOW, CountTrigger.of(3), late=True, waits=True),
        BERLIN_IN_AUTUMN,
        HOUR // 3,
    ),
    "counted, sliding, purged": (
        planned(days("America/Sao_Paulo", 3, 1), WHOLE_WINDOW, purged(3), late=True, waits=True),
        SAO_PAULO_IN_SPRING,
        HOUR // 3,
    ),
    "at intervals": (
        planned(days("Europe/Berlin"), WHOLE_WINDOW, ContinuousEventTimeTrigger.of(timedelta(hours=5)), lateness=DAY),
        BERLIN_IN_AUTUMN,
        HOUR // 3,
    ),
    "purged at the end": (
        planned(
            days("America/Sao_Paulo", 3, 1), WHOLE_WINDOW, PurgingTrigger.of(EventTimeTrigger.create()), lateness=DAY
        ),
        SAO_PAULO_IN_SPRING,
        HOUR // 6,
    ),
    "panes": (
        planned(
            days("Europe/Berlin", 2, 1),
            TOTALS,
            after_watermark(early=after_count(4)),
            mode="accumulating",
            lateness=DAY,
        ),
        BERLIN_IN_AUTUMN,
        HOUR // 3,
    ),
}


def moved(element: Element, to: datetime, scale: int) -> Element:
    """The element at a time around another one; what was a millisecond is so many."""
    return element._replace(at=int(to.timestamp()) * 1000 + (element.at - 700) * scale)


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    plan, around, scale = PLANS[name]
    found = batches(random.Random(seed), FEW)
    inputs = [*([moved(each, around, scale) for each in batch] for batch in found), *[[]] * 3]
    ran = run(plan.build, inputs, column_form, crash_at=seed, late=plan.late, tuning=TINY)
    agree(ran, plan)
    assert len(ran.expected[0]) > plan.least
    assert set(ran.engine.records.values()) == {None}


ZONES = ["Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe", "America/Sao_Paulo", "America/St_Johns"]
assigners: st.SearchStrategy[CalendarWindows] = st.sampled_from(ZONES).flatmap(
    lambda zone: st.one_of(
        st.just(CalendarWindows.hours(zone)),
        st.integers(1, 4).map(lambda size: days(zone, size)),
        st.tuples(st.integers(1, 4), st.integers(1, 4)).map(
            lambda sizes: days("America/Havana", max(sizes), min(sizes))
        ),
        st.just(CalendarWindows.weeks(zone, 2, 1, "sunday")),
        st.just(CalendarWindows.months(zone, 5, 3)),
        st.just(CalendarWindows.days(zone, 2, 1, time(2, 30))),
        st.just(CalendarWindows.years(zone, first_month=7)),
    )
)
AROUND = [
    BERLIN_IN_AUTUMN,
    SAMOA_WITHOUT_A_DAY,
    LORD_HOWE_IN_AUTUMN,
    SAO_PAULO_IN_SPRING,
    datetime(2000, 4, 2, 3, tzinfo=UTC),
]
moments = st.tuples(st.sampled_from(AROUND), st.integers(-90, 90), st.sampled_from([HOUR // 2, DAY, 1])).map(
    lambda parts: int(parts[0].timestamp()) * 1000 + parts[1] * parts[2]
)
watermarks = moments | st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP - 1, MAX_TIMESTAMP])


class NoClock(AssignerContext):
    @property
    def current_processing_time(self) -> int:
        raise AssertionError("event time needs no clock")


def slices_for(assigner: CalendarWindows, lateness: int) -> CalendarSlices:
    return CalendarSlices(assigner.units, assigner.slide_units, 0, lateness, calendar=assigner.calendar)


@examples(60)
@given(assigners, st.lists(moments, min_size=1, max_size=20), watermarks, watermarks, st.sampled_from([0, DAY]))
def test_windows_of_slices_are_those_of_the_assigner(
    assigner: CalendarWindows, stamps: list[int], after: int, until: int, lateness: int
) -> None:
    slices = slices_for(assigner, lateness)
    of_stamps = slices.slices_of(np.array(stamps))
    assert slices.slices_of(of_stamps).tolist() == of_stamps.tolist()
    found = np.unique(of_stamps)
    windows = {each: assigner.assign_windows(None, each, NoClock()) for each in found.tolist()}
    for stamp, of_stamp in zip(stamps, of_stamps.tolist(), strict=True):
        assert assigner.assign_windows(None, stamp, NoClock()) == windows[of_stamp]
    pairs = [
        (place, *window)
        for place, each in enumerate(found.tolist())
        for window in windows[each]
        if after < window.max_timestamp() <= until
    ]
    places, starts = slices.windows(found, after, until)
    assert list(zip(places.tolist(), starts.tolist(), slices.ends(starts).tolist(), strict=True)) == pairs
    assert slices.windows_at(slices.window_numbers(starts)).tolist() == starts.tolist()
    wanted = sorted({start for _, start, _ in pairs})
    assert [start for some in slices.ending(found, after, until) for start in some.tolist()] == wanted
    begins, ends = slices.held_by(found, np.array(wanted, np.int64))
    held = [(place, start) for start, low, high in zip(wanted, begins, ends, strict=True) for place in range(low, high)]
    assert sorted(held) == sorted((place, start) for place, start, _ in pairs)
    assert slices.any_ends(int(found[0]), int(found[-1]), after, until) >= bool(wanted)
    for place, due_time in enumerate(slices.next_times(found, after).tolist()):
        last = [window.max_timestamp() for window in windows[int(found[place])]]
        due = min(
            (each for each in [*last, *(each + lateness for each in last)] if each > after), default=MAX_TIMESTAMP
        )
        assert due_time == due
    last_times = [windows[each][0].max_timestamp() for each in found.tolist()]
    expired = [last + lateness <= after for last in last_times]
    assert slices.expired(found, after).tolist() == expired


def test_the_farthest_timestamps_stay_in_64_bits() -> None:
    for assigner in (
        CalendarWindows.hours("Europe/Berlin"),
        days("America/Havana", 7, 1),
        CalendarWindows.years("UTC"),
    ):
        slices = slices_for(assigner, 0)
        stamps = np.array([-FARTHEST, 0, FARTHEST])
        found = slices.slices_of(stamps)
        assert (found <= stamps).all()
        assert (slices.ends(slices.last_windows(found)) > stamps).all()
        assert (slices.next_times(found, MAX_TIMESTAMP) == MAX_TIMESTAMP).all()
        assert np.concatenate(list(slices.ending(found, MIN_TIMESTAMP, MAX_TIMESTAMP))).size >= 3
