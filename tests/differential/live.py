"""Runs cases as users run pipelines: by the machine's clock, over files that arrive, with a stop in the middle.

Steps that use the clock stand in front of a case's steps, beside them, or nowhere. When panes and timers by the clock
come out depends on the moment, so cases compute of them what does not: which elements got through, and totals of event
time. What steps in event time give is the same at any pace.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.differential.inputs import Input, random_input
from tests.spark.comparison import Event, Outputs, key_of, millis
from windrow import DataStream, Pipeline
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.sources import FileSource
from windrow.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.triggers import after_processing_time, after_watermark
from windrow.windows import TimeWindow, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from windrow_runtime.operators.topology import Topology, sink_of, source_of
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.replay import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windrow_runtime.spark import RunningPipeline

# Any in this module: elements of every sink.

_DELAY = 20  # of what waits for the clock, in milliseconds


def live_input(seed: int, group: int) -> Input:
    """Draws an input of one source: files of two may arrive in one batch or in two, which is another input."""
    drawn = (random_input(random.Random(f"{seed}, live input {group}, {turn}")) for turn in count())
    return replace(next(each for each in drawn if len(each.collections) == 1), clock_step=None)


class Once(KeyedProcessFunction[str, Event, Event]):
    """Lets each element of a key pass once, by state that expires by the clock."""

    uses_processing_time = True
    seen = ValueStateDescriptor("seen", list[int], ttl=StateTtlConfig(timedelta(hours=1)))

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterator[Event]:
        state = context.get_state(self.seen)
        known = state.value() or []
        if value.value not in known:
            state.update([*known, value.value])
            yield value


class Later(KeyedProcessFunction[str, Event, Event]):
    """Hands elements on when the clock has advanced, or when the watermark has passed them by far."""

    uses_processing_time = True
    waiting = ListStateDescriptor("waiting", Event)

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> None:
        context.get_state(self.waiting).add(value)
        timers = context.timer_service
        timers.register_processing_time_timer(timers.current_processing_time + _DELAY)
        timers.register_event_time_timer(value.at + 10_000)

    def on_timer(self, timestamp: int, context: KeyedProcessContext[str]) -> Iterator[Event]:
        state = context.get_state(self.waiting)
        yield from list(state.get())
        state.clear()


class Twice(KeyedProcessFunction[str, Event, Event]):
    """Lets an element pass that came before."""

    seen = ValueStateDescriptor("seen", list[int])

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterator[Event]:
        state = context.get_state(self.seen)
        known = state.value() or []
        if value.value in known:
            yield value
        state.update([*known, value.value])


def _key(event: Event) -> str:
    return event.key


def _doubled(event: Event) -> list[Event]:
    return [event, event]


def _counted(key: str, window: TimeWindow, elements: Iterable[Event]) -> list[Event]:
    return [Event(key, window.start, sum(1 for _ in elements))]


def _summed(left: Event, right: Event) -> Event:
    return Event(left.key, left.at, left.value + right.value)


def _all(key: str, window: TimeWindow, elements: Iterable[Event]) -> list[Event]:
    return list(elements)


def add_clock(
    stream: DataStream[Event], prefix: str, outputs: Outputs, chance: random.Random
) -> tuple[DataStream[Event], bool]:
    """Adds steps that use the clock, and their outputs, to a case that begins with ``stream``.

    Returns:
        The stream for the case's other steps, and whether it comes of a keyed step.
    """
    match chance.randrange(8):
        case 0 | 1 | 2:
            return stream.flat_map(_doubled).key_by(_key).process(Once(), name=f"{prefix}.once"), True
        case 3:
            size = millis(chance.randrange(20, 400))
            panes = (
                stream.key_by(_key)
                .window(TumblingEventTimeWindows.of(size))
                .trigger(after_watermark(early=after_processing_time(millis(_DELAY))))
                .discarding()
                .apply(_counted, name=f"{prefix}.panes")
                .returns(Event)
            )
            totals = (
                panes.key_by(_key).window(TumblingEventTimeWindows.of(size)).reduce(_summed, name=f"{prefix}.totals")
            )
            outputs.add(f"{prefix} totals", totals, key_of)
        case 4:
            later = stream.key_by(_key).process(Later(), name=f"{prefix}.later")
            outputs.add(f"{prefix} later", later, None)
        case 5:
            windows = stream.key_by(_key).window(TumblingProcessingTimeWindows.of(millis(_DELAY)))
            through = windows.apply(_all, name=f"{prefix}.by clock").returns(Event)
            again = through.key_by(_key).process(Twice(), name=f"{prefix}.twice")
            outputs.add(f"{prefix} twice", again, key_of)
        case _:
            pass
    return stream, False


@contextmanager
def _emptied(folder: Path) -> Iterator[list[Path]]:
    """Takes the files out of a folder, in order, and puts those back that are not there at the end."""
    with TemporaryDirectory(dir=folder.parent, prefix="aside-") as aside:
        files = sorted(folder.iterdir())
        for file in files:
            file.rename(Path(aside) / file.name)
        try:
            yield [Path(aside) / file.name for file in files]
        finally:
            for file in files:
                if not file.exists():
                    (Path(aside) / file.name).rename(file)


def live_engine(
    spark: SparkSession, between: Callable[[Path, Pipeline, random.Random], None] | None = None
) -> Callable[[Pipeline, Callable[[], int] | None], PipelineResult]:
    """Makes the engine that runs pipelines over files on Spark while these arrive.

    Args:
        spark: The session.
        between: What becomes of the checkpoint while the run is stopped; None: nothing, and batches are replayed.
    """

    def run(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        (source,) = (source_of(step) for step in Topology(pipeline.steps).sources)
        assert isinstance(source, FileSource)
        folder = Path(source.path)
        with TemporaryDirectory(prefix="windrow-live-") as scratch, _emptied(folder) as files:
            return _run(spark, Path(scratch, "checkpoint"), pipeline, folder, files, between)

    return run


def _run(
    spark: SparkSession,
    checkpoint: Path,
    pipeline: Pipeline,
    folder: Path,
    files: list[Path],
    between: Callable[[Path, Pipeline, random.Random], None] | None,
) -> PipelineResult:
    """Runs half of the files, stops, and goes on with the rest until the stream is drained."""
    from windrow_runtime.spark import SparkRunner

    chance = random.Random(f"{pipeline.name}, {len(pipeline.steps)}, {len(files)}")

    def start() -> RunningPipeline:
        return SparkRunner(spark, checkpoint=checkpoint).start(pipeline)

    def put(count: int) -> None:
        for _ in range(min(count, len(files))):
            file = files.pop(0)
            file.rename(folder / file.name)

    half = len(files) // 2
    put(1)
    running = start()
    for _ in range(half - 1):
        put(1)
        if chance.random() < 0.5:
            running.process_available()
    # Some runs stop with files that nobody has read yet.
    if chance.random() < 0.7:
        running.process_available()
    first = running.stop()
    if between is not None:
        between(checkpoint, pipeline, chance)
    if chance.random() < 0.5:
        put(1)
    running = start()
    put(len(files) // 2)
    running.process_available()
    put(len(files))
    second = running.drain()
    if between is None:
        _replay(checkpoint, pipeline, (first, second))
    return both(first, second)


def _replay(checkpoint: Path, pipeline: Pipeline, results: tuple[PipelineResult, PipelineResult]) -> None:
    """Has the interpreter take the batches of the run under their times: then all is equal, also by the clock."""
    replayed = replay(checkpoint, pipeline)
    sinks = [sink for sink in map(sink_of, Topology(pipeline.steps).sinks) if isinstance(sink, CollectSink)]
    differences = [*replayed.differences, *replayed.compare(results, sinks)]
    assert not differences, "\n".join(differences)


def both(first: PipelineResult, second: PipelineResult) -> PipelineResult:
    """The result of two runs, the second after the first."""
    counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in (first, second):
        for step, counts in result.counters.items():
            counters[step].update(counts)
    collected = {sink: [*first._collected[sink], *second._collected[sink]] for sink in first._collected}
    written = Counter(first.written) + Counter(second.written)
    return PipelineResult(first.pipeline, counters, written, collected)
