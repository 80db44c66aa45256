"""The interpreter on one core: elements a second, and whether that holds as the input grows."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.errors import WrongResultError
from benchmarks.readings import Count, Mean, Reading, WindowCount, WindowMean, WithCount, WithMean
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.sinks import FunctionSink
from windrow.sources import CollectionSource
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

__all__ = ["InterpreterFigure", "sessions", "tumbling"]

R = TypeVar("R")

BATCH = 10_000
PREFIX = "sensor-"
WINDOW_MS = 5_000
GAP_MS = 2_000
# Sensors speak in turns, five seconds each, so that every session ends: some 25 elements make one.
TURN_MS = 5_000
SPEAKERS = 200
SESSION_KEYS = 1_000
SEED = 7
RELATIVE_TOLERANCE = 1e-9
# Wider than any time in the input, so that sensor and time fit into one integer.
_TIMES = 1 << 40

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InterpreterFigure:
    """The speed for one size of input.

    Attributes:
        elements: How many.
        fast: Whether steps could run in a faster form; otherwise the general operator ran them.
        seconds: The time of the fastest run.
        cpu_seconds: The processor time of that run. Less than ``seconds`` means that something else took the core.
        results: How many windows fired.
    """

    elements: int
    fast: bool
    seconds: float
    cpu_seconds: float
    results: int

    @property
    def elements_per_second(self) -> float:
        """Elements by time."""
        return self.elements / self.seconds


@dataclass(frozen=True, slots=True)
class _Input:
    """The input as columns."""

    sensors: Numbers
    at: Numbers
    celsius: npt.NDArray[np.float64]

    def readings(self) -> list[Reading]:
        """The input as records."""
        names = [f"{PREFIX}{number:06d}" for number in range(int(self.sensors.max()) + 1)]
        columns = zip(self.sensors.tolist(), self.at.tolist(), self.celsius.tolist(), strict=True)
        return [Reading(names[sensor], time, celsius) for sensor, time, celsius in columns]


def tumbling(elements: int, rounds: int, *, keys: int, fast: bool) -> InterpreterFigure:
    """Windows of 5 s with an ``AggregateFunction``; 10,000 elements a second from ``keys`` sensors."""
    random = np.random.default_rng(SEED)
    # Ten elements a millisecond, up to half a second out of order.
    at = np.arange(elements) // 10 + random.integers(0, 500, elements)
    data = _Input(random.integers(0, keys, elements), at, random.normal(20, 5, elements).round(2))

    def build(stream: DataStream[Reading], sink: FunctionSink[WindowMean]) -> Pipeline:
        windows = stream.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
        return Pipeline("tumbling", windows.aggregate(Mean(), WithMean()).sink_to(sink))

    return _measure(data, build, _check_means, rounds, fast=fast)


def sessions(elements: int, rounds: int, *, fast: bool) -> InterpreterFigure:
    """Sessions with a gap of 2 s and an ``AggregateFunction``: 1,000 sensors, some 25 elements a session."""
    random = np.random.default_rng(SEED)
    at = np.arange(elements) + random.integers(0, 500, elements)
    turns = np.arange(elements) // TURN_MS
    sensors = (random.integers(0, SPEAKERS, elements) + SPEAKERS * turns) % SESSION_KEYS
    data = _Input(sensors, at, random.normal(20, 5, elements).round(2))

    def build(stream: DataStream[Reading], sink: FunctionSink[WindowCount]) -> Pipeline:
        windows = stream.key_by(lambda r: r.sensor).window(EventTimeSessionWindows.with_gap(timedelta(seconds=2)))
        return Pipeline("sessions", windows.aggregate(Count(), WithCount()).sink_to(sink))

    return _measure(data, build, _check_sessions, rounds, fast=fast)


def _measure(
    data: _Input,
    build: Callable[[DataStream[Reading], FunctionSink[R]], Pipeline],
    check: Callable[[list[R], _Input], None],
    rounds: int,
    *,
    fast: bool,
) -> InterpreterFigure:
    source = CollectionSource(data.readings(), Reading, batch_size=BATCH)
    stream = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda r: r.at
    )
    results: list[R] = []
    count = 0

    def keep(_: int, values: Sequence[R]) -> None:
        results.extend(values)

    def only_count(_: int, values: Sequence[R]) -> None:
        nonlocal count
        count += len(values)

    # Warms up, and gives the results that are checked. Kept results would make the collector slower, so the runs
    # that are timed keep none.
    LocalRunner(fast=fast).run(build(stream, FunctionSink(keep)))
    check(results, data)
    fired = len(results)
    results.clear()
    pipeline = build(stream, FunctionSink(only_count))
    best: tuple[float, float] | None = None
    gc.collect()
    # The collector would walk all elements of the input again and again; a source that streams has no such list.
    gc.freeze()
    try:
        for _ in range(rounds):
            count = 0
            cpu, clock = time.process_time(), time.perf_counter()
            LocalRunner(fast=fast).run(pipeline)
            seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
            if count != fired:
                raise WrongResultError(f"{count:,} windows fired, {fired:,} in the run before")
            if best is None or seconds < best[0]:
                best = seconds, cpu_seconds
    finally:
        gc.unfreeze()
    assert best is not None
    return InterpreterFigure(len(data.at), fast, best[0], best[1], fired)


def _number(sensor: str) -> int:
    return int(sensor.removeprefix(PREFIX))


def _check_means(results: list[WindowMean], data: _Input) -> None:
    windows = data.sensors * _TIMES + data.at - data.at % WINDOW_MS + WINDOW_MS
    right, position, counts = np.unique(windows, return_inverse=True, return_counts=True)
    means = np.bincount(position, weights=data.celsius) / counts
    got = np.array([_number(r.sensor) * _TIMES + r.window_end for r in results], dtype=np.int64)
    order = np.argsort(got)
    if not np.array_equal(got[order], right):
        raise WrongResultError(f"{len(got):,} windows fired, {len(right):,} are right, or they are others")
    got_means = np.array([r.mean for r in results])[order]
    if not np.allclose(got_means, means, rtol=RELATIVE_TOLERANCE, atol=0):
        raise WrongResultError("averages differ from the right ones")


def _check_sessions(results: list[WindowCount], data: _Input) -> None:
    order = np.lexsort((data.at, data.sensors))
    sensors, at = data.sensors[order], data.at[order]
    begins = np.ones(len(at), dtype=np.bool_)
    # An element exactly one gap later touches the session, and joins it.
    begins[1:] = (sensors[1:] != sensors[:-1]) | (at[1:] - at[:-1] > GAP_MS)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(at)) - 1
    right = sorted(
        zip(
            sensors[first].tolist(),
            at[first].tolist(),
            (at[last] + GAP_MS).tolist(),
            (last - first + 1).tolist(),
            strict=True,
        )
    )
    got = sorted((_number(r.sensor), r.start, r.end, r.readings) for r in results)
    if got != right:
        raise WrongResultError(f"{len(got):,} sessions fired, {len(right):,} are right, or their bounds differ")
