"""Process functions without keys ask for the time; timers are refused, as there is no key."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from tests.operators.stories import collected
from windrow import WatermarkStrategy, from_source
from windrow.errors import WindrowError
from windrow.functions import CoProcessFunction, ProcessContext, ProcessFunction
from windrow.sources import CollectionSource
from windrow.time import MIN_TIMESTAMP
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness

Times = tuple[int, int, int]


class Now(ProcessFunction[int, Times]):
    def process_element(self, value: int, context: ProcessContext) -> Iterable[Times]:
        yield value, context.timer_service.current_watermark, context.timer_service.current_processing_time


class NowOfBoth(CoProcessFunction[int, int, Times]):
    def process_element1(self, value: int, context: ProcessContext) -> Iterable[Times]:
        yield value, context.timer_service.current_watermark, context.timer_service.current_processing_time

    def process_element2(self, value: int, context: ProcessContext) -> Iterable[Times]:
        yield -value, context.timer_service.current_watermark, context.timer_service.current_processing_time


class Sets(ProcessFunction[int, int]):
    def __init__(self, method: str) -> None:
        self.method = method

    def process_element(self, value: int, context: ProcessContext) -> None:
        getattr(context.timer_service, self.method)(5)


def test_a_process_function_sees_watermark_and_clock() -> None:
    source = PushSource(int)
    with StreamHarness(from_source(source).process(Now()), source) as harness:
        harness.process_element(1, timestamp=5)
        harness.process_watermark(20)
        harness.set_processing_time(700)
        harness.snapshot_restore()
        harness.process_element(2, timestamp=25)
        assert [each.value for each in harness.take_output()] == [(1, MIN_TIMESTAMP, MIN_TIMESTAMP), (2, 20, 700)]


def test_a_function_of_connected_streams_sees_the_lower_watermark() -> None:
    left, right = PushSource(int), PushSource(int)
    stream = from_source(left).connect(from_source(right)).process(NowOfBoth())
    with StreamHarness(stream, left) as harness:
        harness.process_watermark(50, source=left)
        harness.process_element(1, source=left, timestamp=60)
        harness.process_watermark(30, source=right)
        harness.process_element(2, source=right, timestamp=60)
        assert [each.value[:2] for each in harness.take_output()] == [(1, MIN_TIMESTAMP), (-2, 30)]


def test_the_interpreter_tells_the_watermark_of_the_batch_before() -> None:
    stream = from_source(CollectionSource([10, 30], int, batch_size=1))
    stamped = stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda n: n
    )
    assert collected(stamped.process(Now()), clock=lambda: 99) == [(10, MIN_TIMESTAMP, 99), (30, 9, 99)]


def test_results_of_timers_come_under_the_watermark_before() -> None:
    source = PushSource(int)
    counted = (
        from_source(source)
        .key_by(lambda n: 0)
        .window(TumblingEventTimeWindows.of(timedelta(milliseconds=10)))
        .reduce(lambda a, b: a + b)
    )
    with StreamHarness(counted.process(Now()), source) as harness:
        harness.process_element(1, timestamp=5)
        harness.process_watermark(7)
        harness.process_watermark(20)
        assert [each.value[:2] for each in harness.take_output()] == [(1, 7)]


METHODS = (
    "register_event_time_timer",
    "register_processing_time_timer",
    "delete_event_time_timer",
    "delete_processing_time_timer",
)


@pytest.mark.parametrize("method", METHODS)
def test_timers_need_keys(method: str) -> None:
    source = PushSource(int)
    with (
        StreamHarness(from_source(source).process(Sets(method)), source) as harness,
        pytest.raises(WindrowError, match="a stream without keys has no timers") as caught,
    ):
        harness.process_element(1)
    assert "key_by" in str(caught.value)
