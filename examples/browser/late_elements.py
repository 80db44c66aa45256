"""A late reading fires its window again."""

from datetime import timedelta
from typing import NamedTuple

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows


class Reading(NamedTuple):
    sensor: str
    second: int
    celsius: float

    def __str__(self) -> str:
        return f"{self.celsius}°"


# One reading a batch: the watermark moves between any two.
readings = CollectionSource(
    [
        Reading("roof", 1, 3.5),
        Reading("roof", 4, 3.1),
        Reading("roof", 7, 2.9),
        Reading("roof", 13, 4.0),
        Reading("roof", 3, 1.0),  # late: its window has fired, and is still there
        Reading("roof", 16, 4.5),
    ],
    batch_size=1,
)

coldest = (
    from_source(readings)
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=3)),
        timestamp=lambda reading: reading.second * 1000,
    )
    .key_by(lambda reading: reading.sensor)
    .window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
    .allowed_lateness(timedelta(seconds=10))
    .reduce(lambda a, b: a if a.celsius <= b.celsius else b)
)

results = CollectSink[Reading]()
pipeline = Pipeline("coldest", coldest.sink_to(results))
