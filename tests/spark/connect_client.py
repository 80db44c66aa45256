"""A program over Spark Connect; `test_connect.py` runs it against a server, since a process has one kind of session.

It prints what came out as JSON, in the last line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.spark.comparison import millis
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.errors import UserFunctionError
from windrow.functions import AggregateFunction
from windrow.sinks import CollectSink, FunctionSink, JsonFileSink
from windrow.sources import CollectionSource
from windrow.stream_sources import from_source
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.spark import PipelineProgress, SparkRunner


class Reading(NamedTuple):
    key: str
    at: int


class Count(NamedTuple):
    key: str
    readings: int


class Counting(AggregateFunction[Reading, Count, Count]):
    def create_accumulator(self) -> Count:
        return Count("", 0)

    def add(self, value: Reading, accumulator: Count) -> Count:
        return Count(value.key, accumulator.readings + 1)

    def get_result(self, accumulator: Count) -> Count:
        return accumulator


# One batch a line; windows of 10:
#   a1 a3 b5 a12 | b25 a27 | a2, late: dropped and counted
READINGS = [Reading(*reading) for reading in [("a", 1), ("a", 3), ("b", 5), ("a", 12), ("b", 25), ("a", 27), ("a", 2)]]


class Run:
    """The pipeline, with files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.noted = folder / "noted"
        self._counts = CollectSink[Count]()
        counted = (
            from_source(CollectionSource(READINGS, batch_size=4))
            .assign_timestamps_and_watermarks(
                WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.at
            )
            .key_by(lambda reading: reading.key)
            .window(TumblingEventTimeWindows.of(millis(10)))
            .aggregate(Counting())
        )
        self.pipeline = Pipeline(
            "connect",
            counted.sink_to(self._counts),
            counted.sink_to(JsonFileSink(self.files)),
            counted.sink_to(FunctionSink(self._note)),
        )

    def _note(self, batch: int, counts: Sequence[Count]) -> None:
        with self.noted.open("a") as lines:
            lines.writelines(f"{count.key} {count.readings}\n" for count in counts)

    def outcome(self, result: PipelineResult) -> dict[str, object]:
        """What came out, in an order of its own."""
        written = [line for file in self.files.glob("batch-*") for line in file.read_text().splitlines()]
        return {
            "counts": sorted(result.collected(self._counts)),
            "written": sorted(written),
            "noted": sorted(self.noted.read_text().splitlines()),
            "counters": result.counters,
        }


def expected(folder: Path) -> dict[str, object]:
    """What the interpreter gives."""
    run = Run(folder)
    return run.outcome(LocalRunner().run(run.pipeline))


def fail(batch: int, counts: Sequence[int]) -> None:
    raise OSError(f"disk full in batch {batch}")


def failure() -> dict[str, str]:
    """What becomes of a function of a sink that raises in a process of the server."""
    runner = SparkRunner()
    try:
        runner.run(Pipeline("failing", from_collection([1, 2]).sink_to(FunctionSink(fail))))
    except UserFunctionError as error:
        return {"message": error.message, "where": str(error.where), "cause": str(error.__cause__)}
    return {}


if __name__ == "__main__":
    runs = Run(Path(sys.argv[1]))
    reports: list[PipelineProgress] = []
    found = runs.outcome(SparkRunner(partitions=2, on_progress=reports.append).run(runs.pipeline))
    kind = type(SparkRunner().spark).__module__
    told = {
        "batches": [report.batch for report in reports],
        "read": sum(report.steps["connect.1.source"].records_in for report in reports),
        "late": sum(report.steps["connect.4.window"].late for report in reports),
        "open": reports[-1].steps["connect.4.window"].open_windows,
        "ended": reports[-1].ended,
    }
    print(json.dumps({"session": kind, "found": found, "told": told, "failure": failure()}))
