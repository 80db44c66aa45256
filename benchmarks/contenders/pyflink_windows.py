"""PyFlink in thread mode, as a program of its own: it runs in a Python that has apache-flink and needs nothing else.

    python benchmarks/contenders/pyflink_windows.py PROBLEM INPUT.csv WARM_UP.csv ONE.csv RESULTS LATE

It runs the job over the small input first, so that the JVM and its threads are warm, then over one reading, which takes
as long as a job takes to start and to end, then over the input. It prints a line of JSON with the seconds of the last
two and the versions. Results are lines of text in the folders ``RESULTS`` and
``LATE``.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from pyflink.common import Configuration, Time, Types
from pyflink.common.serialization import Encoder
from pyflink.datastream import DataStream, KeyedStream, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment

# The numbers of benchmarks.problems, which this Python need not find.
WINDOW_MS, LONG_WINDOW_MS, SLIDE_MS, GAP_MS, LATENESS_MS = 5_000, 60_000, 5_000, 30_000, 30_000
COUNT, TOP = 100, 3

READINGS = """
CREATE TABLE readings (
    sensor STRING, at_ms BIGINT, celsius DOUBLE,
    at_time AS TO_TIMESTAMP_LTZ(at_ms, 3),
    WATERMARK FOR at_time AS at_time - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
Reading = tuple[str, int, float]
Stats = tuple[int, int, float]
# Any in this module: PyFlink ships no types that a checker without it could see.


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Reading, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]


class StatsOfReadings(AggregateFunction):
    def create_accumulator(self) -> Stats:
        return 1 << 62, 0, 0.0

    def add(self, value: Reading, accumulator: Stats) -> Stats:
        first_at, n, total = accumulator
        return min(first_at, value[1]), n + 1, total + value[2]

    def get_result(self, accumulator: Stats) -> Stats:
        first_at, n, total = accumulator
        return first_at, n, total / n

    def merge(self, a: Stats, b: Stats) -> Stats:
        return min(a[0], b[0]), a[1] + b[1], a[2] + b[2]


class Peak(AggregateFunction):
    def create_accumulator(self) -> float:
        return float("-inf")

    def add(self, value: Reading, accumulator: float) -> float:
        return max(value[2], accumulator)

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, a: float, b: float) -> float:
        return max(a, b)


class WithWindow(ProcessWindowFunction):
    """Sensor, end of the window, value: as a line or, for a next step, as a tuple."""

    def __init__(self, *, line: bool = True) -> None:
        self._line = line

    def process(self, key: str, context: Any, elements: Iterable[float]) -> Iterator[object]:
        end = context.window().end
        for value in elements:
            yield f"{key},{end},{value!r}" if self._line else (key, end, value)


class WithSession(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Stats]) -> Iterator[str]:
        window = context.window()
        for _, n, mean in elements:
            yield f"{key},{window.start},{window.end},{n},{mean!r}"


class WithStats(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Stats]) -> Iterator[str]:
        for _, n, mean in elements:
            yield f"{key},{context.window().end},{n},{mean!r}"


class WithFirst(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Stats]) -> Iterator[str]:
        for first_at, n, mean in elements:
            yield f"{key},{first_at},{n},{mean!r}"


class TopValues(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Reading]) -> Iterator[str]:
        values = sorted([reading[2] for reading in elements], reverse=True)[:TOP]
        yield f"{key},{context.window().end},{' '.join(map(repr, values))}"


def build(problem: str, readings: DataStream) -> tuple[DataStream, DataStream | None]:
    """The lines of results, and those of readings that are too late where the problem asks for them."""
    # Types remember their Java twins and can then not be sent again, so each job has its own.
    late_type = Types.ROW_NAMED(
        ["sensor", "at_ms", "celsius", "at_time"], [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.INSTANT()]
    )
    window_mean_type = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
    keyed: KeyedStream = readings.key_by(lambda r: r[0], key_type=Types.STRING())
    window = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    mean_types = {"accumulator_type": Types.TUPLE([Types.DOUBLE(), Types.LONG()])}
    stats_types = {"accumulator_type": Types.TUPLE([Types.LONG(), Types.LONG(), Types.DOUBLE()])}
    if problem == "tumbling":
        return keyed.window(window).aggregate(Mean(), WithWindow(), **mean_types, output_type=Types.STRING()), None
    if problem == "sliding":
        window = SlidingEventTimeWindows.of(Time.milliseconds(LONG_WINDOW_MS), Time.milliseconds(SLIDE_MS))
        return keyed.window(window).aggregate(Mean(), WithWindow(), **mean_types, output_type=Types.STRING()), None
    if problem == "sessions":
        window = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))
        return keyed.window(window).aggregate(
            StatsOfReadings(), WithSession(), **stats_types, output_type=Types.STRING()
        ), None
    if problem == "lateness":
        late = OutputTag("late", late_type)
        stats = (
            keyed.window(window)
            .allowed_lateness(LATENESS_MS)
            .side_output_late_data(late)
            .aggregate(StatsOfReadings(), WithStats(), **stats_types, output_type=Types.STRING())
        )
        return stats, stats.get_side_output(late).map(lambda r: f"{r[0]},{r[1]}", output_type=Types.STRING())
    if problem == "count":
        return keyed.count_window(COUNT).aggregate(
            StatsOfReadings(), WithFirst(), **stats_types, output_type=Types.STRING()
        ), None
    if problem == "top":
        return keyed.window(window).process(TopValues(), output_type=Types.STRING()), None
    if problem == "chained":
        means = keyed.window(window).aggregate(
            Mean(), WithWindow(line=False), **mean_types, output_type=window_mean_type
        )
        peaks = (
            means.key_by(lambda m: m[0], key_type=Types.STRING())
            .window(TumblingEventTimeWindows.of(Time.milliseconds(LONG_WINDOW_MS)))
            .aggregate(Peak(), WithWindow(), accumulator_type=Types.DOUBLE(), output_type=Types.STRING())
        )
        return peaks, None
    raise SystemExit(f"unknown problem: {problem}")


def run(problem: str, source: str, results: str, late: str) -> float:
    """Run one job; gives the seconds that Flink says it took."""
    settings = Configuration()
    settings.set_string("python.execution-mode", "thread")
    settings.set_string("python.executable", sys.executable)
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(2)
    tables = StreamTableEnvironment.create(environment)
    tables.execute_sql(READINGS.format(path=source))
    # The JVM reads the rows and makes timestamps and watermarks; no Python function is called for these.
    readings = tables.to_data_stream(tables.from_path("readings"))
    lines, late_lines = build(problem, readings)
    lines.sink_to(FileSink.for_row_format(results, Encoder.simple_string_encoder()).build())
    if late_lines is not None:
        late_lines.sink_to(FileSink.for_row_format(late, Encoder.simple_string_encoder()).build())
    return float(environment.execute(problem).get_net_runtime()) / 1_000


def main(problem: str, source: str, warm_up: str, one: str, results: str, late: str) -> None:
    """Run the job three times and print the figures."""
    # The Python inside the JVM does not know that it should be that of a virtual environment.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    run(problem, warm_up, f"{results}-warm-up", f"{late}-warm-up")
    start = run(problem, one, f"{results}-one", f"{late}-one")
    seconds = run(problem, source, results, late)
    figures = {
        "start_seconds": start,
        "seconds": seconds,
        "flink": version("apache-flink"),
        "python": platform.python_version(),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
