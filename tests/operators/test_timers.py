"""Timers: unique, deletable, and taken in order of time, then of registration."""

from __future__ import annotations

import pickle
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.triggers import Trigger, TriggerContext, TriggerResult
from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import TimerQueue
from windrow_runtime.testing import TriggerHarness

# Any in this module: what a queue sorts.

Timer = tuple[str, int, int]  # key, namespace, time
timers = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(-5, 15))
operations = st.one_of(
    st.tuples(st.just("register"), timers),
    st.tuples(st.just("register"), timers),
    st.tuples(st.just("delete"), timers),
    st.tuples(st.just("pop"), st.tuples(st.just("a"), st.just(0), st.integers(-5, 20))),
    st.tuples(st.just("pickle"), timers),
    st.tuples(st.just("earliest"), timers),
)
Operation = tuple[Literal["register", "delete", "pop", "pickle", "earliest"], Timer]


@given(st.lists(operations, max_size=60))
def test_a_queue_is_a_list_sorted_by_time(steps: list[Operation]) -> None:
    queue = TimerQueue()
    model: list[Timer] = []
    for operation, (key, namespace, time) in steps:
        timer = (key, namespace, time)
        if operation == "register":
            queue.register(key, namespace, time)
            if timer not in model:
                model.append(timer)
        elif operation == "delete":
            queue.delete(key, namespace, time)
            if timer in model:
                model.remove(timer)
        elif operation == "pickle":
            queue = pickle.loads(pickle.dumps(queue))
        elif operation == "earliest":
            # Not after each operation: a queue that is asked often keeps its timers in another way.
            assert queue.earliest() == min((entry[2] for entry in model), default=None)
        else:
            due = sorted((entry for entry in model if entry[2] <= time), key=lambda entry: entry[2])
            expected = due[0] if due else None
            popped = queue.pop_due(time)
            assert (None if popped is None else (popped[1], popped[2], popped[0])) == expected
            if expected is not None:
                model.remove(expected)
        assert list(queue) == model
        assert len(queue) == len(model)
    assert queue.earliest() == min((entry[2] for entry in model), default=None)


def test_a_queue_of_deleted_timers_stays_small_and_right() -> None:
    queue = TimerQueue()
    for time in range(10_000):
        queue.register("a", None, time)
        if time % 100:
            queue.delete("a", None, time)
    assert [queue.pop_due(9_999) for _ in range(101)] == [*((time, "a", None) for time in range(0, 10_000, 100)), None]


calls = st.lists(st.tuples(st.sampled_from(["register", "delete"]), timers), max_size=8)


@given(st.lists(st.tuples(calls, st.booleans(), st.booleans()), max_size=20))
def test_a_call_that_fails_leaves_the_timers_as_they_were(
    steps: list[tuple[list[tuple[str, Timer]], bool, bool]],
) -> None:
    queue, other = TimerQueue(), TimerQueue()  # the other one has no call that fails
    for changes, fails, is_asked in steps:
        undo = []
        for name, (key, namespace, time) in changes:
            undo.append((key, namespace, time, queue.number(key, namespace, time)))
            for each in (queue,) if fails else (queue, other):
                getattr(each, name)(key, namespace, time)
        for timer in reversed(undo if fails else []):
            queue.put_back(*timer)
        mark = queue.mark()
        assert len(queue) == len(other)
        queue.register("c", None, 3)
        other.register("c", None, 3)
        assert set(queue.since(mark)) <= {("c", None, 3)}
        if is_asked:
            assert list(queue) == list(other)
    assert [queue.pop_due(9) for _ in range(len(queue))] == [other.pop_due(9) for _ in range(len(other))]
    assert list(pickle.loads(pickle.dumps(queue))) == list(other)


def test_calls_that_fail_do_not_sort_all_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts: list[int] = []

    def counted(items: Any, key: Any) -> list[Any]:
        sorts.append(len(items))
        return sorted(items, key=key)

    monkeypatch.setattr("windrow_runtime.operators.state.model.sorted", counted, raising=False)
    queue = TimerQueue([("a", None, time) for time in range(1_000)])
    for time in range(500):
        number = queue.number("a", None, time)
        queue.delete("a", None, time)
        queue.put_back("a", None, time, number)
        assert list(queue.since(queue.mark())) == []
    assert list(queue) == [("a", None, time) for time in range(1_000)]
    assert len(sorts) < 10


class Alarms(Trigger[int, TimeWindow]):
    """Sets a timer at each element's value, or deletes it where the value is set already."""

    def __init__(self, domain: str) -> None:
        self._event_time = domain == "event"
        self.rings: list[tuple[int, int]] = []

    def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        register, delete = (
            (context.register_event_time_timer, context.delete_event_time_timer)
            if self._event_time
            else (context.register_processing_time_timer, context.delete_processing_time_timer)
        )
        (register if element % 2 == 0 else delete)(element // 2)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        self.rings.append((time, context.current_watermark))
        if time % 5 == 0:
            # Set while others fire, and due at once if it is not later than the watermark.
            context.register_event_time_timer(time + 2)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        self.rings.append((time, context.current_processing_time))
        return TriggerResult.FIRE


@given(elements=st.lists(st.integers(0, 60), max_size=30), advances=st.lists(st.integers(0, 12), max_size=8))
def test_event_timers_fire_in_time_order_under_the_new_watermark(elements: list[int], advances: list[int]) -> None:
    trigger = Alarms("event")
    harness = TriggerHarness(trigger)
    waiting: set[int] = set()
    for element in elements:
        harness.process_element(element, 0, TimeWindow(0, 100))
        (waiting.add if element % 2 == 0 else waiting.discard)(element // 2)
    watermark = 0
    for advance in advances:
        watermark += advance
        trigger.rings.clear()
        answers = harness.process_watermark(watermark)
        expected: list[int] = []
        while due := sorted(time for time in waiting if time <= watermark):
            expected.append(due[0])
            waiting.remove(due[0])
            if due[0] % 5 == 0:
                waiting.add(due[0] + 2)
        assert trigger.rings == [(time, watermark) for time in expected]
        assert [answer.result for answer in answers] == [TriggerResult.FIRE] * len(expected)
        assert sorted(time for _, time in harness.event_timers) == sorted(waiting)


@given(elements=st.lists(st.integers(0, 60), max_size=30), advances=st.lists(st.integers(0, 12), max_size=8))
def test_processing_timers_fire_in_time_order(elements: list[int], advances: list[int]) -> None:
    trigger = Alarms("processing")
    harness = TriggerHarness(trigger)
    waiting: set[int] = set()
    for element in elements:
        harness.process_element(element, 0, TimeWindow(0, 100))
        (waiting.add if element % 2 == 0 else waiting.discard)(element // 2)
    clock = 0
    for advance in advances:
        clock += advance
        trigger.rings.clear()
        harness.set_processing_time(clock)
        due = sorted(time for time in waiting if time <= clock)
        waiting.difference_update(due)
        assert trigger.rings == [(time, clock) for time in due]
        assert harness.event_timers == []
