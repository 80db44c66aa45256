"""Clicks of a user within ten minutes of each other are one session."""

from datetime import timedelta
from typing import NamedTuple

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import EventTimeSessionWindows


class Click(NamedTuple):
    user: str
    minute: int
    page: str

    def __str__(self) -> str:
        return self.page


class Session(NamedTuple):
    user: str
    start: int
    end: int
    clicks: int

    def __str__(self) -> str:
        return f"{self.clicks} clicks"


# One element a batch: the watermark moves between any two.
source = CollectionSource(
    [
        Click("ann", 1, "home"),
        Click("bob", 2, "home"),
        Click("ann", 7, "shoes"),
        Click("ann", 12, "cart"),
        Click("bob", 30, "help"),
        Click("ann", 40, "home"),
    ],
    batch_size=1,
)

sessions = (
    from_source(source)
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(),
        timestamp=lambda click: click.minute * 60_000,
    )
    .key_by(lambda click: click.user)
    .window(EventTimeSessionWindows.with_gap(timedelta(minutes=10)))
    .aggregate(
        agg.into(
            Session, agg.key(), agg.window_start(), agg.window_end(), agg.count()
        )
    )
)

results = CollectSink[Session]()
pipeline = Pipeline("sessions", sessions.sink_to(results))
