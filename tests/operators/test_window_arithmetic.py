"""Windows of fixed size: which ones hold a timestamp, anywhere in the 64-bit range."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.records import millis
from windrow.errors import InvalidArgumentError, MissingTimestampError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows import (
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
    merge_time_windows,
    window_start,
)
from windrow_runtime.testing import assign_windows

YEAR = 365 * 24 * 3_600_000
# MIN_TIMESTAMP itself stands for "none".
timestamps = st.one_of(
    st.integers(-50, 50),
    st.integers(MIN_TIMESTAMP + 1, MAX_TIMESTAMP),
    st.integers(MAX_TIMESTAMP - 50, MAX_TIMESTAMP),
    st.integers(MIN_TIMESTAMP + 1, MIN_TIMESTAMP + 50),
)
sizes = st.one_of(st.integers(1, 30), st.integers(1, YEAR))


@given(size=sizes, offset=st.integers(-YEAR, YEAR), timestamp=timestamps)
@example(size=5000, offset=-100, timestamp=-101)
def test_a_timestamp_is_in_exactly_one_tumbling_window(size: int, offset: int, timestamp: int) -> None:
    offset = offset % size if offset >= 0 else -(-offset % size)
    assigner = TumblingEventTimeWindows.of(millis(size), millis(offset))
    (window,) = assign_windows(assigner, None, timestamp)
    assert window.start <= timestamp < window.end
    assert window.end - window.start == size
    assert (window.start - offset) % size == 0
    assert window.start == window_start(timestamp, offset, size)
    assume(window.start > MIN_TIMESTAMP and window.end <= MAX_TIMESTAMP)
    # All of the window agrees, and nothing beside it does.
    assert assign_windows(assigner, None, window.start) == [window]
    assert assign_windows(assigner, None, window.max_timestamp()) == [window]
    assert assign_windows(assigner, None, window.end) == [TimeWindow(window.end, window.end + size)]
    assert assign_windows(assigner, None, window.start - 1) == [TimeWindow(window.start - size, window.start)]


@given(size=st.integers(1, 60), slide=st.integers(1, 80), offset=st.integers(-79, 79), timestamp=timestamps)
@example(size=10, slide=3, offset=0, timestamp=0)
def test_a_timestamp_is_in_every_sliding_window_around_it(size: int, slide: int, offset: int, timestamp: int) -> None:
    assume(abs(offset) < slide)
    windows = assign_windows(SlidingEventTimeWindows.of(millis(size), millis(slide), millis(offset)), None, timestamp)
    if size % slide == 0:
        assert len(windows) == size // slide
    else:
        assert len(windows) in (size // slide, size // slide + 1)
    # The model: of the starts nearby that are a multiple of the slide, those whose window holds the timestamp.
    nearby = range(timestamp - size - slide, timestamp + size + slide + 1)
    expected = {
        TimeWindow(start, start + size)
        for start in nearby
        if (start - offset) % slide == 0 and start <= timestamp < start + size
    }
    assert set(windows) == expected
    assert len(windows) == len(expected)


@given(step=st.integers(1, 20), steps=st.integers(1, 12), offset=st.integers(-239, 239), timestamp=timestamps)
@example(step=5, steps=3, offset=-2, timestamp=-3)
def test_cumulative_windows_end_after_each_step(step: int, steps: int, offset: int, timestamp: int) -> None:
    size = step * steps
    assume(abs(offset) < size)
    assigner = CumulativeEventTimeWindows.of(millis(size), millis(step), millis(offset))
    # The model: of all windows that begin nearby, those that hold the timestamp, the longest first.
    starts = [start for start in range(timestamp - size, timestamp + 1) if (start - offset) % size == 0]
    found = [TimeWindow(start, start + step * number) for start in starts for number in range(steps, 0, -1)]
    expected = [window for window in found if window.start <= timestamp < window.end]
    assert assign_windows(assigner, None, timestamp) == expected
    assert 1 <= len(expected) <= steps


@pytest.mark.parametrize(
    ("size", "step", "offset", "why"),
    [
        (10, 3, 0, "does not divide the largest size"),
        (0, 1, 0, "largest size of cumulative windows"),
        (10, 0, 0, "step of cumulative windows"),
        (10, 5, 10, "smaller than their largest size"),
        (200_000, 1, 0, "in too many cumulative windows"),
    ],
)
def test_sizes_of_cumulative_windows_that_are_refused(size: int, step: int, offset: int, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        CumulativeEventTimeWindows.of(millis(size), millis(step), millis(offset))


@given(count=st.integers(1, 20), slide=sizes, timestamp=timestamps)
def test_there_are_as_many_sliding_windows_as_slides_in_the_size(count: int, slide: int, timestamp: int) -> None:
    windows = assign_windows(SlidingEventTimeWindows.of(millis(count * slide), millis(slide)), None, timestamp)
    assert len(set(windows)) == count
    assert all(window.start <= timestamp < window.end for window in windows)


@given(size=st.integers(1, 60), slide=st.integers(1, 60), offset=st.integers(0, 59), clock=timestamps)
def test_the_clock_is_cut_as_event_time_is(size: int, slide: int, offset: int, clock: int) -> None:
    tumbling = (millis(size), millis(offset % size))
    assert assign_windows(TumblingProcessingTimeWindows.of(*tumbling), None, processing_time=clock) == assign_windows(
        TumblingEventTimeWindows.of(*tumbling), None, clock
    )
    sliding = (millis(size), millis(slide), millis(offset % slide))
    assert assign_windows(SlidingProcessingTimeWindows.of(*sliding), None, processing_time=clock) == assign_windows(
        SlidingEventTimeWindows.of(*sliding), None, clock
    )


@given(size=st.integers(1, 100), offset=st.integers(0, 99), clock=timestamps, points=st.lists(timestamps, min_size=1))
def test_a_natural_shift_is_fixed_at_the_first_element(size: int, offset: int, clock: int, points: list[int]) -> None:
    assigner = TumblingEventTimeWindows.of(millis(size), millis(offset % size), WindowStagger.NATURAL)
    shift = (offset + clock) % size
    for number, timestamp in enumerate(points):
        (window,) = assign_windows(assigner, None, timestamp, processing_time=min(clock + number * 7, MAX_TIMESTAMP))
        assert window == TimeWindow(window_start(timestamp, shift, size), window_start(timestamp, shift, size) + size)


@given(size=st.integers(1, 1000), clock=timestamps)
def test_a_shift_is_smaller_than_the_size(size: int, clock: int) -> None:
    assert WindowStagger.ALIGNED.offset(clock, size) == 0
    assert WindowStagger.NATURAL.offset(clock, size) == clock - window_start(clock, 0, size)
    assert 0 <= WindowStagger.RANDOM.offset(clock, size) < size


def test_a_random_shift_varies() -> None:
    # 100 draws of the same one of 5000 numbers do not happen.
    assert len({WindowStagger.RANDOM.offset(0, 5000) for _ in range(100)}) > 1


windows = st.builds(lambda start, length: TimeWindow(start, start + length), st.integers(-40, 40), st.integers(0, 8))


@given(a=windows, b=windows)
def test_windows_intersect_when_they_overlap_or_touch(a: TimeWindow, b: TimeWindow) -> None:
    meet = max(a.start, b.start) <= min(a.end, b.end)
    assert a.intersects(b) is meet
    assert b.intersects(a) is meet
    assert a.cover(b) == b.cover(a) == TimeWindow(min(a.start, b.start), max(a.end, b.end))


@given(st.lists(windows, max_size=10))
def test_merged_groups_are_the_connected_components(given_windows: list[TimeWindow]) -> None:
    groups: list[set[TimeWindow]] = []
    for window in given_windows:
        meeting = [group for group in groups if any(window.intersects(other) for other in group)]
        groups = [group for group in groups if group not in meeting] + [{window}.union(*meeting)]
    expected = {
        (TimeWindow(min(w.start for w in group), max(w.end for w in group)), frozenset(group))
        for group in groups
        if len(group) > 1
    }
    merges = merge_time_windows(given_windows)
    assert {(merge.result, frozenset(merge.sources)) for merge in merges} == expected
    assert len(merges) == len(expected)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_must_be_positive(size: int) -> None:
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        TumblingEventTimeWindows.of(millis(size))
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        SlidingEventTimeWindows.of(millis(size), millis(1))
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        SlidingProcessingTimeWindows.of(millis(5), millis(size))


@pytest.mark.parametrize("offset", [5, -5, 6, -11])
def test_an_offset_must_be_smaller_than_what_it_shifts(offset: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"an offset of {offset % 5} ms gives the windows you mean"):
        TumblingProcessingTimeWindows.of(millis(5), millis(offset))
    with pytest.raises(InvalidArgumentError, match=r"\|offset\| < slide"):
        SlidingEventTimeWindows.of(millis(20), millis(5), millis(offset))


def test_an_event_time_assigner_needs_a_timestamp() -> None:
    with pytest.raises(MissingTimestampError, match="given:    'element'"):
        assign_windows(TumblingEventTimeWindows.of(millis(5)), "element")
