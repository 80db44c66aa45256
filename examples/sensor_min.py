"""The coldest reading of each sensor in every five seconds.

python examples/sensor_min.py            # on an embedded Spark
python examples/sensor_min.py --local    # in process, without Spark and without Java
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult

READINGS = Path(__file__).parent / "data" / "readings"
OUTPUT = Path("demo-output")


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: datetime
    celsius: float


@dataclass(frozen=True)
class Coldest:
    sensor: str
    window_start: datetime
    reading: Reading


def colder(a: Reading, b: Reading) -> Reading:
    return b if b.celsius < a.celsius else a


class WithWindowStart(ProcessWindowFunction[Reading, Coldest, str, TimeWindow]):
    """Adds the sensor and the start of the window to the one reading that ``colder`` left."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[Coldest]:
        start = datetime.fromtimestamp(context.window.start / 1000, UTC)
        return [Coldest(key, start, elements[0])]


@dataclass(frozen=True)
class SensorPipeline:
    """The pipeline, with the sinks to ask for its results."""

    pipeline: Pipeline
    coldest: CollectSink[Reading]
    with_start: CollectSink[Coldest]
    late: CollectSink[Reading]


def build(readings: Path, output: Path) -> SensorPipeline:
    late = OutputTag("late", Reading)
    windows = (
        from_source(JsonFileSource(readings, Reading, files_per_batch=1))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=3)), timestamp=lambda reading: reading.at
        )
        .key_by(lambda reading: reading.sensor)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
    )
    coldest = windows.side_output_late_data(late).reduce(colder, name="coldest")
    with_start = windows.reduce(colder, WithWindowStart(), name="coldest with start")
    late_readings = coldest.get_side_output(late)
    sinks = CollectSink[Reading]("coldest"), CollectSink[Coldest]("with start"), CollectSink[Reading]("late")
    pipeline = Pipeline(
        "sensors",
        coldest.sink_to(sinks[0]),
        with_start.sink_to(sinks[1]),
        with_start.sink_to(JsonFileSink(output / "coldest", overwrite=True)),
        late_readings.sink_to(sinks[2]),
        late_readings.sink_to(JsonFileSink(output / "late", overwrite=True)),
    )
    return SensorPipeline(pipeline, *sinks)


def arrive_by_name(folder: Path) -> None:
    """Date the files by their names: a source takes the oldest file first, and a clone forgets their age."""
    for second, file in enumerate(sorted(folder.glob("*.json")), start=1_767_600_000):
        os.utime(file, (second, second))


def run(pipeline: Pipeline, *, local: bool) -> PipelineResult:
    if local:
        return LocalRunner().run(pipeline)
    from windrow_runtime.spark import SparkRunner  # only here: --local needs no Spark

    return SparkRunner().run(pipeline)


def show(title: str, rows: Sequence[str]) -> None:
    print(f"{title}: {len(rows):,} rows, beginning with", *rows[:10], sep="\n  ", end="\n\n")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", action="store_true", help="run in process, without Spark and without Java")
    local = parser.parse_args(arguments).local
    arrive_by_name(READINGS)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    sensors = build(READINGS, OUTPUT)
    result = run(sensors.pipeline, local=local)

    rows = sorted(result.collected(sensors.coldest), key=lambda row: (row.at, row.sensor))
    show("The coldest, by reduce", [f"{row.sensor}  {row.at:%H:%M:%S}  {row.celsius:.2f} °C" for row in rows])
    starts = sorted(result.collected(sensors.with_start), key=lambda row: (row.window_start, row.sensor))
    show(
        "The coldest with the start of their window, by reduce and a window function",
        [f"{row.sensor}  {row.window_start:%H:%M:%S}  {row.reading.celsius:.2f} °C" for row in starts],
    )
    print(f"Late readings: {len(result.collected(sensors.late))} went to the side output.")
    print(f"Dropped by the windows without a side output: {result.counter('late_records_dropped')}.\n")
    print(f"Output files: {OUTPUT.resolve()}/coldest and {OUTPUT.resolve()}/late\n")
    print(sensors.pipeline.explain())


if __name__ == "__main__":
    main(sys.argv[1:])
