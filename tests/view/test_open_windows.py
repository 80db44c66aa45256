"""The windows that a watermark leaves open, as the plan tells them, and as the interpreter has them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.plan import Step
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.watermarks import BoundedOutOfOrdernessWatermarks
from windrow.windows import (
    CalendarWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from windrow_runtime.testing import assign_windows
from windrow_tools.view.open_windows import open_windows


class Click(NamedTuple):
    page: str
    at: int


MS = timedelta(milliseconds=1)
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(3 * MS)


# Any: assigners of windows of all classes.
def step_of(assigner: WindowAssigner[Any, Any], lateness: int = 0, strategy: WatermarkStrategy[Any] = BOUNDED) -> Step:
    clicks = from_source(CollectionSource([], Click)).assign_timestamps_and_watermarks(
        strategy, timestamp=lambda c: c.at
    )
    windows = clicks.key_by(lambda click: click.page).window(assigner)
    if lateness:
        windows = windows.allowed_lateness(lateness * MS)
    pipeline = Pipeline("clicks", windows.aggregate(agg.count()).sink_to(CollectSink()))
    return next(step for step in pipeline.steps if step.node.kind == "window")


@given(
    size=st.integers(1, 20),
    slide=st.integers(1, 20),
    offset=st.integers(0, 19),
    lateness=st.integers(0, 30),
    watermark=st.integers(-50, 50),
    tumbles=st.booleans(),
)
def test_they_are_those_that_an_element_can_still_be_in(
    size: int, slide: int, offset: int, lateness: int, watermark: int, tumbles: bool
) -> None:
    slide = size if tumbles else slide
    offset %= slide
    step = step_of(
        TumblingEventTimeWindows.of(size * MS, offset * MS)
        if tumbles
        else SlidingEventTimeWindows.of(size * MS, slide * MS, offset * MS),
        lateness,
    )
    newest = watermark + 4
    starts = [start for start in range(-200, newest + 1) if (start - offset) % slide == 0]
    expected = [(start, start + size) for start in starts if start + size - 1 + lateness > watermark]
    found = open_windows(step, watermark)
    if not expected:
        assert found is None
        return
    assert found is not None
    assert (found.newest, found.first, found.last) == (newest, expected[0][0], expected[-1][1])
    assert found.number == len(expected)
    assert list(found.spans) == (expected if len(expected) <= 40 else [])


def test_many_windows_are_told_by_their_ends_alone() -> None:
    found = open_windows(step_of(TumblingEventTimeWindows.of(MS), lateness=1_000), 0)
    assert found is not None
    assert (found.spans, found.number, found.first, found.last) == ((), 1_004, -999, 5)


HOUR = timedelta(hours=1) // MS


@pytest.mark.parametrize(
    "assigner",
    [
        CalendarWindows.hours("Australia/Lord_Howe"),
        CalendarWindows.days("Pacific/Apia"),
        CalendarWindows.days("Pacific/Apia", size=3, slide=1),
        CalendarWindows.weeks("Europe/Berlin", size=2, slide=1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("moment", ["2011-12-30T10:00Z", "2025-04-05T15:00Z", "1970-01-01T00:00Z"])
def test_those_of_the_calendar_are_the_ones_that_an_element_can_still_be_in(
    assigner: CalendarWindows, moment: str
) -> None:
    at = datetime.fromisoformat(moment).timestamp() * 1000
    lateness = 30 * HOUR
    for watermark in range(int(at) - 3 * HOUR, int(at) + 3 * HOUR, HOUR // 2):
        found = open_windows(step_of(assigner, lateness), watermark)
        moments = range(watermark - lateness - 600 * HOUR, watermark + 5, HOUR // 4)
        windows = {window for each in [*moments, watermark + 4] for window in assign_windows(assigner, None, each)}
        expected = sorted(window for window in windows if window.max_timestamp() + lateness > watermark)
        assert found is not None
        assert (found.first, found.last, found.number) == (expected[0].start, expected[-1].end, len(expected))
        assert list(found.spans) == expected


def test_sessions_have_a_range() -> None:
    found = open_windows(step_of(EventTimeSessionWindows.with_gap(10 * MS)), 100)
    assert found is not None
    assert (found.first, found.last, found.number) == (92, 114, None)


@pytest.mark.parametrize(
    "step",
    [
        step_of(TumblingProcessingTimeWindows.of(MS)),
        step_of(GlobalWindows.create_with_end_of_stream_trigger()),
        step_of(TumblingEventTimeWindows.of(10 * MS, stagger=WindowStagger.RANDOM)),
        step_of(EventTimeSessionWindows.with_dynamic_gap(lambda click: MS)),
        step_of(
            TumblingEventTimeWindows.of(MS),
            strategy=WatermarkStrategy[Click].for_generator(lambda: BoundedOutOfOrdernessWatermarks(5)),
        ),
    ],
    ids=["processing time", "global", "staggered", "dynamic gap", "generator of the user's"],
)
def test_where_the_plan_does_not_tell_them_there_are_none(step: Step) -> None:
    assert open_windows(step, 100) is None


def test_without_a_watermark_there_are_none() -> None:
    assert open_windows(step_of(TumblingEventTimeWindows.of(MS)), None) is None
