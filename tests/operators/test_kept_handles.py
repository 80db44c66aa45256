"""A handle on state that a function keeps on ``self`` serves the key of each call, as in Flink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.aggregates import sum as sum_of
from windrow.errors import UnsupportedOperationError
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
    ReadOnlyContext,
    RuntimeContext,
    TimeDomain,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from windrow.triggers import Trigger, TriggerContext, TriggerResult
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource, StreamHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: handles on state of every kind.


class Visit(NamedTuple):
    user: str
    value: int
    time: int


VISITS = [Visit(user, value, value * 1_000) for value, user in enumerate("abcabcabbc", start=1)]
"""Ten visits of three users, who come in turn."""

HOUR = timedelta(hours=1)
EVENT_TTL = StateTtlConfig(HOUR, time_domain=TimeDomain.EVENT_TIME)

Use = Callable[[Any, int], Any]
"""Puts a number into state, and returns what the state has then."""


def update(state: Any, number: int) -> Any:
    state.update((state.value() or 0) + number)
    return state.value()


def append(state: Any, number: int) -> Any:
    state.add(number)
    return state.get()


def put(state: Any, number: int) -> Any:
    state.put(number, number)
    return list(state.items())


STATES: list[Any] = [
    pytest.param(make(ttl), use, id=f"{name}{'' if ttl is None else ' that expires'}")
    for ttl in (None, EVENT_TTL)
    for name, make, use in (
        ("value", lambda ttl: ValueStateDescriptor("state", int, ttl=ttl), update),
        ("list", lambda ttl: ListStateDescriptor("state", int, ttl=ttl), append),
        ("map", lambda ttl: MapStateDescriptor("state", int, int, ttl=ttl), put),
        ("sum", lambda ttl: ReducingStateDescriptor("state", add, ttl=ttl), append),
        ("aggregate", lambda ttl: AggregatingStateDescriptor("state", sum_of(lambda number: number), ttl=ttl), append),
    )
]


class AsksInEachCall(KeyedProcessFunction[str, Visit, Any]):
    """Asks for the handle in each call, which is the reference."""

    def __init__(self, descriptor: StateDescriptor, use: Use) -> None:
        self.descriptor = descriptor
        self.use = use

    def handle(self, context: Any) -> Any:
        return context.get_state(self.descriptor)

    def process_element(self, value: Visit, context: KeyedProcessContext[str]) -> Iterable[Any]:
        yield value.user, self.use(self.handle(context), value.value)


class AsksOnce(AsksInEachCall):
    """Asks for the handle in its first call."""

    def __init__(self, descriptor: StateDescriptor, use: Use) -> None:
        super().__init__(descriptor, use)
        self.kept: Any = None

    def handle(self, context: Any) -> Any:
        if self.kept is None:
            self.kept = context.get_state(self.descriptor)
        return self.kept


class AsksInOpen(AsksInEachCall):
    """Asks for the handle in ``open``, as functions of Flink do."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept: Any = runtime_context.get_state(self.descriptor)  # type: ignore[call-overload]  # of every kind

    def handle(self, context: Any) -> Any:
        return self.kept


def visits(size: int | None) -> DataStream[Visit]:
    strategy = WatermarkStrategy[Visit].for_bounded_out_of_orderness(timedelta(0))
    stream = from_source(CollectionSource(VISITS) if size is None else CollectionSource(VISITS, batch_size=size))
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda visit: visit.time)


def results(runner: Any, function: Any, size: int | None = 3) -> list[Any]:
    return results_of_all(runner, [function], size)[0]


def results_of_all(runner: Any, functions: Sequence[Any], size: int | None = 3) -> list[list[Any]]:
    """Runs a pipeline in which each function gets all visits, and returns the results of each."""
    sinks = [CollectSink[Any]() for _ in functions]
    keyed = visits(size).key_by(lambda visit: visit.user)
    steps = [keyed.process(function).sink_to(sink) for function, sink in zip(functions, sinks, strict=True)]
    run = runner.run(Pipeline("visits", *steps))
    return [sorted(run.collected(sink), key=repr) for sink in sinks]


