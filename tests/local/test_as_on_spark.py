"""The interpreter and the harness refuse what Spark refuses, and keep nothing on functions that Spark drops."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.support.records import Highest, add, millis
from tests.waiting_trigger import WaitingTrigger
from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import UnsupportedOperationError
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ProcessContext,
    ProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger, TriggerContext, TriggerResult
from windrow.windows import (
    AssignerContext,
    GlobalWindow,
    GlobalWindows,
    TimeWindow,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.local.parcel import Parcel
from windrow_runtime.testing import PushSource, StreamHarness


def run(stream: Any) -> list[Any]:
    results: list[Any] = stream.collect()
    return results


def pushed(stream: Any, *elements: int, **options: Any) -> StreamHarness[int, Any]:
    """A harness into which elements were pushed."""
    harness = StreamHarness[int, Any](stream, **options)
    for element in elements:
        harness.process_element(element)
    return harness


NUMBERS = from_source(PushSource[int]())
KEYED = NUMBERS.key_by(lambda n: 0)
THREE = from_source(CollectionSource([1, 2, 3], int, batch_size=1))  # a batch each
UNDECLARED_TIMER = r"a timer in processing time waits for the clock, and nothing in the plan says so"


user = threading.Lock()  # has the name of a field


class Visit(NamedTuple):
    user: int


def test_a_variable_of_the_module_with_the_name_of_an_attribute_is_not_sent() -> None:
    assert from_collection([Visit(1)], Visit).map(lambda visit: visit.user + 1).collect() == [2]


def test_functions_that_hold_locks_are_refused() -> None:
    lock = threading.Lock()

    def locked(value: int) -> int:
        with lock:
            return value

    class Locked(MapFunction[int, int]):
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def map(self, value: int) -> int:
            return value

    numbers: Any = from_collection([1])
    pushed_numbers: Any = NUMBERS
    calling = lambda n: locked(n) + 1  # noqa: E731  as it is passed to map
    for function, path in ((locked, "`lock`"), (Locked(), "`self.lock`"), (calling, "`locked` -> `lock`")):
        message = rf"cannot be sent to Spark's workers\n +given: +{path}, a _thread.lock"
        with pytest.raises(UnsupportedOperationError, match=message):
            run(numbers.map(function))
        with pytest.raises(UnsupportedOperationError, match=message):
            StreamHarness(pushed_numbers.map(function))


class Opened(MapFunction[int, int]):
    """Makes in ``open`` what cannot be sent."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.lock = threading.Lock()
        self.seen = runtime_context.metrics.counter("seen")

    def map(self, value: int) -> int:
        with self.lock:
            self.seen.inc()
            return value


def test_what_open_makes_stays() -> None:
    harness = pushed(NUMBERS.map(Opened()), 1, 2)
    assert (harness.take_values(), harness.counter("seen")) == ([1, 2], 2)


def test_a_run_leaves_nothing_on_functions_that_calls_set_or_workers_cannot_be_sent() -> None:
    counting, opened = Counting(), Opened()
    for _ in range(2):
        assert from_collection([1, 2]).map(opened).key_by(lambda _: 0).process(counting).collect() == [(1, 1), (2, 2)]
        assert (counting.count, counting.seen) == (0, [])
        assert "lock" not in vars(opened)


