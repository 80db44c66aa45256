"""The records and functions of the windrow contenders: what a user writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.windows import TimeWindow

__all__ = ["Count", "Mean", "Reading", "WindowCount", "WindowMean", "WithCount", "WithMean"]


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


class Mean(AggregateFunction[Reading, tuple[float, int], float]):
    """The average temperature."""

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
