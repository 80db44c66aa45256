"""Processing time on Spark: batches for the clock, beside the watermark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.records import millis
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    ProcessFunction,
    TimeDomain,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, TextFileSource
from windrow.time import now_millis
from windrow.triggers import CountTrigger, ProcessingTimeoutTrigger, PurgingTrigger
from windrow.windows import GlobalWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Numbered = tuple[str, int]

NUMBERS = [(f"k{number % 3}", number * 100) for number in range(60)]


def second(element: Numbered) -> int:
    return element[1]


def add(a: Numbered, b: Numbered) -> Numbered:
    return (a[0], a[1] + b[1])


class BothTimers(KeyedProcessFunction[str, Numbered, str]):
    """Sets a timer in each domain for every element, and says which one fired."""

    uses_processing_time = True

    def process_element(self, value: Numbered, context: KeyedProcessContext[str]) -> Iterable[str]:
        timers = context.timer_service
        timers.register_processing_time_timer(timers.current_processing_time + 1)
        timers.register_event_time_timer(value[1] + 50)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        if context.time_domain is TimeDomain.EVENT_TIME:
            yield f"{context.key} event {timestamp}"
        else:
            yield f"{context.key} clock"


@pytest.mark.filterwarnings("ignore:windows in processing time")  # of the interpreter, which may end sooner
@pytest.mark.filterwarnings("ignore:timers in processing time")
def test_both_domains_in_one_plan(spark: SparkSession) -> None:
    by_event, by_clock, timed_out = (CollectSink[Numbered](name) for name in ("event", "clock", "timed out"))
    timers = CollectSink[str]("timers")
    keyed = (
        from_source(CollectionSource(NUMBERS, batch_size=20))
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=second)
        .key_by(lambda element: element[0])
    )
    timeout: Any = ProcessingTimeoutTrigger.of(CountTrigger.of(1000), millis(1), False, True)
    in_time = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(timeout))
    pipeline = Pipeline(
        "clock",
        keyed.window(TumblingEventTimeWindows.of(millis(2_000))).reduce(add).sink_to(by_event),
        keyed.window(TumblingProcessingTimeWindows.of(millis(1))).reduce(add).sink_to(by_clock),
        keyed.process(BothTimers()).sink_to(timers),
        in_time.reduce(add).sink_to(timed_out),
    )
    result = SparkRunner(spark, partitions=1).run(pipeline)

    # Event time is what it is without a clock: the interpreter's answer.
    local = LocalRunner().run(pipeline)
    assert sorted(result.collected(by_event)) == sorted(local.collected(by_event))
    events = {f"{key} event {time + 50}" for key, time in NUMBERS}
    assert {line for line in result.collected(timers) if "event" in line} == events
    # How the clock cuts a stream is not ours to say; but each element is in one window, and every timer fires.
    for sink in (by_clock, timed_out):
        totals = Counter[str]()
        for key, value in result.collected(sink):
            totals[key] += value
        assert totals == {key: sum(value for other, value in NUMBERS if other == key) for key in ("k0", "k1", "k2")}
    assert {line for line in result.collected(timers) if "clock" in line} == {"k0 clock", "k1 clock", "k2 clock"}


class Stamped(ProcessFunction[str, int]):
    def process_element(self, value: str, context: ProcessContext) -> Iterable[int]:
        return [context.timestamp or 0]


@pytest.mark.classic(reason="a server of Spark Connect tells tasks no clock")
def test_elements_arrive_by_the_clock_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Clocks of workers may differ: by theirs, what one of them stamps would be late behind what another one does."""
    for number in range(4):  # a task each
        (tmp_path / f"{number}.txt").write_text("line\n")
    times = CollectSink[int]()
    lines = from_source(TextFileSource(tmp_path)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_ingestion_time()
    )
    before = now_millis()
    found = SparkRunner(spark).run(Pipeline("arrivals", lines.process(Stamped()).sink_to(times))).collected(times)
    assert len(found) == 4
    assert len({*found}) == 1
    assert before <= found[0] <= now_millis()
