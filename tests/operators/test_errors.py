"""Errors say what was wrong, with which record, in which step and on which line of the user's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.records import Event, key_of, millis
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import (
    InvalidArgumentError,
    MissingTimestampError,
    PlanError,
    UnsupportedOperationError,
    UserFunctionError,
    WindrowError,
)
from windrow.evictors import CountEvictor
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessContext,
    ProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    RichFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from windrow.triggers import CountTrigger, DeltaTrigger, Trigger, TriggerContext
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.state.handles import StateStore
from windrow_runtime.testing import PushSource, StreamHarness

TUMBLING = TumblingEventTimeWindows.of(millis(10))
BAD = Event("a", 1, 0)
WINDOW = "window TimeWindow(start=0, end=10)"


def invert(event: Event) -> float:
    return 1 / event.value


def keep_first(a: Event, b: Event) -> Event:
    return a


def invert_all(key: str, window: TimeWindow, events: Sequence[Event]) -> list[float]:
    return [1 / event.value for event in events]


def reduce_badly(a: Event, b: Event) -> Event:
    raise ZeroDivisionError("no sum")


class AddBadly(AggregateFunction[Event, float, float]):
    def create_accumulator(self) -> float:
        return 0

    def add(self, value: Event, accumulator: float) -> float:
        return accumulator + 1 / value.value

    def get_result(self, accumulator: float) -> float:
        return accumulator


def window_step(stream: DataStream[Event]) -> DataStream[Event]:
    return stream.key_by(key_of).window(TUMBLING).reduce(reduce_badly, name="sums")


@pytest.mark.parametrize(
    ("build", "step", "given"),
    [
        (lambda s: s.map(invert, name="inverse"), "inverse", f"element {BAD!r}"),
        (lambda s: s.map(invert), "map", f"element {BAD!r}"),
        (lambda s: s.flat_map(lambda e: (1 / n for n in [e.value])), "flat_map", f"element {BAD!r}"),
        (lambda s: s.filter(lambda e: 1 / e.value > 1), "filter", f"element {BAD!r}"),
        (lambda s: s.key_by(invert).window(TUMBLING).reduce(keep_first), "key_by", f"element {BAD!r}"),
        (
            lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), lambda e: 1 // e.value),
            "timestamps",
            f"element {BAD!r}",
        ),
        (window_step, "sums", f"key 'a', {WINDOW}, element {BAD!r}"),
        (
            lambda s: s.key_by(key_of).window(TUMBLING).aggregate(AddBadly(), name="sums"),
            "sums",
            f"key 'a', {WINDOW}, element {BAD!r}",
        ),
        (
            lambda s: s.key_by(key_of).window(TUMBLING).apply(invert_all, name="inverses"),
            "inverses",
            "key 'a', window TimeWindow(start=0, end=10)",
        ),
        (
            lambda s: (
                s.key_by(key_of)
                .window(GlobalWindows.create())
                .trigger(DeltaTrigger.of(0, lambda a, b: 1 / b.value))
                .evictor(CountEvictor.of(9))
                .reduce(keep_first, name="far")
            ),
            "far",
            f"key 'a', window GlobalWindow(), element {BAD!r}",
        ),
    ],
)
def test_a_function_that_raises_is_named_with_step_line_and_record(
    build: Callable[[DataStream[Event]], DataStream[object]], step: str, given: str
) -> None:
    source = PushSource(Event)
    stream = build(from_source(source))
    with StreamHarness(stream, source) as harness:

        def feed() -> None:
            for event in (Event("a", 0, 1), BAD):
                harness.process_element(event, event.at)
            harness.process_watermark(9)

        with pytest.raises(UserFunctionError) as caught:
            feed()
    error = caught.value
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.message == f"a function of the step raised ZeroDivisionError: {error.__cause__}"
    assert error.given == given
    assert re.fullmatch(rf"harness\.\d+\.{step}, .*test_errors\.py:\d+", str(error.where))
    assert str(error).splitlines() == [
        error.message,
        f"  given:    {given}",
        f"  where:    {error.where}",
        "  hint:     the original error is the cause, with its traceback",
    ]


class NamesNoPlace(ProcessWindowFunction[Event, int, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]) -> list[int]:
        raise InvalidArgumentError("not this one", given=key)


def test_an_error_of_windrow_keeps_its_type_and_learns_its_place() -> None:
    source = PushSource(Event)
    stream = from_source(source).key_by(key_of).window(TUMBLING).process(NamesNoPlace(), name="picky")
    with StreamHarness(stream, source) as harness:
        harness.process_element(BAD, 1)
        with pytest.raises(InvalidArgumentError, match="not this one") as caught:
            harness.process_watermark(9)
    assert type(caught.value) is InvalidArgumentError
    line = NamesNoPlace.process.__code__.co_firstlineno + 1
    place = rf"harness\.\d+\.picky, .*test_errors\.py:\d+, by the call at .*test_errors\.py:{line}"
    assert re.fullmatch(place, str(caught.value.where))
    assert "\n  given:    'a'\n  where:    harness." in str(caught.value) or "given:    a" in str(caught.value)


class RefuseZero(AddBadly):
    def add(self, value: Event, accumulator: float) -> float:
        raise InvalidArgumentError("no sum of zeros", given=value.value, expected="another number")

    def merge(self, a: float, b: float) -> float:
        return a + b


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "windows", [TUMBLING, EventTimeSessionWindows.with_gap(millis(5))], ids=["tumbling", "session"]
)
def test_every_form_hands_on_an_error_of_windrow_that_a_function_raises(
    windows: TumblingEventTimeWindows | EventTimeSessionWindows, fast: bool
) -> None:
    events = from_collection([BAD]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), lambda event: event.at
    )
    sums = events.key_by(key_of).window(windows).aggregate(RefuseZero(), name="sums")
    with pytest.raises(InvalidArgumentError, match="no sum of zeros") as caught:
        LocalRunner(fast=fast).run(Pipeline("sums", sums.sink_to(CollectSink())))
    assert str(caught.value.where).startswith("sums")


class SetsTimerAt(KeyedProcessFunction[str, Event, int]):
    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> list[int]:
        context.timer_service.register_event_time_timer(1.5)  # type: ignore[arg-type]  # what the test is about
        return []


def test_a_wrong_call_of_a_context_is_shown_with_its_line() -> None:
    timers = from_collection([BAD]).key_by(key_of).process(SetsTimerAt())
    with pytest.raises(InvalidArgumentError, match="the time of a timer") as caught:
        LocalRunner().run(Pipeline("timers", timers.sink_to(CollectSink())))
    line = SetsTimerAt.process_element.__code__.co_firstlineno + 1
    assert str(caught.value.where).endswith(f"test_errors.py:{line}")


def test_a_place_that_is_known_stays() -> None:
    error = WindrowError("wrong", given=3, expected="4", hint="add one")
    assert str(error) == "wrong\n  given:    3\n  expected: 4\n  hint:     add one"
    assert error.at("step 1") is error
    assert error.at("step 2") is error
    assert str(error) == "wrong\n  given:    3\n  expected: 4\n  where:    step 1\n  hint:     add one"


def test_a_missing_timestamp_says_how_to_assign_one() -> None:
    source = PushSource(Event)
    stream = from_source(source).key_by(key_of).window(TUMBLING).reduce(keep_first, name="latest")
    with StreamHarness(stream, source) as harness, pytest.raises(MissingTimestampError) as caught:
        harness.process_element(BAD)
    error = caught.value
    assert str(error).splitlines() == [
        "an element without a timestamp reached an event-time window",
        f"  given:    {BAD!r}",
        "  expected: a timestamp on every element",
        f"  where:    {error.where}",
        "  hint:     assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
    ]
    assert re.fullmatch(r"harness\.\d+\.latest, .*test_errors\.py:\d+", str(error.where))


@pytest.mark.parametrize(
    ("timestamp", "message"),
    [
        (None, "an element has no timestamp"),
        (1.5, "a timestamp has the wrong type"),
        (2**63, "a timestamp is out of range"),
    ],
)
def test_a_timestamp_function_must_give_timestamps(timestamp: object, message: str) -> None:
    source = PushSource(Event)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = from_source(source).assign_timestamps_and_watermarks(
        strategy,
        timestamp=lambda event: timestamp,  # type: ignore[arg-type,return-value]  # what a user who runs no type checker writes
        name="stamps",
    )
    with StreamHarness(stream, source) as harness, pytest.raises(InvalidArgumentError, match=message) as caught:
        harness.process_element(BAD)
    assert "stamps, " in str(caught.value.where)
    assert repr(BAD) in str(caught.value)


class CountsWindows(ProcessWindowFunction[Event, int, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]) -> list[int]:
        context.window_state.get_state(ValueStateDescriptor[int]("count")).update(1)
        return []


def test_merging_windows_have_no_state_of_their_own() -> None:
    source = PushSource(Event)
    stream = (
        from_source(source)
        .key_by(key_of)
        .window(EventTimeSessionWindows.with_gap(millis(5)))
        .process(CountsWindows(), name="counts")
    )
    with StreamHarness(stream, source) as harness:
        harness.process_element(BAD, 1)
        with pytest.raises(UnsupportedOperationError, match="merging windows have no per-window state") as caught:
            harness.process_watermark(9)
    assert "global_state" in str(caught.value)
    assert "counts, " in str(caught.value.where)


def test_a_gap_that_is_not_positive_fails_the_element() -> None:
    source = PushSource(Event)
    stream = (
        from_source(source)
        .key_by(key_of)
        .window(EventTimeSessionWindows.with_dynamic_gap(lambda event: millis(event.value)))
        .reduce(keep_first, name="sessions")
    )
    with StreamHarness(stream, source) as harness, pytest.raises(InvalidArgumentError) as caught:
        harness.process_element(BAD, 1)
    assert caught.value.message == "the gap of a session window must be positive"
    assert "sessions, " in str(caught.value.where)


def test_lateness_and_triggers_that_do_not_fit_are_refused_together() -> None:
    keyed = from_source(PushSource(Event)).key_by(key_of)
    global_windows = (
        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(1)).allowed_lateness(millis(1)).reduce(keep_first)
    )
    # What a user who runs no type checker writes: the type checker refuses a trigger that cannot merge.
    sessions = (
        keyed.window(EventTimeSessionWindows.with_gap(millis(1)))
        .trigger(DeltaTrigger.of(1, lambda a, b: 0))  # type: ignore[arg-type]
        .reduce(keep_first)
    )
    with pytest.raises(PlanError) as caught:
        StreamHarness(global_windows.union(sessions))
    first, second = caught.value.faults
    assert "GlobalWindows is not in event time and knows no lateness" in first.message
    assert "DeltaTrigger(1) cannot merge" in second.message
    assert "test_errors.py:" in first.where


def test_parts_are_set_once() -> None:
    windows = from_source(PushSource(Event)).key_by(key_of).window(TUMBLING)
    with pytest.raises(InvalidArgumentError, match="the evictor of a window is set twice"):
        windows.evictor(CountEvictor.of(1)).evictor(CountEvictor.of(2))
    with pytest.raises(InvalidArgumentError, match="the trigger of a window is set twice"):
        windows.trigger(CountTrigger.of(1)).trigger(CountTrigger.of(2))
    with pytest.raises(InvalidArgumentError, match="the allowed lateness of a window is set twice"):
        windows.allowed_lateness(millis(1)).allowed_lateness(millis(1))
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        windows.allowed_lateness(millis(-1))


def end_at_bad(event: Event) -> int:
    if event.value == BAD.value:
        raise StopIteration("no more")
    return event.at


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map(end_at_bad, name="step"),
        lambda s: s.filter(end_at_bad, name="step"),
        lambda s: s.flat_map(lambda e: [end_at_bad(e)], name="step"),
    ],
    ids=["map", "filter", "flat_map"],
)
def test_a_stop_iteration_is_an_error_and_not_the_end_of_the_elements(
    build: Callable[[DataStream[Event]], DataStream[object]],
) -> None:
    source = PushSource(Event)
    stopped = pytest.raises(UserFunctionError, match="StopIteration")
    with StreamHarness(build(from_source(source)), source) as harness, stopped as caught:
        harness.process_element(BAD, 1)
    assert caught.value.given == f"element {BAD!r}"
    assert ".step, " in str(caught.value.where)


class Opened(RichFunction):
    """Fails like any function, and notes whether it was closed."""

    def __init__(self) -> None:
        self.life: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.life.append(f"open {runtime_context.step_name}")
        runtime_context.metrics.counter("opened").inc()

    def close(self) -> None:
        self.life.append("close")

    def __call__(self, event: Event) -> float:
        return invert(event)


def exit_always(*given: object) -> list[float]:
    sys.exit(3)


def test_a_function_that_exits_has_failed() -> None:
    source = PushSource(Event)
    for stream in (
        from_source(source).flat_map(exit_always),
        from_source(source)
        .key_by(key_of)
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(1))
        .apply(exit_always),
    ):
        with (
            StreamHarness(stream, source) as harness,
            pytest.raises(UserFunctionError, match="a function of the step raised SystemExit: 3") as caught,
        ):
            harness.process_element(BAD, timestamp=1)
        assert isinstance(caught.value.__cause__, SystemExit)


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda event: event.value, "a function that gives several results returns a list of them, or yields them"),
        (lambda event: list(event.value), "the original error is the cause, with its traceback"),
    ],
    ids=["one result", "an error of the function"],
)
def test_one_result_instead_of_several_has_a_hint(function: Callable[[Event], list[int]], hint: str) -> None:
    source = PushSource(Event)
    with (
        StreamHarness(from_source(source).flat_map(function), source) as harness,
        pytest.raises(UserFunctionError, match="'int' object is not iterable") as caught,
    ):
        harness.process_element(BAD)
    assert caught.value.hint == hint


class Asking(KeyedProcessFunction[str, Event, object]):
    def __init__(self, name: str) -> None:
        self.name = name

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> list[object]:
        return [getattr(value if self.name == "of_the_element" else context, self.name)]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("getCurrentKey", "write key, a property, for getCurrentKey()"),
        ("current_key", "write key, a property, for current_key()"),
        ("timerService", "write timer_service, a property, for timerService()"),
        ("getState", "write get_state(...) in place of getState"),
        ("nothing_like_it", "the original error is the cause, with its traceback"),
        ("of_the_element", "the original error is the cause, with its traceback"),
    ],
)
def test_a_name_of_flinks_contexts_has_a_hint(name: str, hint: str) -> None:
    source = PushSource(Event)
    stream = from_source(source).key_by(key_of).process(Asking(name))
    with (
        StreamHarness(stream, source) as harness,
        pytest.raises(UserFunctionError, match=f"has no attribute '{name}'") as caught,
    ):
        harness.process_element(BAD)
    assert caught.value.hint == hint


class OfEach(ProcessFunction[Event, object]):
    def __init__(self, ask: Callable[[Any], object]) -> None:
        self.ask = ask

    def process_element(self, value: Event, context: ProcessContext) -> list[object]:
        return [self.ask(context)]


class OfKey(KeyedProcessFunction[str, Event, object]):
    def __init__(self, ask: Callable[[Any], object]) -> None:
        self.ask = ask

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> list[object]:
        return [self.ask(context)]


class OfWindow(ProcessWindowFunction[Event, object, Any, Any]):
    def __init__(self, ask: Callable[[Any], object]) -> None:
        self.ask = ask

    def process(self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Event]) -> list[object]:
        return [self.ask(context)]


AT_THE_END = GlobalWindows.create_with_end_of_stream_trigger()
ASKED: dict[type[Any], Callable[[DataStream[Event], Callable[[Any], object]], DataStream[object]]] = {
    OfEach: lambda stream, ask: stream.process(OfEach(ask)),
    OfKey: lambda stream, ask: stream.key_by(key_of).process(OfKey(ask)),
    OfWindow: lambda stream, ask: stream.key_by(key_of).window(AT_THE_END).process(OfWindow(ask)),
}
WITHOUT_KEY = "a stream without keys has no {}: use key_by(...) and a KeyedProcessFunction"
FIRST_ARGUMENT = "the key of a window is the first argument of process; a window of window_all has none"
PROPERTY = "write {0}, a property, for {0}()"
CAUSE = "the original error is the cause, with its traceback"


@pytest.mark.parametrize(
    ("kind", "ask", "hint"),
    [
        (OfEach, lambda context: context.key, WITHOUT_KEY.format("key")),
        (OfEach, lambda context: context.get_current_key(), WITHOUT_KEY.format("get_current_key")),
        (OfEach, lambda context: context.get_state(None), WITHOUT_KEY.format("get_state")),
        (OfEach, lambda context: context.nothing, CAUSE),
        (OfEach, lambda context: context.timestamp(), PROPERTY.format("timestamp")),
        (OfEach, lambda context: context.timer_service.current_watermark(), PROPERTY.format("current_watermark")),
        (OfKey, lambda context: context.timestamp(), PROPERTY.format("timestamp")),
        (OfKey, lambda context: context.key() + "!", PROPERTY.format("key")),
        (OfKey, lambda context: context.timer_service.current_watermark(), PROPERTY.format("current_watermark")),
        (OfKey, lambda context: (context.output, context.key)[1](), CAUSE),
        (OfKey, lambda context: Event("a", 1, 0).key(), CAUSE),  # type: ignore[operator]  # that is what is tested
        (OfWindow, lambda context: context.key, FIRST_ARGUMENT),
        (OfWindow, lambda context: context.window(), PROPERTY.format("window")),
    ],
    ids=map(str, range(13)),
)
def test_what_a_context_lacks_and_what_is_no_method_has_a_hint(
    kind: type[Any], ask: Callable[[Any], object], hint: str
) -> None:
    sink = CollectSink[object]()
    elements = from_collection([BAD], Event)
    with pytest.raises(UserFunctionError) as caught:
        LocalRunner().run(Pipeline("p", ASKED[kind](elements, ask).sink_to(sink)))
    assert caught.value.hint == hint


def test_a_function_is_closed_also_when_it_failed() -> None:
    source = PushSource(Event)
    function = Opened()
    harness = StreamHarness(from_source(source).map(function, name="inverse"), source, isolates_functions=False)
    with pytest.raises(UserFunctionError), harness:
        harness.process_element(BAD)
    assert function.life == ["open inverse", "close"]
    assert harness.counter("opened") == 1


class Silent(Trigger[Event, TimeWindow]):
    """A trigger that forgets its answer, which a type checker would show."""

    def on_element(self, element: Event, timestamp: int, window: TimeWindow, context: TriggerContext) -> Any:
        return None


def test_an_answer_that_is_no_trigger_result_is_named() -> None:
    source = PushSource(Event)
    windows = from_source(source).key_by(lambda e: e.key).window(TumblingEventTimeWindows.of(millis(5)))
    stream = windows.trigger(Silent()).reduce(lambda a, b: b)
    with (
        StreamHarness(stream, source) as harness,
        pytest.raises(InvalidArgumentError, match=r"answers with a TriggerResult\n +given: +None\n +expected: CONT"),
    ):
        harness.process_element(Event("a", 1, 0), timestamp=1)


class Uncomparable:
    """A key that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ([[1]] * 3, InvalidArgumentError, "cannot be hashed"),
        ([Uncomparable(), Uncomparable(), Uncomparable()], UserFunctionError, "not comparable"),
    ],
    ids=["unhashable", "uncomparable"],
)
def test_keys_of_sessions_that_fail_are_named(
    keys: list[Any], error: type[Exception], message: str, *, fast: bool
) -> None:
    given = iter(keys)
    sessions = (
        from_collection([Event("a", n, n) for n in range(3)])
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda e: e.value)
        .key_by(lambda e: next(given))
        .window(EventTimeSessionWindows.with_gap(millis(5)))
        .aggregate(agg.count())
    )
    with pytest.raises(error, match=message):
        LocalRunner(fast=fast).run(Pipeline("keys", sessions.sink_to(CollectSink[int]())))


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (ListStateDescriptor("n", int), r"given: +ListStateDescriptor\('n'\), and the state holds a int\n"),
        (MapStateDescriptor("n", str, int), r"given: +MapStateDescriptor\('n'\)"),
    ],
)
def test_state_of_another_kind_is_not_handed_out(descriptor: StateDescriptor, message: str) -> None:
    store = StateStore().at({})
    store.get_state(ValueStateDescriptor("n", int)).update(1)
    with pytest.raises(InvalidArgumentError, match=message):
        store.get_state(descriptor)
    store.get_state(ValueStateDescriptor("n", int)).clear()
    store.get_state(ListStateDescriptor("n", int)).add(1)
    with pytest.raises(InvalidArgumentError, match=r"\('n'\), and the state holds a GrowingList"):
        store.get_state(ValueStateDescriptor("n", int))
