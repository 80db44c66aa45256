"""A job with a test suite: views of pages in five minutes, each counted once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from windrow import DataStream, OutputTag, WatermarkStrategy
from windrow import aggregates as agg
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.windows import TumblingEventTimeWindows


class View(NamedTuple):
    id: str
    page: str
    at: int  # milliseconds since 1970


class Views(NamedTuple):
    page: str
    start: int
    views: int


BOUND = timedelta(seconds=30)
SEEN = ValueStateDescriptor("seen", bool, ttl=StateTtlConfig(timedelta(hours=1)))
late = OutputTag("late", View)


class Deduplicate(KeyedProcessFunction[str, View, View]):
    """Passes the first view of each id on."""

    def process_element(
        self, value: View, context: KeyedProcessContext[str]
    ) -> Iterable[View]:
        seen = context.get_state(SEEN)
        if not seen.value():
            seen.update(True)
            yield value


def views_per_page(views: DataStream[View]) -> DataStream[Views]:
    """Count the views of each page in windows of five minutes."""
    return (
        views.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(BOUND),
            timestamp=lambda view: view.at,
        )
        .key_by(lambda view: view.id)
        .process(Deduplicate(), name="deduplicate")
        .key_by(lambda view: view.page)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=5)))
        .side_output_late_data(late)
        .aggregate(agg.into(Views, agg.key(), agg.window_start(), agg.count()))
    )
