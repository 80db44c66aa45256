from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing.strategies import Arrival, disordered_streams

BOUND = timedelta(seconds=3)
STREAMS = disordered_streams(st.integers(0, 9), max_out_of_orderness=BOUND, max_gap=timedelta(seconds=2), start=1_000)


def late_elements(arrivals: Sequence[Arrival[int]], bound: timedelta) -> int:
    """How many elements a run drops that judges each by the ones before it."""
    source = CollectionSource([(each.value, each.timestamp) for each in arrivals], tuple[int, int], batch_size=1)
    windows = (
        from_source(source)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(bound), timestamp=lambda pair: pair[1]
        )
        .key_by(lambda pair: 0)
        .window(TumblingEventTimeWindows.of(timedelta(milliseconds=1)))
    )
    return LocalRunner().run(Pipeline("p", windows.count().sink_to(CollectSink[int]()))).counter("late_records_dropped")


@given(STREAMS)
@settings(max_examples=50)
def test_no_element_is_late_by_the_bound(arrivals: Sequence[Arrival[int]]) -> None:
    assert all(each.timestamp >= 1_000 for each in arrivals)
    assert late_elements(arrivals, BOUND) == 0


def lag(arrivals: Sequence[Arrival[int]]) -> timedelta:
    """How far an element comes behind one before it, at most."""
    highest = accumulate((each.timestamp for each in arrivals), max)
    behind = (most - each.timestamp for most, each in zip(highest, arrivals, strict=True))
    return timedelta(milliseconds=max(behind, default=0))


def test_a_shorter_bound_loses_elements() -> None:
    second = timedelta(seconds=1)
    # To find it by the runs themselves takes some thousand of them.
    worst = find(STREAMS, lambda arrivals: lag(arrivals) > second)
    assert len(worst) == 2
    assert late_elements(worst, second) > 0
    assert worst[0].timestamp - worst[1].timestamp > 1_000


def test_streams_shrink_to_few_elements_in_order() -> None:
    assert list(find(STREAMS, lambda arrivals: len(arrivals) >= 2)) == [Arrival(0, 1_000), Arrival(0, 1_000)]


def test_sizes_are_kept() -> None:
    assert len(find(disordered_streams(st.none(), max_out_of_orderness=BOUND, min_size=3, max_size=3), bool)) == 3


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"max_out_of_orderness": timedelta(seconds=-1)}, "max_out_of_orderness must not be negative"),
        ({"max_out_of_orderness": BOUND, "max_gap": timedelta(seconds=-1)}, "max_gap must not be negative"),
        ({"max_out_of_orderness": BOUND, "min_size": 3, "max_size": 2}, "the sizes of a stream are a range"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings_: dict[str, timedelta], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        disordered_streams(st.none(), **settings_)  # type: ignore[arg-type]  # the values are of several types
