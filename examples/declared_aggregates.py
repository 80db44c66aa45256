"""The trips from each bike station, every quarter of an hour: declared aggregates, on columns from file to result.

python examples/declared_aggregates.py            # on an embedded Spark
python examples/declared_aggregates.py --local    # in process, without Spark and without Java
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult

BEGIN = datetime(2026, 5, 1, 8, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Trip:
    station: str
    at: datetime
    bike: int
    kilometres: float | None
    """None where the bike lost its signal."""


@dataclass(frozen=True)
class Quarter:
    station: str
    start: int
    """In milliseconds, as windows count."""
    trips: int
    bikes: int
    mean: float | None
    longest: float | None


def trip(station: str, minute: int, bike: int, kilometres: float | None) -> Trip:
    return Trip(station, BEGIN + timedelta(minutes=minute), bike, kilometres)


TRIPS = [
    trip("harbour", 1, 7, 2.5),
    trip("market", 3, 4, 0.5),
    trip("harbour", 9, 5, 4.5),
    trip("harbour", 6, 7, 2.0),  # a little late
    trip("market", 20, 4, None),
    trip("harbour", 22, 9, 6.0),
    trip("market", 28, 4, 3.0),
]


def write_trips(folder: Path) -> None:
    """Write the trips as a Parquet file."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([asdict(trip) for trip in TRIPS]), folder / "trips.parquet")


def build(folder: Path) -> DataStream[Quarter]:
    return (
        from_source(ParquetFileSource(folder, Trip))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=5)), timestamp=lambda t: t.at
        )
        .key_by(lambda t: t.station)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=15)))
        .aggregate(
            # By position: the type checker compares each result with the field that it fills.
            agg.into(
                Quarter,
                agg.key(),
                agg.window_start(),
                agg.count(),
                agg.count_distinct(lambda t: t.bike),
                agg.mean(lambda t: t.kilometres),
                agg.max(lambda t: t.kilometres),
            ),
            name="quarters",
        )
    )


def run(pipeline: Pipeline, *, local: bool) -> PipelineResult:
    if local:
        return LocalRunner().run(pipeline)
    from windrow_runtime.spark import SparkRunner  # only here: --local needs no Spark

    runner = SparkRunner()
    # Below the window stands in which form Spark runs it: "columns", for no Python function sees a trip.
    print(pipeline.explain(runner))
    return runner.run(pipeline)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", action="store_true", help="run in process, without Spark and without Java")
    local = parser.parse_args(arguments).local
    with TemporaryDirectory() as folder:
        write_trips(Path(folder))
        quarters = CollectSink[Quarter]("quarters")
        pipeline = Pipeline("bikes", build(Path(folder)).sink_to(quarters))
        result = run(pipeline, local=local)
        for quarter in sorted(result.collected(quarters), key=lambda row: (row.start, row.station)):
            print(quarter)


if __name__ == "__main__":
    main(sys.argv[1:])
