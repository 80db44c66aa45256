"""Errors say what was wrong, with which record, in which step and on which line of the user's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.operators.stories import collected
from tests.support.records import Event, key_of, millis
from windrow import DataStream, WatermarkStrategy, from_collection, from_source
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
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import CountTrigger, DeltaTrigger, Trigger, TriggerContext
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.operators.state.handles import StateStore
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: what type checkers refuse is refused at run time, too.

TUMBLING = TumblingEventTimeWindows.of(millis(10))
BAD = Event("a", 1, 0)
WINDOW = "window TimeWindow(start=0, end=10)"
CAUSE = "the original error is the cause, with its traceback"

SOURCE = PushSource(Event)
EVENTS = from_source(SOURCE)
KEYED = EVENTS.key_by(key_of)
WINDOWS = KEYED.window(TUMBLING)
ALL_TIME = KEYED.window(GlobalWindows.create())
IN_ORDER = WatermarkStrategy[Event].for_monotonous_timestamps()


def error_of(stream: DataStream[Any], *events: Event, timed: bool = True) -> WindrowError:
    """The error that comes of events, which are the bad one alone by default, or of the watermark behind them."""

    def feed() -> None:
        for event in events or (BAD,):
            harness.process_element(event, event.at if timed else None)
        harness.process_watermark(MAX_TIMESTAMP)

    with StreamHarness(stream, SOURCE) as harness, pytest.raises(WindrowError) as caught:
        feed()
    return caught.value


def place_of(step: str) -> str:
    return rf"harness\.\d+\.{step}, .*test_errors\.py:\d+"


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


Ask = Callable[[Any], object]


class OfEach(ProcessFunction[Event, object]):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def process_element(self, value: Event, context: ProcessContext) -> list[object]:
        return [self.ask(context)]


class OfKey(KeyedProcessFunction[str, Event, object]):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> list[object]:
        return [self.ask(context)]


class OfWindow(ProcessWindowFunction[Event, object, Any, Any]):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def process(self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Event]) -> list[object]:
        return [self.ask(context)]


def of_each(ask: Ask) -> DataStream[object]:
    return EVENTS.process(OfEach(ask))


def of_key(ask: Ask) -> DataStream[object]:
    return KEYED.process(OfKey(ask))


def of_window(ask: Ask) -> DataStream[object]:
    return KEYED.window(GlobalWindows.create_with_end_of_stream_trigger()).process(OfWindow(ask))


@pytest.mark.parametrize(
    ("stream", "step", "given"),
    [
        (EVENTS.map(invert, name="inverse"), "inverse", f"element {BAD!r}"),
        (EVENTS.map(invert), "map", f"element {BAD!r}"),
        (EVENTS.flat_map(lambda e: (1 / n for n in [e.value])), "flat_map", f"element {BAD!r}"),
        (EVENTS.filter(lambda e: 1 / e.value > 1), "filter", f"element {BAD!r}"),
        (EVENTS.key_by(invert).window(TUMBLING).reduce(keep_first), "key_by", f"element {BAD!r}"),
        (
            EVENTS.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), lambda e: 1 // e.value),
            "timestamps",
            f"element {BAD!r}",
        ),
        (WINDOWS.reduce(reduce_badly, name="sums"), "sums", f"key 'a', {WINDOW}, element {BAD!r}"),
        (WINDOWS.aggregate(AddBadly(), name="sums"), "sums", f"key 'a', {WINDOW}, element {BAD!r}"),
        (WINDOWS.apply(invert_all, name="inverses"), "inverses", f"key 'a', {WINDOW}"),
        (
            ALL_TIME.trigger(DeltaTrigger.of(0, lambda a, b: 1 / b.value))
            .evictor(CountEvictor.of(9))
            .reduce(keep_first, name="far"),
            "far",
            f"key 'a', window GlobalWindow(), element {BAD!r}",
        ),
    ],
)
def test_a_function_that_raises_is_named_with_step_line_and_record(
    stream: DataStream[object], step: str, given: str
) -> None:
    error = error_of(stream, Event("a", 0, 1), BAD)
    assert isinstance(error, UserFunctionError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.message == f"a function of the step raised ZeroDivisionError: {error.__cause__}"
    assert error.given == given
    assert re.fullmatch(place_of(step), str(error.where))
    assert str(error).splitlines() == [
        error.message,
        f"  given:    {given}",
        f"  where:    {error.where}",
        f"  hint:     {CAUSE}",
    ]


class NamesNoPlace(ProcessWindowFunction[Event, int, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]) -> list[int]:
        raise InvalidArgumentError("not this one", given=key)


def test_an_error_of_windrow_keeps_its_type_and_learns_its_place() -> None:
    error = error_of(WINDOWS.process(NamesNoPlace(), name="picky"))
    assert type(error) is InvalidArgumentError
    assert error.message == "not this one"
    line = NamesNoPlace.process.__code__.co_firstlineno + 1
    assert re.fullmatch(rf"{place_of('picky')}, by the call at .*test_errors\.py:{line}", str(error.where))
    assert "\n  given:    'a'\n  where:    harness." in str(error) or "given:    a" in str(error)


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
    events = from_collection([BAD]).assign_timestamps_and_watermarks(IN_ORDER, lambda event: event.at)
    sums = events.key_by(key_of).window(windows).aggregate(RefuseZero(), name="sums")
    with pytest.raises(InvalidArgumentError, match="no sum of zeros") as caught:
        collected(sums, fast=fast)
    assert str(caught.value.where).startswith("plan.4.sums, ")


def test_a_wrong_call_of_a_context_is_shown_with_its_line() -> None:
    def ask(context: Any) -> object:
        return context.timer_service.register_event_time_timer(1.5)

    error = error_of(of_key(ask))
    assert isinstance(error, InvalidArgumentError)
    assert "the time of a timer" in error.message
    assert str(error.where).endswith(f"test_errors.py:{ask.__code__.co_firstlineno + 1}")


def test_a_place_that_is_known_stays() -> None:
    error = WindrowError("wrong", given=3, expected="4", hint="add one")
    assert str(error) == "wrong\n  given:    3\n  expected: 4\n  hint:     add one"
    assert error.at("step 1") is error
    assert error.at("step 2") is error
    assert str(error) == "wrong\n  given:    3\n  expected: 4\n  where:    step 1\n  hint:     add one"


def test_a_missing_timestamp_says_how_to_assign_one() -> None:
    error = error_of(WINDOWS.reduce(keep_first, name="latest"), timed=False)
    assert isinstance(error, MissingTimestampError)
    assert str(error).splitlines() == [
        "an element without a timestamp reached an event-time window",
        f"  given:    {BAD!r}",
        "  expected: a timestamp on every element",
        f"  where:    {error.where}",
        "  hint:     assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
    ]
    assert re.fullmatch(place_of("latest"), str(error.where))


@pytest.mark.parametrize(
    ("timestamp", "message"),
    [
        (None, "an element has no timestamp"),
        (1.5, "a timestamp has the wrong type"),
        (2**63, "a timestamp is out of range"),
    ],
)
def test_a_timestamp_function_must_give_timestamps(timestamp: Any, message: str) -> None:
    stream = EVENTS.assign_timestamps_and_watermarks(IN_ORDER, timestamp=lambda event: timestamp, name="stamps")
    error = error_of(stream, timed=False)
    assert isinstance(error, InvalidArgumentError)
    assert message in error.message
    assert "stamps, " in str(error.where)
    assert repr(BAD) in str(error)


def count_windows(context: Any) -> None:
    context.window_state.get_state(ValueStateDescriptor[int]("count")).update(1)


class Silent(Trigger[Event, TimeWindow]):
    """A trigger that forgets its answer, which a type checker would show."""

    def on_element(self, element: Event, timestamp: int, window: TimeWindow, context: TriggerContext) -> Any:
        return None


@pytest.mark.parametrize(
    ("stream", "kind", "message", "where"),
    [
        (
            KEYED.window(EventTimeSessionWindows.with_gap(millis(5))).process(OfWindow(count_windows), name="counts"),
            UnsupportedOperationError,
            r"merging windows have no per-window state(.|\n)*global_state",
            "counts, ",
        ),
        (
            KEYED.window(EventTimeSessionWindows.with_dynamic_gap(lambda event: millis(event.value))).reduce(
                keep_first, name="sessions"
            ),
            InvalidArgumentError,
            r"the gap of a session window must be positive\n",
            "sessions, ",
        ),
        (
            WINDOWS.trigger(Silent()).reduce(keep_first, name="silent"),
            InvalidArgumentError,
            r".*answers with a TriggerResult\n +given: +None\n +expected: CONT",
            "silent, ",
        ),
    ],
    ids=["state of merging windows", "a gap of nothing", "no trigger result"],
)
def test_what_windows_refuse(stream: DataStream[Any], kind: type[WindrowError], message: str, where: str) -> None:
    error = error_of(stream)
    assert isinstance(error, kind)
    assert re.match(message, str(error))
    assert where in str(error.where)


def test_lateness_and_triggers_that_do_not_fit_are_refused_together() -> None:
    unmerged: Any = DeltaTrigger.of(1, lambda a, b: 0)
    sessions = KEYED.window(EventTimeSessionWindows.with_gap(millis(1))).trigger(unmerged).reduce(keep_first)
    late = ALL_TIME.trigger(CountTrigger.of(1)).allowed_lateness(millis(1)).reduce(keep_first)
    with pytest.raises(PlanError) as caught:
        StreamHarness(late.union(sessions))
    first, second = caught.value.faults
    assert "GlobalWindows is not in event time and knows no lateness" in first.message
    assert "DeltaTrigger(1) cannot merge" in second.message
    assert "test_errors.py:" in first.where


def end_at_bad(event: Event) -> Any:
    raise StopIteration("no more")


def exit_always(*given: object) -> Any:
    sys.exit(3)


@pytest.mark.parametrize(
    ("stream", "step"),
    [
        (EVENTS.map(end_at_bad), "map"),
        (EVENTS.filter(end_at_bad), "filter"),
        (EVENTS.flat_map(lambda e: [end_at_bad(e)]), "flat_map"),
    ],
    ids=["map", "filter", "flat_map"],
)
def test_a_stop_iteration_is_an_error_and_not_the_end_of_the_elements(stream: DataStream[Any], step: str) -> None:
    error = error_of(stream)
    assert isinstance(error, UserFunctionError)
    assert "StopIteration" in error.message
    assert error.given == f"element {BAD!r}"
    assert f".{step}, " in str(error.where)


@pytest.mark.parametrize(
    "stream",
    [EVENTS.flat_map(exit_always), ALL_TIME.trigger(CountTrigger.of(1)).apply(exit_always)],
    ids=["flat_map", "window"],
)
def test_a_function_that_exits_has_failed(stream: DataStream[Any]) -> None:
    error = error_of(stream)
    assert isinstance(error, UserFunctionError)
    assert error.message == "a function of the step raised SystemExit: 3"
    assert isinstance(error.__cause__, SystemExit)


WITHOUT_KEY = "a stream without keys has no {0}: use key_by(...) and a KeyedProcessFunction"
FIRST_ARGUMENT = "the key of a window is the first argument of process; a window of window_all has none"
PROPERTY = "write {0}, a property, for {0}()"
SEVERAL = "a function that gives several results returns a list of them, or yields them"
Build = Callable[[Ask], DataStream[object]]


@pytest.mark.parametrize(
    ("build", "name", "hint"),
    [
        # Names of Flink's contexts.
        (of_key, "getCurrentKey", "write key, a property, for {0}()"),
        (of_key, "current_key", "write key, a property, for {0}()"),
        (of_key, "timerService", "write timer_service, a property, for {0}()"),
        (of_key, "getState", "write get_state(...) in place of {0}"),
        (of_key, "nothing_like_it", CAUSE),
        (of_each, "key", WITHOUT_KEY),
        (of_each, "get_current_key", WITHOUT_KEY),
        (of_each, "get_state", WITHOUT_KEY),
        (of_each, "nothing", CAUSE),
        (of_window, "key", FIRST_ARGUMENT),
    ],
)
def test_what_a_context_lacks_has_a_hint(build: Build, name: str, hint: str) -> None:
    error = error_of(build(lambda context: getattr(context, name)))
    assert isinstance(error, UserFunctionError)
    assert f"has no attribute '{name}'" in error.message
    assert error.hint == hint.format(name)


def watermark(context: Any) -> object:
    return context.timer_service.current_watermark()


BROKEN: Any = BAD


@pytest.mark.parametrize(
    ("stream", "message", "hint"),
    [
        (EVENTS.flat_map(lambda event: BROKEN.value), "'int' object is not iterable", SEVERAL),
        (EVENTS.flat_map(lambda event: list(BROKEN.value)), "'int' object is not iterable", CAUSE),
        (EVENTS.map(lambda event: BROKEN.of_the_element), "has no attribute 'of_the_element'", CAUSE),
        (of_each(lambda context: context.timestamp()), "is not callable", PROPERTY.format("timestamp")),
        (of_each(watermark), "is not callable", PROPERTY.format("current_watermark")),
        (of_key(lambda context: context.timestamp()), "is not callable", PROPERTY.format("timestamp")),
        (of_key(lambda context: context.key() + "!"), "is not callable", PROPERTY.format("key")),
        (of_key(watermark), "is not callable", PROPERTY.format("current_watermark")),
        (of_key(lambda context: (context.output, context.key)[1]()), "is not callable", CAUSE),
        (of_key(lambda context: BROKEN.key()), "is not callable", CAUSE),
        (of_window(lambda context: context.window()), "is not callable", PROPERTY.format("window")),
    ],
    ids=range(11),
)
def test_what_is_no_method_and_no_list_has_a_hint(stream: DataStream[Any], message: str, hint: str) -> None:
    error = error_of(stream)
    assert isinstance(error, UserFunctionError)
    assert message in error.message
    assert error.hint == hint


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


def test_a_function_is_closed_also_when_it_failed() -> None:
    function = Opened()
    harness = StreamHarness(EVENTS.map(function, name="inverse"), SOURCE, isolates_functions=False)
    with pytest.raises(UserFunctionError), harness:
        harness.process_element(BAD)
    assert function.life == ["open inverse", "close"]
    assert harness.counter("opened") == 1


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
        .assign_timestamps_and_watermarks(IN_ORDER, timestamp=lambda e: e.value)
        .key_by(lambda e: next(given))
        .window(EventTimeSessionWindows.with_gap(millis(5)))
        .aggregate(agg.count())
    )
    with pytest.raises(error, match=message):
        collected(sessions, fast=fast)


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