@pytest.mark.parametrize("keeps", [AsksOnce, AsksInOpen])
@pytest.mark.parametrize("isolates", [False, True])
@pytest.mark.parametrize(("descriptor", "use"), STATES)
def test_a_kept_handle_follows_the_key(
    descriptor: StateDescriptor, use: Use, isolates: bool, keeps: type[AsksInEachCall]
) -> None:
    expected = results(LocalRunner(), AsksInEachCall(descriptor, use))
    assert len(expected) == 10
    assert results(LocalRunner(isolates_functions=isolates), keeps(descriptor, use)) == expected


@pytest.mark.spark
def test_a_kept_handle_follows_the_key_on_spark(spark: SparkSession) -> None:
    from windrow_runtime.spark import SparkRunner

    cases = [(keeps, *STATES[number].values) for keeps in (AsksOnce, AsksInOpen) for number in (0, 7)]
    expected = results_of_all(LocalRunner(), [AsksInEachCall(descriptor, use) for _, descriptor, use in cases])
    # The interpreter runs the same objects before: what open made does not keep them from being sent.
    functions = [keeps(descriptor, use) for keeps, descriptor, use in cases]
    assert results_of_all(LocalRunner(), functions) == expected
    assert results_of_all(SparkRunner(spark), functions) == expected


class Deadlines(KeyedProcessFunction[str, Visit, tuple[str, int]]):
    """Keeps a handle in ``open``, and reads it in timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int))

    def process_element(self, value: Visit, context: KeyedProcessContext[str]) -> None:
        self.total.update((self.total.value() or 0) + value.value)
        context.timer_service.register_event_time_timer(60_000)

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, int]]:
        yield context.key, self.total.value() or 0
        self.total.clear()


def test_timers_see_the_state_of_their_key() -> None:
    totals = {user: sum(visit.value for visit in VISITS if visit.user == user) for user in "abc"}
    assert results(LocalRunner(), Deadlines()) == sorted(totals.items())


class InWindows(ProcessWindowFunction[Visit, Any, str, TimeWindow]):
    """Asks for handles on the state of the key and of the window in each call, or keeps those of its first call."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps
        self.handles: Any = None

    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Visit]) -> Iterable[Any]:
        if self.handles is None or not self.keeps:
            fired = context.global_state.get_state(ValueStateDescriptor("fired", int))
            self.handles = fired, context.window_state.get_state(ListStateDescriptor("seen", int))
        fired, seen = self.handles
        seen.add(len(elements))
        yield key, context.window.start, update(fired, 1), seen.get()


