"""Kafka Streams' ``DailyTimeWindows`` (CustomWindowTest): sales of days that begin at 18:00 in a time zone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tests.ports.answer import Answer
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.windows import CalendarWindows

ZONE = "Europe/Berlin"


class Sale(NamedTuple):
    shop: str
    at: datetime


class Day(NamedTuple):
    shop: str
    start: datetime
    end: datetime
    sales: int


# Clocks change on 29 March and on 25 October 2026.
SALES = [
    *(Sale("north", datetime(2026, 3, 27, 12, tzinfo=UTC) + timedelta(hours=3 * n)) for n in range(32)),
    *(Sale("north", datetime(2026, 10, 24, 12, tzinfo=UTC) + timedelta(hours=n)) for n in range(40)),
]
RESULTS = CollectSink[Day]()
PIPELINE = Pipeline(
    "days",
    from_collection(SALES)
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=5)), timestamp=lambda sale: sale.at
    )
    .key_by(lambda sale: sale.shop)
    .window(CalendarWindows.days(ZONE, start_time=time(18)))
    .aggregate(agg.into(Day, agg.key(), agg.window_start(datetime), agg.window_end(datetime), agg.count()))
    .sink_to(RESULTS),
)


def answers() -> list[Answer]:
    """Walks over the days of the calendar."""
    evening = datetime(2026, 3, 25, 18, tzinfo=ZoneInfo(ZONE))
    evenings = [evening + timedelta(days=number) for number in range(220)]
    days: Counter[tuple[datetime, datetime]] = Counter()
    for start, end in pairwise(evenings):
        days[start, end] = sum(start.astimezone(UTC) <= sale.at < end.astimezone(UTC) for sale in SALES)
    rows = [Day("north", start, end, sales) for (start, end), sales in days.items() if sales]
    assert {(row.end.astimezone(UTC) - row.start.astimezone(UTC)) // timedelta(hours=1) for row in rows} == {23, 24, 25}
    return [Answer(RESULTS, rows)]
