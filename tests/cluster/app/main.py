"""The main program that is submitted: ``main.py INPUT OUTPUT [CHECKPOINT]``; without checkpoint, in the interpreter."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from readings import Reading, SumEverySecond
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.functions import AggregateFunction, RichFunction, RuntimeContext
from windrow.sinks import FunctionSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.windows import EventTimeSessionWindows
from windrow_runtime.local import LocalRunner


# Classes and functions of the main program have no module that a worker could import.
@dataclass(frozen=True)
class Span:
    sensor: str
    first: int
    last: int
    readings: int


class Spans(AggregateFunction[Reading, Span, Span]):
    def create_accumulator(self) -> Span:
        return Span("", sys.maxsize, 0, 0)

    def add(self, value: Reading, accumulator: Span) -> Span:
        return self.merge(accumulator, Span(value.sensor, value.at, value.at, 1))

    def get_result(self, accumulator: Span) -> Span:
        return accumulator

    def merge(self, a: Span, b: Span) -> Span:
        return Span(b.sensor, min(a.first, b.first), max(a.last, b.last), a.readings + b.readings)


class Arrival(RichFunction):
    """Passes readings on. On the cluster, windrow and Python have come with the program, and one worker dies."""

    def __init__(self, died: Path | None) -> None:
        self._died = died

    def open(self, runtime_context: RuntimeContext) -> None:
        import windrow_runtime

        if self._died is None:
            return
        if "windrow.zip" not in str(windrow_runtime.__file__):
            raise ImportError(f"windrow comes from {windrow_runtime.__file__}")
        if Path(sys.prefix).resolve() != Path("environment").resolve():
            raise ImportError(f"Python comes from {sys.prefix}")

    def __call__(self, reading: Reading) -> Reading:
        if self._died is not None and not self._died.exists():
            self._died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return reading


def build(source: Path, output: Path, note: Callable[[int, Sequence[Span]], None], died: Path | None) -> Pipeline:
    keyed = (
        from_source(JsonFileSource(source, Reading, files_per_batch=1))
        .map(Arrival(died))
        .returns(Reading)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=500)),
            timestamp=lambda reading: reading.at,
        )
        .key_by(lambda reading: reading.sensor)
    )
    spans = keyed.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=150))).aggregate(Spans())
    return Pipeline(
        "cluster",
        spans.sink_to(FunctionSink(note)),
        spans.sink_to(JsonFileSink(output / "spans")),
        keyed.process(SumEverySecond()).sink_to(JsonFileSink(output / "seconds")),
    )


def wait_in_batch(folder: Path, batch: int) -> Callable[[int, Sequence[Span]], None]:
    """A sink that says when the pipeline is in the middle of a batch, and waits there until it may go on."""

    def note(number: int, spans: Sequence[Span]) -> None:
        if number == batch:
            (folder / "waiting").touch()
            while not (folder / "go").exists():
                time.sleep(0.05)

    return note


def main(source: Path, output: Path, checkpoint: Path | None = None) -> None:
    if checkpoint is None:
        LocalRunner().run(build(source, output, lambda batch, spans: None, None))
        return
    from windrow_runtime.spark import SparkRunner

    SparkRunner(checkpoint=checkpoint).run(build(source, output, wait_in_batch(output, 1), output / "died"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