class EachElement(Trigger[Visit, TimeWindow]):
    """Fires at each element, and counts the elements of a window by a handle that it keeps."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps
        self.count: Any = None

    def on_element(self, element: Visit, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        count = context.get_state(ValueStateDescriptor("count", int)) if self.count is None else self.count
        if self.keeps:
            self.count = count
        return TriggerResult.FIRE if update(count, 1) % 2 else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        context.get_state(ValueStateDescriptor("count", int)).clear()


def fired(function: InWindows, isolates: bool) -> list[Any]:
    sink = CollectSink[Any]()
    windows = visits(None).key_by(lambda visit: visit.user).window(TumblingEventTimeWindows.of(timedelta(seconds=4)))
    stream = windows.trigger(EachElement(function.keeps)).process(function)
    runner = LocalRunner(isolates_functions=isolates)
    return sorted(runner.run(Pipeline("visits", stream.sink_to(sink))).collected(sink), key=repr)


@pytest.mark.parametrize("isolates", [False, True])
def test_handles_that_windows_and_triggers_keep_follow_the_window(isolates: bool) -> None:
    expected = fired(InWindows(keeps=False), isolates)
    assert len({start for _, start, _, _ in expected}) == 3
    assert fired(InWindows(keeps=True), isolates) == expected


LIMITS = MapStateDescriptor("limits", str, int)


class KeepsRules(KeyedBroadcastProcessFunction[str, Visit, tuple[str, int], Any]):
    """Keeps handles on broadcast state and on the state of a key."""

    def __init__(self) -> None:
        self.limits: Any = None
        self.last: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", int))

    def process_element(self, value: Visit, context: ReadOnlyContext[str]) -> Iterable[Any]:
        if self.limits is None:
            self.limits = context.get_broadcast_state(LIMITS)
        yield value.user, self.limits.get(value.user), self.last.value()
        self.last.update(value.value)

    def process_broadcast_element(self, value: tuple[str, int], context: BroadcastContext[str, Any]) -> None:
        context.get_broadcast_state(LIMITS).put(*value)


def test_a_kept_handle_on_rules_sees_the_rules_of_now() -> None:
    source, rules = PushSource(Visit), PushSource(tuple[str, int])
    stream = from_source(source).key_by(lambda visit: visit.user).connect(from_source(rules).broadcast(LIMITS))
    with StreamHarness(stream.process(KeepsRules()), source, isolates_functions=False) as harness:
        harness.process_element(VISITS[0], 1)
        harness.process_element(("a", 7), 1, source=rules)
        harness.process_element(VISITS[1], 2)
        harness.process_element(VISITS[3], 3)
        assert harness.take_values() == [("a", None, None), ("b", None, None), ("a", 7, 1)]


class UsesInClose(AsksInOpen):
    def close(self) -> None:
        self.kept.clear()


def test_a_handle_is_refused_where_there_is_no_key() -> None:
    with pytest.raises(
        UnsupportedOperationError, match=r"where there is no key(.|\n)*the state 'state'(.|\n)*open.. and close"
    ):
        results(LocalRunner(), UsesInClose(*STATES[0].values))


class UsesInOpen(AsksInOpen):
    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self.use(self.kept, 1)


@pytest.mark.parametrize(("descriptor", "use"), STATES)
def test_a_handle_that_has_served_no_key_yet_is_refused(descriptor: StateDescriptor, use: Use) -> None:
    with pytest.raises(UnsupportedOperationError, match="where there is no key"):
        results(LocalRunner(), UsesInOpen(descriptor, use))


class Stateless(MapFunction[Visit, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("total", int))

    def map(self, value: Visit) -> int:
        return value.value


class StatefulWindow(InWindows):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("total", int))


def test_open_has_state_of_keyed_process_functions_alone() -> None:
    with pytest.raises(
        UnsupportedOperationError, match=r"has no keyed state(.|\n)*KeyedProcessFunction(.|\n)*global_state"
    ):
        LocalRunner().run(Pipeline("visits", visits(None).map(Stateless()).sink_to(CollectSink[int]())))
    with pytest.raises(UnsupportedOperationError, match="has no keyed state"):
        fired(StatefulWindow(keeps=False), isolates=False)


def test_state_of_another_time_to_live_is_converted_for_each_key() -> None:
    lasting, expiring = ValueStateDescriptor("total", int), ValueStateDescriptor("total", int, ttl=EVENT_TTL)

    class Changes(KeyedProcessFunction[str, Visit, Any]):
        """Gives the state of a key a time to live with the second visit, by handles that it keeps."""

        def open(self, runtime_context: RuntimeContext) -> None:
            self.lasting = runtime_context.get_state(lasting)

        def process_element(self, value: Visit, context: KeyedProcessContext[str]) -> Iterable[Any]:
            state = self.lasting if value.value <= 3 else context.get_state(expiring)
            yield value.user, update(state, value.value)

    assert results(LocalRunner(), Changes()) == results(LocalRunner(), AsksOnce(lasting, update))
