from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from pageviews import BOUND, View, Views, late, views_per_page
from windrow import from_collection, from_source
from windrow.sources import CollectionSource
from windrow_runtime.pictures import timeline
from windrow_runtime.pytest_plugin import (
    AssertSameOnSpark,
    MakeHarness,
    TimelineSnapshot,
)
from windrow_runtime.testing import PushSource
from windrow_runtime.testing.strategies import Arrival, disordered_streams

SECOND = 1_000
WINDOW = 300 * SECOND
PUSHED = PushSource(View)


def test_a_view_that_is_sent_twice_counts_once(stream_harness: MakeHarness) -> None:
    harness = stream_harness(views_per_page(from_source(PUSHED)), PUSHED)
    harness.process_element(View("1", "home", 0))
    harness.process_element(View("1", "home", 0))
    harness.process_element(View("2", "home", 9 * SECOND))
    harness.process_watermark(WINDOW)
    assert harness.take_values() == [Views("home", 0, 2)]


def test_a_view_after_its_window_goes_to_the_side_output(
    stream_harness: MakeHarness,
) -> None:
    harness = stream_harness(views_per_page(from_source(PUSHED)), PUSHED)
    harness.process_watermark(WINDOW)
    harness.process_element(View("1", "home", 0))
    assert [each.value for each in harness.take_side_output(late)] == [
        View("1", "home", 0)
    ]


@settings(deadline=None)  # the first example imports the interpreter
@given(
    disordered_streams(
        st.sampled_from(["home", "cart"]), max_out_of_orderness=BOUND
    )
)
def test_no_view_within_the_bound_is_lost(arrivals: Sequence[Arrival[str]]) -> None:
    views = [
        View(str(number), arrival.value, arrival.timestamp)
        for number, arrival in enumerate(arrivals)
    ]
    # One view a batch, so that the watermark moves between any two.
    source = CollectionSource(views, View, batch_size=1)
    counts = views_per_page(from_source(source)).collect()
    expected = Counter((view.page, view.at // WINDOW * WINDOW) for view in views)
    assert {(each.page, each.start): each.views for each in counts} == expected


def test_the_time_line(
    stream_harness: MakeHarness, timeline_snapshot: TimelineSnapshot
) -> None:
    stream = views_per_page(from_source(PUSHED))
    harness = stream_harness(stream, PUSHED, record=True)
    for number, minute in enumerate([1, 3, 7, 4]):
        harness.process_element(View(str(number), "home", minute * 60 * SECOND))
    harness.process_watermark(2 * WINDOW)
    timeline_snapshot(timeline(harness.recording, title="Views"))


def test_spark_gives_what_the_interpreter_gives(
    assert_same_on_spark: AssertSameOnSpark,
) -> None:
    views = [View(str(n % 40), "home", n * 7 * SECOND) for n in range(100)]
    assert_same_on_spark(views_per_page(from_collection(views)))
