"""Compares runs in which 1 of 1,000 elements raises in a step with ``on_error=tag`` with runs without errors.

python -m benchmarks.failing local|spark [--elements N] [--rounds N]

Each line has the median seconds of both, and their ratio. In the interpreter it is processor time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.failures import Failed
from windrow.functions import AggregateFunction, KeyedProcessContext, KeyedProcessFunction
from windrow.patterns import Pattern
from windrow.sinks import FunctionSink
from windrow.sources import ParquetFileSource
from windrow.state import ValueStateDescriptor
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

# Any: results of every type, which nobody reads.

ONE_IN: Final = 1000
WINDOW: Final = TumblingEventTimeWindows.of(timedelta(milliseconds=500))


@dataclass(frozen=True, slots=True)
class Line:
    key: str
    at: int
    bad: bool


def checked(line: Line) -> Line:
    if line.bad:
        raise ValueError(f"the line of {line.at}")
    return line


class Counted(KeyedProcessFunction[str, Line, int]):
    COUNT = ValueStateDescriptor("count", int)

    def process_element(self, value: Line, context: KeyedProcessContext[str]) -> Iterable[int]:
        count = context.get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        checked(value)
        return [count.value() or 0]


def length(key: str, window: TimeWindow, lines: Sequence[Line]) -> list[int]:
    # Each line that raises is the first of its window of five, so that one of 200 windows raises.
    checked(lines[0])
    return [len(lines)]


def mapped(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[Line]]("failed")
    made = lines.map(checked, on_error=tag)
    return made.key_by(lambda line: line.key).window(WINDOW).aggregate(agg.count()), made.get_side_output(tag)


def by_key(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[Line]]("failed")
    keyed = lines.key_by(lambda line: checked(line).key, on_error=tag)
    return keyed.window(WINDOW).aggregate(agg.count()), keyed.get_side_output(tag)


def processed(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[Line | None]]("failed")
    made = lines.key_by(lambda line: line.key).process(Counted(), on_error=tag)
    return made, made.get_side_output(tag)


def windowed(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[list[Line]]]("failed")
    made = lines.key_by(lambda line: line.key).window(WINDOW).apply(length, on_error=tag)
    return made, made.get_side_output(tag)


class Longest(AggregateFunction[Line, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Line, accumulator: int) -> int:
        return max(accumulator, checked(value).at)

    def get_result(self, accumulator: int) -> int:
        return accumulator


def folded(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[Line | None]]("failed")
    made = lines.key_by(lambda line: line.key).window(WINDOW).aggregate(Longest(), on_error=tag)
    return made, made.get_side_output(tag)


def later(before: Line, after: Line) -> int:
    return checked(before).at - after.at


def joined(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[tuple[Line, Line]]]("failed")
    keyed = lines.key_by(lambda line: line.key)
    made = keyed.interval_join(keyed).between(timedelta(0), timedelta(milliseconds=100)).apply(later, on_error=tag)
    return made, made.get_side_output(tag)


def matched(lines: DataStream[Line]) -> tuple[DataStream[Any], DataStream[Any]]:
    tag = OutputTag[Failed[list[Line]]]("failed")
    pattern = Pattern[Line].begin("first", lambda line: checked(line).at % 3 == 0).next("second")
    made = lines.key_by(lambda line: line.key).pattern(pattern).apply(len, on_error=tag)
    return made, made.get_side_output(tag)


STEPS: Final[dict[str, Callable[[DataStream[Line]], tuple[DataStream[Any], DataStream[Any]]]]] = {
    "map": mapped,
    "key_by": by_key,
    "process": processed,
    "windows": windowed,
    "aggregate": folded,
    "join": joined,
    "pattern": matched,
}


def write_lines(folder: Path, count: int, *, failing: bool) -> Path:
    """Two files of lines of 100 keys, a millisecond apart."""
    folder.mkdir()
    numbers = range(count)
    bad = [failing and number % ONE_IN == 7 for number in numbers]
    table = pa.table({"key": [f"k{number % 100}" for number in numbers], "at": [*numbers], "bad": bad})
    for part in range(2):
        pq.write_table(table.slice(part * count // 2, count // 2), folder / f"{part}.parquet")
    return folder


def ignore(batch: int, elements: object) -> None:
    """Takes the elements of a sink, and does nothing."""


def pipeline(folder: Path, step: str) -> Pipeline:
    in_order = WatermarkStrategy[Line].for_bounded_out_of_orderness(timedelta(seconds=1))
    lines = from_source(ParquetFileSource(folder, Line)).assign_timestamps_and_watermarks(in_order, lambda e: e.at)
    made, failed = STEPS[step](lines)
    return Pipeline("failing", made.sink_to(FunctionSink(ignore)), failed.sink_to(FunctionSink(ignore)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["local", "spark"])
    parser.add_argument("--elements", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", nargs="*", default=[*STEPS], choices=[*STEPS])
    options = parser.parse_args()
    runner: LocalRunner | SparkRunner = LocalRunner() if options.engine == "local" else SparkRunner()
    clock = time.process_time if options.engine == "local" else time.perf_counter
    with tempfile.TemporaryDirectory(prefix="windrow-failing-") as folder:
        folders = {
            failing: write_lines(Path(folder) / f"{failing}", options.elements, failing=failing)
            for failing in (False, True)
        }
        for step in options.steps:
            seconds: dict[bool, list[float]] = {False: [], True: []}
            runner.run(pipeline(folders[True], step))
            for _ in range(options.rounds):
                for failing, lines in folders.items():
                    begun = clock()
                    runner.run(pipeline(lines, step))
                    seconds[failing].append(clock() - begun)
            without, with_errors = median(seconds[False]), median(seconds[True])
            print(f"{step:9} {without:7.2f} s without, {with_errors:7.2f} s with errors: {without / with_errors:.2f}")


if __name__ == "__main__":
    main()
