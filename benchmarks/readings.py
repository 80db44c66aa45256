"""The records and functions of the windrow contenders: what a user writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.problems import TOP
from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.windows import GlobalWindow, TimeWindow

__all__ = [
    "Count",
    "CountedMean",
    "Mean",
    "Peak",
    "Reading",
    "SensorMean",
    "SessionMean",
    "Stats",
    "StatsWithSensor",
    "TopValues",
    "Warming",
    "WindowCount",
    "WindowMean",
    "WindowPeak",
    "WindowStats",
    "WindowTop",
    "WithCount",
    "WithMean",
    "WithPeak",
    "WithSession",
    "WithStats",
]


class Reading(NamedTuple):
    """A reading of a sensor, at a time in epoch milliseconds."""

    sensor: str
    at: int
    celsius: float


class WindowMean(NamedTuple):
    """The average of a sensor over a window, whose end is exclusive."""

    sensor: str
    window_end: int
    mean: float


class Warming(NamedTuple):
    """A cold reading of a sensor, and a warm one that follows."""

    sensor: str
    first_at: int
    last_at: int
    cold: float
    warm: float


class Mean(AggregateFunction[Reading, tuple[float, int], float]):
    """The average temperature."""

    commutative = True

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Reading, accumulator: tuple[float, int]) -> tuple[float, int]:
        total, count = accumulator
        return total + value.celsius, count + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        total, count = accumulator
        return total / count

    def merge(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]


class WithMean(ProcessWindowFunction[float, WindowMean, str, TimeWindow]):
    """Adds the sensor and the window to an average."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[float]
    ) -> Iterator[WindowMean]:
        yield WindowMean(key, context.window.end, elements[0])


class WindowCount(NamedTuple):
    """How many readings of a sensor a window holds."""

    sensor: str
    start: int
    end: int
    readings: int


class Count(AggregateFunction[Reading, int, int]):
    """How many."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Reading, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class WithCount(ProcessWindowFunction[int, WindowCount, str, TimeWindow]):
    """Adds the sensor and the window to a count."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[int]
    ) -> Iterator[WindowCount]:
        window = context.window
        yield WindowCount(key, window.start, window.end, elements[0])


class CountedMean(NamedTuple):
    """Count and average of some readings, and the time of the earliest."""

    first_at: int
    n: int
    mean: float


class Stats(AggregateFunction[Reading, tuple[int, int, float], CountedMean]):
    """Count and average, and the time of the earliest."""

    commutative = True

    def create_accumulator(self) -> tuple[int, int, float]:
        return 1 << 62, 0, 0.0

    def add(self, value: Reading, accumulator: tuple[int, int, float]) -> tuple[int, int, float]:
        first_at, count, total = accumulator
        at = value.at
        return min(first_at, at), count + 1, total + value.celsius

    def get_result(self, accumulator: tuple[int, int, float]) -> CountedMean:
        first_at, count, total = accumulator
        return CountedMean(first_at, count, total / count)

    def merge(self, a: tuple[int, int, float], b: tuple[int, int, float]) -> tuple[int, int, float]:
        return min(a[0], b[0]), a[1] + b[1], a[2] + b[2]


class SessionMean(NamedTuple):
    """Count and average of a session, with the time of its first reading and its end, which is exclusive."""

    sensor: str
    first_at: int
    window_end: int
    n: int
    mean: float


class WithSession(ProcessWindowFunction[CountedMean, SessionMean, str, TimeWindow]):
    """Adds the sensor and the session."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[CountedMean]
    ) -> Iterator[SessionMean]:
        window = context.window
        found = elements[0]
        yield SessionMean(key, window.start, window.end, found.n, found.mean)


class WindowStats(NamedTuple):
    """Count and average of a window."""

    sensor: str
    window_end: int
    n: int
    mean: float


class WithStats(ProcessWindowFunction[CountedMean, WindowStats, str, TimeWindow]):
    """Adds the sensor and the window."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[CountedMean]
    ) -> Iterator[WindowStats]:
        found = elements[0]
        yield WindowStats(key, context.window.end, found.n, found.mean)


class SensorMean(NamedTuple):
    """Count and average of some readings of a sensor, and the time of the earliest."""

    sensor: str
    first_at: int
    n: int
    mean: float


class StatsWithSensor(ProcessWindowFunction[CountedMean, SensorMean, str, GlobalWindow]):
    """Adds the sensor; a window of so many elements has nothing else."""

    def process(
        self, key: str, context: ProcessWindowContext[GlobalWindow], elements: Sequence[CountedMean]
    ) -> Iterator[SensorMean]:
        found = elements[0]
        yield SensorMean(key, found.first_at, found.n, found.mean)


class WindowTop(NamedTuple):
    """The highest values of a window, highest first."""

    sensor: str
    window_end: int
    top: list[float]


class TopValues(ProcessWindowFunction[Reading, WindowTop, str, TimeWindow]):
    """The three highest values of all elements."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterator[WindowTop]:
        values = sorted([reading.celsius for reading in elements], reverse=True)
        yield WindowTop(key, context.window.end, values[:TOP])


class WindowPeak(NamedTuple):
    """The highest average of a window."""

    sensor: str
    window_end: int
    peak: float


class Peak(AggregateFunction[WindowMean, float, float]):
    """The highest average."""

    def create_accumulator(self) -> float:
        return float("-inf")

    def add(self, value: WindowMean, accumulator: float) -> float:
        return max(value.mean, accumulator)

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, a: float, b: float) -> float:
        return max(a, b)


class WithPeak(ProcessWindowFunction[float, WindowPeak, str, TimeWindow]):
    """Adds the sensor and the window."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[float]
    ) -> Iterator[WindowPeak]:
        yield WindowPeak(key, context.window.end, elements[0])
