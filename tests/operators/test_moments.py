"""Times that users' code gives: of timers, timestamps, watermarks and windows, one check for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.operators.stories import collected
from windrow import DataStream, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.functions import KeyedProcessFunction
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, timestamp_millis
from windrow.triggers import ComposableTrigger, EventTimeTrigger, Trigger, TriggerResult, repeatedly
from windrow.watermarks import WatermarkGenerator
from windrow.windows import GlobalWindows, TimeWindow, WindowAssigner
from windrow_runtime.testing import PushSource, StreamHarness, TriggerHarness, assign_windows

# Any in this module: what mypy refuses is tried.

NO_MOMENTS: list[Any] = [
    *(1.0, 7.5, float("nan"), True, "7", b"7", 2**63, 2**70, -(2**63) - 1, [7], (7,)),
    *(datetime(1970, 1, 1), pd.NaT, np.float64(7), np.bool_(True), np.datetime64(7, "ms"), np.array([7])),
]
MOMENTS: list[Any] = [7, np.int64(7), np.int16(7), np.uint8(7), datetime.fromtimestamp(0.007, UTC)]


def millis_of(moment: Any) -> int:
    return timestamp_millis(moment)


def test_moments_of_all_kinds_are_milliseconds() -> None:
    assert [(type(millis_of(moment)), millis_of(moment)) for moment in MOMENTS] == [(int, 7)] * len(MOMENTS)
    for moment in (*NO_MOMENTS, None):
        with pytest.raises(InvalidArgumentError):
            millis_of(moment)


class Timed(KeyedProcessFunction[int, Any, Any]):
    def __init__(self, call: str, moment: Any) -> None:
        self.call, self.moment = call, moment

    uses_processing_time = True

    def process_element(self, value: Any, context: Any) -> None:
        getattr(context.timer_service, self.call)(self.moment)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Any]:
        yield timestamp


class Asks(Trigger[Any, Any]):
    def __init__(self, call: str, moment: Any) -> None:
        self.call, self.moment = call, moment
        self.uses_processing_time = "processing" in call

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        getattr(context, self.call)(self.moment)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE if time == 7 else TriggerResult.CONTINUE

    def clear(self, window: Any, context: Any) -> None:
        context.delete_event_time_timer(7)


class Composed(ComposableTrigger[Any, Any]):
    uses_processing_time = True

    def __init__(self, call: str, moment: Any) -> None:
        self.call, self.moment = call, moment

    def observe(self, element: Any, timestamp: int, window: Any, context: Any) -> None:
        getattr(context, self.call)(self.moment)

    def observe_timer(self, time: int, window: Any, context: Any, *, event_time: bool) -> None:
        context.take_event_time_timer(self.moment)

    def is_ready(self, window: Any, context: Any) -> bool:
        return bool(context.current_watermark == 7)

    def on_fire(self, window: Any, context: Any) -> bool:
        return False


class Marks(WatermarkGenerator[Any]):
    def __init__(self, moment: Any, *, at_end: bool = False) -> None:
        self.moment, self.at_end = moment, at_end

    def on_event(self, element: Any, timestamp: int, output: Any) -> None:
        if not self.at_end:
            output.emit_watermark(self.moment)

    def on_periodic_emit(self, output: Any) -> None:
        if self.at_end:
            output.emit_watermark(self.moment)


@dataclass(frozen=True)
class Own:
    last: Any

    def max_timestamp(self) -> int:
        return self.last  # type: ignore[no-any-return]


class Assigns(WindowAssigner[Any, Any]):
    is_event_time = True

    def __init__(self, make: Callable[[Any], Any], moment: Any) -> None:
        self.make, self.moment = make, moment

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
        return [self.make(self.moment)]

    def default_trigger(self) -> Trigger[Any, Any]:
        return EventTimeTrigger.create()


def stamped(timestamp: Callable[[Any], Any] = lambda n: 1, strategy: Any = None) -> DataStream[Any]:
    strategy = strategy or WatermarkStrategy.for_monotonous_timestamps()
    return from_collection([1], batch_size=1).assign_timestamps_and_watermarks(strategy, timestamp=timestamp)


def processed(call: str) -> Callable[[Any], DataStream[Any]]:
    return lambda moment: stamped().key_by(abs).process(Timed(call, moment))


def triggered(make: Callable[[str, Any], Trigger[Any, Any]], call: str) -> Callable[[Any], DataStream[Any]]:
    def build(moment: Any) -> DataStream[Any]:
        windows = stamped().key_by(abs).window(GlobalWindows.create())
        return windows.trigger(make(call, moment)).reduce(max)

    return build


def marked(*, at_end: bool) -> Callable[[Any], DataStream[Any]]:
    def build(moment: Any) -> DataStream[Any]:
        return stamped(strategy=WatermarkStrategy.for_generator(lambda: Marks(moment, at_end=at_end)))

    return build


def assigned(make: Callable[[Any], Any]) -> Callable[[Any], DataStream[Any]]:
    return lambda moment: stamped().key_by(abs).window(Assigns(make, moment)).reduce(max)


CALLS = [f"{verb}_{domain}_time_timer" for verb in ("register", "delete") for domain in ("event", "processing")]

PLACES: dict[str, Callable[[Any], DataStream[Any]]] = {
    **{f"{call} of a process function": processed(call) for call in CALLS},
    **{f"{call} of a trigger": triggered(Asks, call) for call in CALLS},
    **{f"{call} of a part": triggered(lambda c, moment: repeatedly(Composed(c, moment)), call) for call in CALLS},
    "timestamps": lambda moment: stamped(lambda n: moment),
    "watermark of an element": marked(at_end=False),
    "watermark of a batch": marked(at_end=True),
    "start of a window": assigned(lambda moment: TimeWindow(moment, 9)),
    "end of a window": assigned(lambda moment: TimeWindow(-9, moment)),
    "last timestamp of a window": assigned(Own),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_moment_is_refused_with_its_step(place: str) -> None:
    for moment in (*NO_MOMENTS, None):
        # The bounds of a window may lie a little beyond all timestamps.
        is_near = type(moment) is int and abs(moment) < 2**64
        if is_near and place in ("start of a window", "end of a window"):
            continue
        with pytest.raises(WindrowError) as caught:
            collected(PLACES[place](moment))
        assert isinstance(caught.value, InvalidArgumentError), (moment, caught.value)
        assert str(Path(__file__)) in str(caught.value.where), moment


def test_timers_of_all_kinds_of_moments_are_one_timer() -> None:
    for moment in MOMENTS:
        assert collected(processed("register_event_time_timer")(moment)) == [7]
        assert collected(triggered(Asks, "register_event_time_timer")(moment)) == [1]
        assert collected(assigned(lambda moment: TimeWindow(0, moment))(moment)) == [1]

    class Again(Timed):
        def process_element(self, value: Any, context: Any) -> None:
            service = context.timer_service
            service.register_event_time_timer(np.int64(7))
            service.register_event_time_timer(datetime.fromtimestamp(0.007, UTC))
            service.register_event_time_timer(8)
            service.delete_event_time_timer(np.int32(8))

    assert collected(stamped().key_by(abs).process(Again("", 0))) == [7]


def test_a_timer_behind_the_end_of_the_stream_never_fires() -> None:
    class Following(Timed):
        def process_element(self, value: Any, context: Any) -> None:
            context.timer_service.register_event_time_timer(10)

        def on_timer(self, timestamp: int, context: Any) -> Iterator[Any]:
            context.timer_service.register_event_time_timer(context.timer_service.current_watermark + 1_000)
            yield timestamp

    assert collected(stamped().key_by(abs).process(Following("", 0))) == [10]


def test_time_windows_have_bounds_in_order() -> None:
    wrong: list[tuple[Any, Any]] = [(0.5, 1.5), (5, 1), (0, 1.0), (None, 1), ("0", 1), (True, 2), (0, 2**70)]
    for start, end in wrong:
        with pytest.raises(InvalidArgumentError):
            TimeWindow(start, end)
    numbers: tuple[Any, Any] = (np.int64(1), np.uint8(5))
    windows: list[Any] = [TimeWindow(*numbers), TimeWindow(start=1, end=5), TimeWindow(1, MOMENTS[-1])]
    assert windows == [(1, 5), (1, 5), (1, 7)]
    assert {type(bound) for window in windows for bound in window} == {int}
    assert TimeWindow(MAX_TIMESTAMP, 2 * MAX_TIMESTAMP).max_timestamp() == MAX_TIMESTAMP
    assert TimeWindow(MIN_TIMESTAMP - 5, MIN_TIMESTAMP + 5).start == MIN_TIMESTAMP - 5


def test_harnesses_take_moments() -> None:
    source = PushSource[int]()
    calls: list[Callable[[StreamHarness[int, Any], Any], object]] = [
        lambda harness, moment: harness.process_element(1, moment),
        lambda harness, moment: harness.process_watermark(moment),
        lambda harness, moment: harness.set_processing_time(moment),
        lambda harness, moment: TriggerHarness(EventTimeTrigger.create()).process_watermark(moment),
        lambda harness, moment: assign_windows(GlobalWindows.create(), 1, moment),
    ]
    timed = from_source(source).key_by(abs).process(Timed("register_event_time_timer", 7))
    with StreamHarness(timed, source) as harness:
        for call in calls:
            for moment in NO_MOMENTS:
                with pytest.raises(InvalidArgumentError) as caught:
                    call(harness, moment)
                assert str(caught.value.where).startswith(__file__)
        harness.process_element(1, MOMENTS[-1])
        watermark: Any = np.int64(7)
        harness.process_watermark(watermark)
        assert harness.take_values() == [7]