class Counting(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Counts on itself, which is no state."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[int] = []

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterator[tuple[int, int]]:
        self.count += 1
        self.seen.append(value)
        yield self.count, len(self.seen)


class CountingInSlots(KeyedProcessFunction[int, int, tuple[int, int, bool]]):
    """Counts in slots, one of which is empty at first."""

    __slots__ = ("count", "last", "seen")

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[int] = []

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterator[tuple[int, int, bool]]:
        had_last = hasattr(self, "last")
        self.count += 1
        self.last = value
        self.seen.append(value)
        yield self.count, len(self.seen), had_last


class CountingAll(ProcessFunction[int, int]):
    """Counts on itself without keys."""

    count = 0

    def process_element(self, value: int, context: ProcessContext) -> Iterator[int]:
        self.count += 1
        yield self.count


def test_what_calls_leave_on_functions_is_gone_at_the_next_batch_and_key() -> None:
    assert run(from_collection([1, 2]).key_by(lambda n: n).process(Counting())) == [(1, 1), (1, 1)]
    batches = from_source(CollectionSource([1, 2], int, batch_size=1))
    assert run(batches.key_by(lambda n: 0).process(Counting())) == [(1, 1), (1, 1)]
    assert run(batches.key_by(lambda n: 0).process(CountingInSlots())) == [(1, 1, False)] * 2
    assert run(batches.process(CountingAll())) == [1, 1]
    assert pushed(KEYED.process(Counting()), 1, 2).take_values() == [(1, 1), (1, 1)]


class Undeclared(KeyedProcessFunction[int, int, int]):
    """Sets a timer in processing time, and does not say so."""

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> None:
        context.timer_service.register_processing_time_timer(1)

    def on_timer(self, timestamp: int, context: OnTimerContext[int]) -> Iterable[int]:
        return [timestamp]


class Declared(Undeclared):
    """Says so."""

    uses_processing_time = True


def test_timers_of_the_clock_are_declared() -> None:
    with pytest.raises(UnsupportedOperationError, match=UNDECLARED_TIMER) as caught:
        run(from_collection([1]).key_by(lambda n: n).process(Undeclared()))
    assert "expected: a class that says uses_processing_time = True" in str(caught.value)
    with pytest.raises(UnsupportedOperationError, match=UNDECLARED_TIMER):
        pushed(KEYED.process(Undeclared()), 1)
    harness = pushed(KEYED.process(Declared()), 1)
    harness.set_processing_time(1)
    assert harness.take_values() == [1]


class _EqualsNothing:
    """Has a comparison that fails, as an array of numbers has."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value is ambiguous")

    __hash__ = None  # type: ignore[assignment]  # as an array


@pytest.mark.parametrize("value", [_EqualsNothing(), "an empty cell"])
def test_values_around_functions_are_not_compared(value: object) -> None:
    def kept() -> object:
        return value

    copy = Parcel(kept).unpack()
    assert type(copy()) is type(value)


def test_variables_without_a_value_stay_so() -> None:
    def kept() -> object:
        return later

    copy = Parcel(kept).unpack()
    with pytest.raises(NameError):
        copy()
    later = 1
    assert kept() == later


class UndeclaredTrigger(WaitingTrigger[int]):
    """Sets a timer of the clock, and does not say so."""

    def on_element(self, element: int, timestamp: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        context.register_processing_time_timer(1)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE


class DeclaredTrigger(UndeclaredTrigger):
    """Says so."""

    uses_processing_time = True


@pytest.mark.parametrize("explains", [True, False])
def test_timers_of_the_clock_that_triggers_set_are_declared(explains: bool) -> None:
    windows = KEYED.window(GlobalWindows.create())
    with pytest.raises(UnsupportedOperationError, match=UNDECLARED_TIMER):
        pushed(windows.trigger(UndeclaredTrigger()).reduce(add), 1, explains=explains)
    harness = pushed(windows.trigger(DeclaredTrigger()).reduce(add), 1, explains=explains)
    harness.set_processing_time(1)
    assert harness.take_values() == [1]


class ByPartial(KeyedProcessFunction[int, int, int]):
    """Reads state whose descriptor a partial holds."""

    def __init__(self, read: Any) -> None:
        self.read = read

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterator[int]:
        state = self.read(context)
        state.update((state.value() or 0) + value)
        yield state.value()


def read_state(descriptor: ValueStateDescriptor[int], context: KeyedProcessContext[int]) -> Any:
    return context.get_state(descriptor)


def read_named(context: KeyedProcessContext[int], descriptor: ValueStateDescriptor[int]) -> Any:
    return context.get_state(descriptor)


def test_state_that_expires_is_found_in_the_arguments_of_partial() -> None:
    state = ValueStateDescriptor("sum", int, ttl=StateTtlConfig(timedelta(minutes=1)))
    for read in (
        partial(read_state, state),
        partial(read_named, descriptor=state),
        partial(partial(read_state), state),
    ):
        assert pushed(KEYED.process(ByPartial(read)), 2, 3).take_values() == [2, 5]


def test_functions_share_no_variables_with_the_program() -> None:
    seen: list[int] = []
    called = lambda n: seen.append(n) or len(seen)  # type: ignore[func-returns-value]  # noqa: E731  as passed to map
    sink = CollectSink[int]()
    pipeline = Pipeline("p", from_collection([1, 2]).map(called).sink_to(sink))
    assert LocalRunner(isolates_functions=True).run(pipeline).collected(sink) == [1, 2]
    assert pushed(NUMBERS.map(called), 3).take_values() == [1]
    assert not seen
    LocalRunner().run(pipeline)
    assert seen == [1, 2]
    pushed(NUMBERS.map(called), 3, isolates_functions=False)
    assert seen == [1, 2, 3]


class CountingTrigger(WaitingTrigger[int]):
    """Fires at each second element, by a count on itself, which is no state."""

    def __init__(self) -> None:
        self.count = 0

    def on_element(self, element: int, timestamp: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        self.count += 1
        return TriggerResult.FIRE if self.count == 2 else TriggerResult.CONTINUE


class Growing(AggregateFunction[int, list[int], list[int]]):
    """Remembers on itself what it has seen."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        self.seen.append(value)
        return list(self.seen)

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


class Adding(ReduceFunction[int]):
    """Adds how often it was called to each sum."""

    calls = 0

    def reduce(self, a: int, b: int) -> int:
        self.calls += 1
        return a + b + 100 * self.calls


class Shifting(WindowAssigner[int, TimeWindow]):
    """Assigns each element to a window of its own, by a count on itself."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def is_event_time(self) -> bool:
        return True

    def assign_windows(self, element: int, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        self.count += 1
        return [TimeWindow(10 * self.count, 10 * self.count + 10)]

    def default_trigger(self) -> Trigger[object, TimeWindow]:
        return EventTimeTrigger.create()


def elements_of_two_batches() -> Any:
    return from_source(CollectionSource([(0, 1), (0, 2)], batch_size=1)).map(lambda pair: pair[1])


def windows_of_all_time(stream: Any, trigger: Any) -> Any:
    return stream.key_by(lambda n: 0).window(GlobalWindows.create()).trigger(trigger)


def test_what_calls_leave_on_parts_of_windows_is_gone_at_the_next_batch_and_key() -> None:
    batches = elements_of_two_batches()
    # Each batch counts one element.
    for trigger in (CountingTrigger(), PurgingTrigger.of(CountingTrigger())):
        assert run(windows_of_all_time(batches, trigger).apply(lambda k, w, e: [list(e)])) == []
    assert run(windows_of_all_time(batches, CountTrigger.of(2)).aggregate(Growing())) == [[2]]
    combined = agg.combine(agg.count(), Growing())
    assert run(windows_of_all_time(batches, CountTrigger.of(2)).aggregate(combined)) == [(2, [2])]
    keys = from_collection([1, 2, 3])
    tumbling = windows_of_all_time(keys, CountTrigger.of(1))
    assert run(tumbling.aggregate(Growing())) == [[1], [1, 2], [1, 2, 3]]
    by_key = keys.key_by(lambda n: n).window(GlobalWindows.create()).trigger(CountTrigger.of(1))
    assert run(by_key.aggregate(Growing())) == [[1], [2], [3]]
    # Each batch adds a hundred once, and not twice in the last.
    assert run(windows_of_all_time(THREE, CountTrigger.of(3)).reduce(Adding())) == [206]
    stamped = batches.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), timestamp=lambda n: n)
    assert run(stamped.key_by(lambda n: 0).window(Shifting()).aggregate(agg.count())) == [2]


class Sharing(KeyedProcessFunction[int, int, tuple[bool, bool, int]]):
    """Two attributes share an object, and one is the function itself."""

    def __init__(self) -> None:
        self.one: list[int] = []
        self.other, self.itself = self.one, [self]

    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterator[tuple[bool, bool, int]]:
        self.one.append(value)
        yield self.one is self.other, self.itself[0] is self, len(self.other)


class Windowed:
    """A callable object for ``apply``."""

    calls = 0

    def __call__(self, key: int, window: GlobalWindow, elements: Iterable[int]) -> list[int]:
        self.calls += 1
        return [self.calls]


class Late(TumblingProcessingTimeWindows):
    """Windows of a user's own class, with a shift that the first element sets."""


def test_attributes_go_on_sharing_what_they_share() -> None:
    assert run(THREE.key_by(lambda n: 0).process(Sharing())) == [(True, True, 1)] * 3


def test_objects_within_steps_are_renewed() -> None:
    windows = windows_of_all_time(THREE, CountTrigger.of(1))
    for function in (Windowed(), partial(Windowed()), Windowed().__call__):
        assert run(windows.apply(function)) == [1, 1, 1]


def test_staggered_windows_of_a_users_class_keep_their_shift() -> None:
    source = PushSource[int]()
    late = Late(millis(100), millis(0), WindowStagger.NATURAL)
    stream = from_source(source).key_by(lambda n: n).window(late).apply(lambda k, w, e: [w.start % 100])
    with StreamHarness(stream, source) as harness:
        for now in (30, 175, 290):
            harness.set_processing_time(now)
            harness.process_element(now)
        harness.set_processing_time(1_000)
        assert set(harness.take_values()) == {30}


class HighestOfSeen(Highest):
    """Has a count that another function writes."""

    seen = 0


class CountingOther(ProcessWindowFunction[int, tuple[int, int], int, GlobalWindow]):
    """Counts on the aggregate function of its window."""

    def __init__(self, other: HighestOfSeen) -> None:
        self.other = other

    def process(
        self, key: int, context: ProcessWindowContext[GlobalWindow], elements: Iterable[int]
    ) -> Iterator[tuple[int, int]]:
        self.other.seen += 1
        yield from ((element, self.other.seen) for element in elements)


def test_what_one_function_leaves_on_another_is_gone() -> None:
    function = HighestOfSeen()
    windows = windows_of_all_time(THREE, PurgingTrigger.of(CountTrigger.of(1)))
    assert run(windows.aggregate(function, CountingOther(function))) == [(1, 1), (2, 1), (3, 1)]


class _RefusesComparison:
    """Has a hash, and a comparison that fails."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        raise ValueError("not compared")


def test_keys_are_not_compared_to_renew_functions() -> None:
    keyed: Any = from_collection([1, 2]).key_by(_RefusesComparison)
    assert run(keyed.process(Counting())) == [(1, 1), (1, 1)]
