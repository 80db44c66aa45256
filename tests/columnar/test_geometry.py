"""Slices and their windows, against windows that are made one by one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows.spec import FARTHEST
from windrow_spark.columnar.windows.cumulative_slices import CumulativeSlices
from windrow_spark.columnar.windows.geometry import Slices

DAY = 24 * 3_600_000
SECOND = 1_000


@st.composite
def shapes(draw: st.DrawFn) -> Slices:
    size = draw(st.integers(1, 40))
    slide = draw(st.integers(1, size))
    offset = draw(st.integers(1 - slide, slide - 1))
    lateness = draw(st.sampled_from([0, 1, 7, 50, MAX_TIMESTAMP]))
    return Slices(size, slide, offset, lateness)


stamps = st.lists(st.integers(-60, 60), min_size=1, max_size=20)
watermarks = st.integers(-120, 120) | st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP - 1, MAX_TIMESTAMP])


def windows_of(slices: Slices, stamp: int) -> list[int]:
    """The starts of the windows that hold a timestamp, the later ones first."""
    return [start for start in range(stamp, stamp - slices.size, -1) if (start - slices.offset) % slices.slide == 0]


@examples(100)
@given(shapes(), stamps)
def test_all_elements_of_a_slice_are_in_the_same_windows(slices: Slices, moments: list[int]) -> None:
    found = slices.slices_of(np.array(moments))
    assert slices.slices_at(slices.numbers_of(found)).tolist() == found.tolist()
    for stamp, slice_start in zip(moments, found.tolist(), strict=True):
        assert slice_start <= stamp
        assert windows_of(slices, slice_start) == windows_of(slices, stamp)
        # None is cut where no window begins or ends.
        assert (slice_start - slices.offset) % slices.slide in {0, slices.size % slices.slide}
    windows = list(map(windows_of, [slices] * len(found), found.tolist()))
    assert slices.first_windows(found).tolist() == [starts[-1] for starts in windows]
    assert slices.last_windows(found).tolist() == [starts[0] for starts in windows]


def next_time(slices: Slices, slice_start: int, watermark: int) -> int:
    last = [start + slices.size - 1 for start in windows_of(slices, slice_start)]
    moments = last if slices.lateness == MAX_TIMESTAMP else [*last, *(end + slices.lateness for end in last)]
    return min((moment for moment in moments if moment > watermark), default=MAX_TIMESTAMP)


@examples(100)
@given(shapes(), stamps, watermarks, watermarks)
@example(Slices(10, 3, -2, 0), [0], MIN_TIMESTAMP, MAX_TIMESTAMP)
def test_windows_that_end_between_two_watermarks(slices: Slices, moments: list[int], after: int, until: int) -> None:
    found = np.unique(slices.slices_of(np.array(moments)))
    pairs = [
        (place, start)
        for place, slice_start in enumerate(found.tolist())
        for start in windows_of(slices, slice_start)
        if after < start + slices.size - 1 <= until
    ]
    places, starts = slices.windows(found, after, until)
    assert list(zip(places.tolist(), starts.tolist(), strict=True)) == pairs
    ending = slices.ending(found, after, until)
    wanted = sorted({start for _, start in pairs})
    assert [start for some in ending for start in some.tolist()] == wanted
    begins, ends = slices.held_by(found, np.array(wanted, np.int64))
    held = [(place, start) for start, low, high in zip(wanted, begins, ends, strict=True) for place in range(low, high)]
    assert sorted(held) == sorted(pairs)
    # Windows that end may lie between the slices.
    assert slices.any_ends(int(found[0]), int(found[-1]), after, until) >= bool(wanted)
    assert slices.any_ends(int(found[0]), int(found[0]), after, until) == any(not place for place, _ in pairs)
    times = [next_time(slices, slice_start, after) for slice_start in found.tolist()]
    assert slices.next_times(found, after).tolist() == times


def test_the_window_of_all_time_ends_with_it() -> None:
    slices = Slices(0, 1, 0, 0)
    found = slices.slices_of(np.array([-5, 7]))
    assert found.tolist() == [0, 0]
    one = found[:1]
    assert [some.tolist() for some in slices.ending(one, 3, MAX_TIMESTAMP)] == [[0]]
    assert not list(slices.ending(one, 3, MAX_TIMESTAMP - 1))
    assert not list(slices.ending(one, MAX_TIMESTAMP, MAX_TIMESTAMP))
    assert [places.tolist() for places in slices.held_by(one, one)] == [[0], [1]]
    assert slices.next_times(one, 3).tolist() == [MAX_TIMESTAMP]
    assert slices.any_ends(0, 0, 3, MAX_TIMESTAMP)
    assert not slices.any_ends(0, 0, 3, MAX_TIMESTAMP - 1)
    assert not slices.expired(one, MAX_TIMESTAMP).any()


def test_the_farthest_timestamps_stay_in_64_bits() -> None:
    for size, slide in [(FARTHEST, FARTHEST), (FARTHEST, FARTHEST // 3), (7, 2)]:
        slices = Slices(size, slide, slide - 1, 0)
        moments = np.array([-FARTHEST, 0, FARTHEST])
        found = slices.slices_of(moments)
        assert (found <= moments).all()
        first, last = slices.first_windows(found), slices.last_windows(found)
        assert (first <= last).all()
        assert (first > found - size).all()
        assert slices.next_times(found, MIN_TIMESTAMP).tolist() == (first + (size - 1)).tolist()
        assert (slices.next_times(found, MAX_TIMESTAMP) == MAX_TIMESTAMP).all()
        starts = np.concatenate(list(slices.ending(found, MIN_TIMESTAMP, MAX_TIMESTAMP)))
        assert starts[0] == first[0]
        assert starts[-1] == last[-1]
        assert not list(slices.ending(found, MIN_TIMESTAMP, MIN_TIMESTAMP + 1))


def peak_of(work: Iterator[object]) -> int:
    tracemalloc.start()
    for _ in work:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_a_day_of_windows_that_slide_by_ten_seconds_is_not_laid_out() -> None:
    slices = Slices(DAY, 10 * SECOND, 0, 0)
    found = np.arange(0, DAY, 10 * SECOND)
    assert len(found) == slices.windows_each == 8_640

    def work() -> Iterator[object]:
        yield slices.next_times(found, DAY // 2)
        yield slices.windows(found, DAY, DAY + 10 * SECOND)
        for starts in slices.ending(found, MIN_TIMESTAMP, MAX_TIMESTAMP):
            yield slices.held_by(found, starts)

    # Each slice and window by itself would take 600 MB and more.
    assert peak_of(work()) < 4 << 20


def test_a_slide_that_hardly_divides_the_size_cuts_each_window_into_two() -> None:
    slices = Slices(60 * SECOND, 7_001, 0, 0)
    assert len(np.unique(slices.slices_of(np.arange(60 * SECOND)))) == 17
    assert slices.windows_each == 9


@examples(100)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 60), stamps, watermarks, watermarks)
def test_cumulative_windows_are_made_of_steps(
    step: int, steps: int, offset: int, moments: list[int], after: int, until: int
) -> None:
    length = step * steps
    slices = CumulativeSlices(step, step, offset % length, 0, length=length)
    found = np.unique(slices.slices_of(np.array(moments)))
    pairs = [
        (place, slice_start - (slice_start - slices.offset) % length, end)
        for place, slice_start in enumerate(found.tolist())
        for end in range(slice_start - (slice_start - slices.offset) % length + length, slice_start, -step)
        if after < end - 1 <= until
    ]
    places, windows = slices.windows(found, after, until)
    bounds = slices.starts(windows).tolist(), slices.ends(windows).tolist()
    assert list(zip(places.tolist(), *bounds, strict=True)) == pairs
    ending = [window for some in slices.ending(found, after, until) for window in some.tolist()]
    assert slices.ends(np.array(ending, np.int64)).tolist() == sorted({end for _, _, end in pairs})
    begins, ends = slices.held_by(found, np.array(ending, np.int64))
    assert sum((ends - begins).tolist()) == len(pairs)
    assert slices.any_ends(int(found[0]), int(found[-1]), after, until) >= bool(pairs)
