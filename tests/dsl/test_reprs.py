"""The ``repr`` of a pipeline, a stream, a result and a trigger: one line each, with nothing secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from windrow import Pipeline, from_collection, from_source, triggers
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, PlanError
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink, DatabaseSink
from windrow.triggers import Trigger, after_any, after_count
from windrow.windows import GlobalWindows, TumblingProcessingTimeWindows, Window
from windrow_runtime.local import LocalRunner

HERE = Path(__file__).name


def test_each_is_one_line() -> None:
    stream = from_collection(list(range(1000)), name="numbers")
    keyed = stream.key_by(lambda number: number % 2)
    windows = keyed.window(TumblingProcessingTimeWindows.of(timedelta(seconds=1)))
    sink: CollectSink[int] = CollectSink("all")
    end = stream.sink_to(sink)
    pipeline = Pipeline("numbers", end)
    result = LocalRunner().run(pipeline)
    for found, beginning in (
        (stream, "DataStream(source 'numbers', "),
        (keyed, "KeyedStream(key_by, "),
        (windows, "WindowedStream(TumblingProcessingTimeWindows("),
        (stream.window_all(TumblingProcessingTimeWindows.of(timedelta(seconds=1))), "AllWindowedStream("),
        (windows.aggregate(agg.count()), "DataStream(window, "),
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
    for found in (stream, end, Pipeline("p", end), stream.key_by(lambda n: n)):
        assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
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
        "ProcessingTimeoutTrigger.of(CountTrigger.of(2), timedelta(seconds=1), reset_timer_on_new_record=True, "
        "should_clear_on_timeout=False)",
        "EventTimeoutTrigger.of(EventTimeTrigger.create(), timedelta(minutes=1))",
        "EventTimeoutTrigger.of(DeltaTrigger.of(1, max), timedelta(seconds=1), reset_timer_on_new_record=True, "
        "should_clear_on_timeout=False)",
        "after_watermark()",
        "after_watermark(early=after_processing_time(timedelta(minutes=5)))",
        "after_watermark(early=after_any(after_count(2), CountTrigger.of(3)), late=after_count(1))",
        "after_watermark(late=DeltaTrigger.of(1, max))",
        "after_processing_time()",
        "after_processing_time(aligned_to=timedelta(minutes=1))",
        "after_processing_time(timedelta.max, aligned_to=timedelta(hours=1))",
        "repeatedly(after_each(after_count(1), after_all(after_count(2), default())))",
        "or_finally(always(), or_finally(never(), PurgingTrigger.of(CountTrigger.of(3))))",
    ],
)
def test_a_trigger_is_shown_as_it_is_written(text: str) -> None:
    names = {name: getattr(triggers, name) for name in triggers.__all__}
    made = eval(text, names | {"timedelta": timedelta})
    assert repr(made) == text


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
    windows = from_collection([1]).key_by(lambda number: number).window(GlobalWindows.create())
    with pytest.raises(InvalidArgumentError) as wrong:
        windows.evictor(after_count(2))  # type: ignore[arg-type]  # a trigger is no evictor
    assert "given:    after_count(2)\n" in str(wrong.value)
    trigger = triggers.after_processing_time(timedelta(minutes=5))
    with pytest.raises(PlanError) as refused:
        Pipeline("p", windows.trigger(trigger).reduce(max).sink_to(CollectSink[int]()))
    assert refused.value.faults[0].hint.startswith(
        "repeatedly(after_processing_time(timedelta(minutes=5))) goes on; trigger(..., may_lose_data=True)"
    )
