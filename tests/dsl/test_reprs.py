"""The ``repr`` of a pipeline, a stream, a result and a trigger: one line each, with nothing secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.dsl.plans import SECOND, fault_of, plan, refusal
from windrow import Pipeline, WatermarkStrategy, evictors, from_collection, from_source, triggers, windows
from windrow import aggregates as agg
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import CollectSink, DatabaseSink, ParquetFileSink
from windrow.sources import JsonFileSource, RateSource
from windrow.triggers import Trigger, after_any, after_count
from windrow.watermarks import NoWatermarks, WatermarkGenerator, WatermarkOutput
from windrow.windows import (
    AssignerContext,
    GlobalWindows,
    TimeWindow,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)
from windrow_runtime.local import LocalRunner

HERE = Path(__file__).name


def test_each_is_one_line() -> None:
    stream = from_collection(list(range(1000)), name="numbers")
    keyed = stream.key_by(lambda number: number % 2)
    by_clock = TumblingProcessingTimeWindows.of(SECOND)
    windowed = keyed.window(by_clock)
    end = stream.sink_to(CollectSink("all"))
    pipeline = Pipeline("numbers", end)
    result = LocalRunner().run(pipeline)
    for found, beginning in (
        (stream, "DataStream(source 'numbers': int, "),
        (keyed, "KeyedStream(key_by: int, "),
        (windowed, "WindowedStream(TumblingProcessingTimeWindows("),
        (stream.window_all(by_clock), "AllWindowedStream("),
        (windowed.aggregate(agg.count()), "DataStream(window: int, "),
        (end, "DataStreamSink("),
        (pipeline.steps[0], "Step(numbers.1.numbers, "),
    ):
        text = repr(found)
        assert text.startswith(beginning)
        assert HERE in text
        assert "\n" not in text
        assert len(text) < 200 + len(__file__)
    assert repr(pipeline) == "Pipeline('numbers', 2 steps, 1 sink)"
    assert repr(result) == "PipelineResult('numbers', 2 steps, 1000 collected)"


def test_nothing_secret_is_shown() -> None:
    source = KafkaSource("host:9092", "topic", int, options={"sasl.password": "s3cret"})
    stream = from_source(source)
    end = stream.sink_to(DatabaseSink("postgresql://user:s3cret@host/db", "t", key=()))
    for found in (stream, end, plan(end), stream.key_by(lambda n: n)):
        assert "s3cret" not in repr(found)


OPTIONS = "timedelta(seconds=1), reset_timer_on_new_record=True, should_clear_on_timeout=False"
WRITTEN = [
    "EventTimeTrigger.create()",
    "ProcessingTimeTrigger.create()",
    "NeverTrigger.create()",
    "EndOfStreamTrigger.create()",
    "CountTrigger.of(3)",
    "DeltaTrigger.of(1.5, max)",
    "ContinuousEventTimeTrigger.of(timedelta(seconds=90))",
    "ContinuousProcessingTimeTrigger.of(timedelta(milliseconds=1500))",
    "StateCleaningCountTrigger.of(timedelta(hours=1), timedelta(days=1), 5)",
    "PurgingTrigger.of(CountTrigger.of(3))",
    "PurgingTrigger.of(DeltaTrigger.of(1, max))",
    "ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), timedelta(minutes=1))",
    f"ProcessingTimeoutTrigger.of(CountTrigger.of(2), {OPTIONS})",
    "EventTimeoutTrigger.of(EventTimeTrigger.create(), timedelta(minutes=1))",
    f"EventTimeoutTrigger.of(DeltaTrigger.of(1, max), {OPTIONS})",
    "after_watermark()",
    "after_watermark(early=after_processing_time(timedelta(minutes=5)))",
    "after_watermark(early=after_any(after_count(2), CountTrigger.of(3)), late=after_count(1))",
    "after_watermark(late=DeltaTrigger.of(1, max))",
    "after_processing_time()",
    "after_processing_time(aligned_to=timedelta(minutes=1))",
    "after_processing_time(timedelta.max, aligned_to=timedelta(hours=1))",
    "repeatedly(after_each(after_count(1), after_all(after_count(2), default())))",
    "or_finally(always(), or_finally(never(), PurgingTrigger.of(CountTrigger.of(3))))",
    "TumblingEventTimeWindows.of(timedelta(seconds=5))",
    "TumblingProcessingTimeWindows.of(timedelta(days=1), offset=timedelta(hours=-8))",
    "TumblingEventTimeWindows.of(timedelta(hours=1), stagger=WindowStagger.NATURAL)",
    "SlidingEventTimeWindows.of(timedelta(minutes=1), timedelta(milliseconds=500))",
    "CumulativeEventTimeWindows.of(max_size=timedelta(hours=1), step=timedelta(minutes=5))",
    "CalendarWindows.days('Europe/Berlin', size=7, slide=1)",
    "SlidingProcessingTimeWindows.of(timedelta(minutes=1), timedelta(seconds=7), offset=timedelta(seconds=1))",
    "EventTimeSessionWindows.with_gap(timedelta(minutes=30))",
    "ProcessingTimeSessionWindows.with_gap(timedelta(seconds=1))",
    "EventTimeSessionWindows.with_dynamic_gap(by_value)",
    "ProcessingTimeSessionWindows.with_dynamic_gap(by_value)",
    "GlobalWindows.create()",
    "GlobalWindows.create_with_end_of_stream_trigger()",
    "CountEvictor.of(3)",
    "CountEvictor.of(3, do_evict_after=True)",
    "TimeEvictor.of(timedelta(minutes=2))",
    "DeltaEvictor.of(1.5, max, do_evict_after=True)",
    "LocalRunner()",
    "LocalRunner(fast=False)",
    "LocalRunner(clock=max, record=True, isolates_functions=True)",
]


def by_value(number: int) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize("text", WRITTEN)
def test_triggers_assigners_evictors_and_runners_are_shown_as_they_are_written(text: str) -> None:
    names = {name: getattr(module, name) for module in (triggers, windows, evictors) for name in module.__all__}
    known = {**names, "timedelta": timedelta, "by_value": by_value, "LocalRunner": LocalRunner}
    assert repr(eval(text, known)) == text


class Limited(Trigger[int, Window]):
    def __init__(self, limit: int, wait: timedelta, test: Callable[[int], bool], handle: object, lost: int) -> None:
        self.limit = limit
        self._wait = wait
        self._test = test
        self._handle = handle
        self._twice = 2 * lost


@dataclass
class Made(Trigger[int, Window]):
    limit: int


class Plain(Trigger[int, Window]):
    pass


def test_a_trigger_of_a_user_is_shown_with_the_arguments_that_it_keeps() -> None:
    limited = Limited(3, timedelta(seconds=90), lambda number: number > 3, object(), 7)
    text = "Limited(limit=3, wait=timedelta(seconds=90), test=lambda, handle=object)"
    assert (repr(limited), limited.describe()) == (text, text)
    assert (repr(Made(3)), Made(3).describe()) == ("Made(limit=3)", "Made(limit=3)")
    assert (repr(Plain()), Plain().describe()) == ("Plain()", "Plain")
    assert repr(after_any(after_count(1), Made(3))) == "after_any(after_count(1), Made(limit=3))"


def test_errors_show_triggers_and_a_hint_can_be_pasted() -> None:
    windowed = from_collection([1]).key_by(lambda number: number).window(GlobalWindows.create())
    no_evictor: Any = after_count(2)
    assert "given:    after_count(2)\n" in str(refusal(lambda: windowed.evictor(no_evictor)))
    trigger = triggers.after_processing_time(timedelta(minutes=5))
    assert fault_of(windowed.trigger(trigger).reduce(max)).hint.startswith(
        "repeatedly(after_processing_time(timedelta(minutes=5))) goes on; trigger(..., may_lose_data=True)"
    )


class Days(WindowAssigner[object, TimeWindow]):
    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self._name = name

    def assign_windows(self, element: object, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return []

    def default_trigger(self) -> Trigger[object, TimeWindow]:
        return triggers.EventTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return True


def test_what_users_wrote_is_shown_with_the_arguments_that_it_keeps() -> None:
    assert repr(Days(3, "a secret")) == "Days(count=3, name=...)"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (CollectSink("all"), "CollectSink(collect all)"),
        (CollectSink(), "CollectSink(collect)"),
        (ParquetFileSink("s3a://ann:s3cret@bucket/out"), "ParquetFileSink(parquet s3a://ann:*****@bucket/out)"),
        (JsonFileSource("in", int), "JsonFileSource(json in)"),
        (RateSource(5), "RateSource(rate 5/s)"),
        (KafkaSource("host:9092", "topic", int), "KafkaSource(kafka topic at host:9092)"),
        (
            KafkaSink("host:9092", "topic", options={"sasl.password": "s3cret"}),
            "KafkaSink(kafka topic at host:9092, {'sasl.password': '*****'})",
        ),
        (
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=90))
            .with_idleness(timedelta(minutes=1))
            .with_watermark_alignment("all", timedelta(hours=1)),
            "WatermarkStrategy(bounded out-of-orderness, 1 min 30 s, idle after 1 min, aligned with 'all' within 1 h)",
        ),
        (agg.sum(lambda reading: reading.celsius), "sum(.celsius)"),
        (agg.combine(agg.count(), agg.max(lambda reading: reading.at)), "combine(count(), max(.at))"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sources_sinks_strategies_and_aggregates_are_one_line(shown: object, text: str) -> None:
    assert repr(shown) == text


class Marked(WatermarkGenerator[object]):
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def on_event(self, element: object, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(0)


def test_a_generator_is_shown_by_its_class_without_its_arguments() -> None:
    strategy = WatermarkStrategy.for_generator(partial(Marked, "s3cret"))
    assert repr(strategy) == "WatermarkStrategy(generator Marked)"
    assert repr(WatermarkStrategy.for_generator(lambda: Marked("a"))) == "WatermarkStrategy(generator lambda)"


def test_checkpoints_know_strategies_by_the_texts_that_they_had() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    assert strategy.description == "bounded out-of-orderness, 60000 ms"
    assert WatermarkStrategy.for_generator(NoWatermarks).description == "generator NoWatermarks"
