"""The climate of each sensor, hour by hour: several declared aggregates at once.

python examples/climate.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner


@dataclass(frozen=True)
class Reading:
    sensor: str
    minute: int
    celsius: float | None
    """None where the sensor could not measure."""


@dataclass(frozen=True)
class Climate:
    sensor: str | None
    low: float | None
    mean: float | None
    high: float | None
    measured: int
    coldest_minute: int | None


READINGS = [
    Reading("cellar", 5, 8.0),
    Reading("attic", 10, 21.5),
    Reading("cellar", 20, 7.5),
    Reading("cellar", 35, None),
    Reading("attic", 50, 24.5),
    Reading("cellar", 55, 8.5),
    Reading("attic", 70, None),
]


def build(readings: Iterable[Reading]) -> DataStream[Climate]:
    return (
        from_collection(readings)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.minute * 60_000
        )
        .key_by(lambda r: r.sensor)
        .window(TumblingEventTimeWindows.of(timedelta(hours=1)))
        .aggregate(
            # By position: the type checker compares each result with the field that it fills.
            agg.into(
                Climate,
                agg.first(lambda r: r.sensor),
                agg.min(lambda r: r.celsius),
                agg.mean(lambda r: r.celsius),
                agg.max(lambda r: r.celsius),
                agg.count(lambda r: r.celsius),
                agg.min_by(lambda r: r.celsius, lambda r: r.minute),
            )
        )
    )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    climates = CollectSink[Climate]("climates")
    for climate in LocalRunner().run(Pipeline("climate", build(READINGS).sink_to(climates))).collected(climates):
        print(climate)


if __name__ == "__main__":
    main(sys.argv[1:])
