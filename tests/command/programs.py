"""Files of users that tests run."""

from __future__ import annotations

from textwrap import dedent

COUNTS = dedent("""\
    from datetime import timedelta
    from typing import NamedTuple

    from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
    from windrow import aggregates as agg
    from windrow.sinks import CollectSink
    from windrow.sources import CollectionSource
    from windrow.windows import TumblingEventTimeWindows


    class Reading(NamedTuple):
        sensor: str
        at: int


    READINGS = [Reading("a", 1), Reading("b", 2500), Reading("a", 3), Reading("a", 2700)]


    def readings() -> DataStream[Reading]:
        source = CollectionSource(READINGS, Reading, batch_size=1)
        return from_source(source).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.at
        )


    def counts() -> Pipeline:
        seconds = TumblingEventTimeWindows.of(timedelta(seconds=1))
        windows = readings().key_by(lambda reading: reading.sensor).window(seconds)
        return Pipeline("counts", windows.aggregate(agg.count()).sink_to(CollectSink()))
""")
"""Counts in windows of a second, and loses the third of four readings as late."""

ONE = """\
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
one = Pipeline("one", from_collection([1]).sink_to(CollectSink()))
"""
"""The least pipeline."""
