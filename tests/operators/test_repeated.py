"""Steps that leave out what repeats, and functions with a state by key, against sets and dicts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, PlanError
from windrow.functions import RichFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.state import StateTtlConfig
from windrow.time import TimeDomain
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource, StreamHarness

Event = tuple[str, str, int]
"""A key, a value, and a time in milliseconds."""

WITHIN = 10
CLOCK, EVENT_TIME = TimeDomain.PROCESSING_TIME, TimeDomain.EVENT_TIME


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)


Step = Callable[[KeyedStream[Event, str], TimeDomain], DataStream[Event]]
events = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 60))
moves = st.integers(0, 60).map(lambda time: ("time", time))


def distinct(keyed: KeyedStream[Event, str], by: TimeDomain) -> DataStream[Event]:
    return keyed.distinct(lambda event: event[1], within=millis(WITHIN), by=by)


def first(keyed: KeyedStream[Event, str], by: TimeDomain) -> DataStream[Event]:
    return keyed.first(within=millis(WITHIN), by=by)


def seen_of(step: Step, event: Event) -> tuple[str, ...]:
    return event[:2] if step is distinct else event[:1]


@pytest.mark.parametrize("by", [EVENT_TIME, CLOCK])
@pytest.mark.parametrize("step", [distinct, first])
@given(st.data())
def test_an_element_passes_if_none_of_its_value_passed_within_the_time(
    step: Step, by: TimeDomain, data: st.DataObject
) -> None:
    source = PushSource[Event](Event)
    with StreamHarness(step(from_source(source).key_by(lambda event: event[0]), by), source) as harness:
        harness.set_processing_time(0)
        time, passed = 0, dict[tuple[str, ...], int]()
        for each in data.draw(st.lists(events | moves, max_size=40)):
            if len(each) == 2:
                time = max(time, each[1])
                if by is CLOCK:
                    harness.set_processing_time(time)
                else:
                    harness.process_watermark(time)
                continue
            at = time if by is CLOCK else max(time, each[2])
            identity = seen_of(step, each)
            expected = identity not in passed or at >= passed[identity] + WITHIN
            if expected:
                passed[identity] = at
            harness.process_element(each, timestamp=each[2])
            assert harness.take_values() == ([each] if expected else [])
            harness.snapshot_restore()


@pytest.mark.parametrize("by", [EVENT_TIME, CLOCK])
@pytest.mark.parametrize("step", [distinct, first])
def test_state_is_gone_when_its_time_is(step: Step, by: TimeDomain) -> None:
    source = PushSource[Event](Event)
    with StreamHarness(step(from_source(source).key_by(lambda event: event[0]), by), source) as harness:
        harness.set_processing_time(0)
        for number in range(20):
            harness.process_element((f"key {number}", "x", 0), timestamp=0)
        (operator,) = harness._execution.operators.values()
        assert len(operator.state.keys) == 20
        harness.set_processing_time(WITHIN)
        harness.process_watermark(WITHIN)
        assert not operator.state.keys


def keyed() -> KeyedStream[Event, str]:
    elements: list[Event] = [("a", "x", 1), ("b", "x", 2), ("a", "y", 3), ("a", "x", 4), ("a", "x", 30), ("a", "x", 31)]
    stamped = from_collection(elements).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda event: event[2]
    )
    return stamped.key_by(lambda event: event[0])


def test_they_run_as_users_run_them() -> None:
    assert [event[2] for event in distinct(keyed(), EVENT_TIME).collect()] == [1, 2, 3, 30]
    assert [event[2] for event in first(keyed(), EVENT_TIME).collect()] == [1, 2, 30]
    assert [event[2] for event in distinct(keyed(), CLOCK).collect()][:3] == [1, 2, 3]
    assert len(keyed().distinct(within=millis(WITHIN)).collect()) == 6
    text = Pipeline("distinct", distinct(keyed(), EVENT_TIME).sink_to(CollectSink())).explain()
    assert "distinct within 10 ms of event time" in text


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, 0, 1, 2]))))
def test_what_is_equal_to_the_value_before_is_left_out(pairs: list[tuple[str, int | None]]) -> None:
    expected: list[tuple[str, int | None]] = []
    before: dict[str, int | None] = {}
    for pair in pairs:
        if pair[0] not in before or before[pair[0]] != pair[1]:
            expected.append(pair)
        before[pair[0]] = pair[1]
    changed = from_collection(pairs, element_type=tuple[str, int | None]).key_by(lambda pair: pair[0])
    assert changed.on_change(lambda pair: pair[1]).collect() == expected


def mean(so_far: list[int], event: Event) -> tuple[list[int] | None, float]:
    so_far.append(event[2])
    return (None if event[1] == "z" else so_far), sum(so_far) / len(so_far)


def as_often(count: int, event: Event) -> tuple[int, list[str]]:
    return count + 1, [event[1]] * count


def test_a_state_by_key_goes_from_call_to_call() -> None:
    elements: list[Event] = [("a", "x", 2), ("b", "x", 5), ("a", "z", 4), ("a", "x", 9), ("b", "y", 1)]
    stream = from_collection(elements).key_by(lambda event: event[0])
    assert stream.stateful_map(list[int], mean).collect() == [2.0, 5.0, 3.0, 9.0, 3.0]
    assert stream.stateful_flat_map(int, as_often).collect() == ["z", "x", "x", "y"]
    plan = Pipeline("means", stream.stateful_map(list[int], mean).sink_to(CollectSink()))
    assert "stateful map mean" in plan.explain()
    assert ": float" in plan.explain()


def test_a_state_lives_as_long_as_it_is_told() -> None:
    source = PushSource[Event](Event)
    hour = StateTtlConfig(millis(WITHIN))
    stream = from_source(source).key_by(lambda event: event[0]).stateful_map(list[int], mean, ttl=hour)
    with StreamHarness(stream, source) as harness:
        harness.set_processing_time(0)
        harness.process_element(("a", "x", 2))
        harness.set_processing_time(WITHIN - 1)
        harness.process_element(("a", "x", 4))
        harness.set_processing_time(2 * WITHIN - 1)
        harness.process_element(("a", "x", 7))
        assert harness.take_values() == [2.0, 3.0, 7.0]


batched = st.tuples(st.sampled_from("ab"), st.integers(0, 9))


@given(st.integers(1, 4), st.lists(batched | st.integers(1, 20), max_size=40))
def test_lists_come_out_full_or_when_their_first_element_has_waited(size: int, story: list[Any]) -> None:
    source = PushSource[tuple[str, int]]()
    keyed = from_source(source).key_by(lambda element: element[0])
    waiting: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    time, lists = 0, list[list[tuple[str, int]]]()
    with StreamHarness(keyed.group_into_batches(size, timeout=millis(WITHIN)), source) as harness:
        harness.set_processing_time(0)
        for each in story:
            if isinstance(each, int):
                time += each
                harness.set_processing_time(time)
                lists += [waiting.pop(key)[1] for key in sorted(waiting) if waiting[key][0] + WITHIN <= time]
            else:
                harness.process_element(each)
                _, held = waiting.setdefault(each[0], (time, []))
                held.append(each)
                if len(held) == size:
                    lists.append(waiting.pop(each[0])[1])
            assert sorted(harness.take_values()) == sorted(lists)
            lists.clear()


def test_lists_that_are_not_full_come_out_at_the_end_of_the_stream() -> None:
    lists = keyed().group_into_batches(2, timeout=timedelta(hours=1)).collect()
    assert sorted(len(each) for each in lists) == [1, 1, 2, 2]
    assert from_collection([1]).key_by(lambda number: number).group_into_batches(3).element_type == list[int]


def test_a_plan_does_not_say_that_lists_are_dropped_at_the_end_of_the_stream() -> None:
    lists = keyed().group_into_batches(2, timeout=timedelta(hours=1))
    shown = Pipeline("p", lists.sink_to(CollectSink[list[Event]]())).explain()
    assert "as_one_list" in shown
    assert "are dropped" not in shown


def test_what_is_no_pair_is_told() -> None:
    count: Any = lambda count, event: count + 1  # noqa: E731  the case
    with pytest.raises(InvalidArgumentError, match="returns the new state and what it makes"):
        keyed().stateful_map(int, count).collect()


REFUSED: dict[str, Callable[[], object]] = {
    "within must be positive": lambda: keyed().distinct(within=timedelta(0)),
    "processing time or in event time": lambda: keyed().first(within=millis(1), by="clock"),  # type: ignore[arg-type]
    "distinct": lambda: keyed().distinct("id", within=millis(1)),  # type: ignore[arg-type]  # the case
    "on_change": lambda: keyed().on_change(None),  # type: ignore[arg-type]  # the case
    "stateful_map": lambda: keyed().stateful_map(0, as_often),  # type: ignore[arg-type]  # the case
    "stateful_flat_map": lambda: keyed().stateful_flat_map(int, None),  # type: ignore[arg-type]  # the case
    "the size of a batch": lambda: keyed().group_into_batches(0),
    "the timeout of a trigger": lambda: keyed().group_into_batches(1, timeout=timedelta(0)),
    "how long a state lives": lambda: keyed().stateful_map(int, as_often, ttl=millis(1)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("why", REFUSED)
def test_it_is_refused(why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why) as caught:
        REFUSED[why]()
    assert "test_repeated.py" in str(caught.value)


def test_event_time_needs_timestamps() -> None:
    stream = from_collection(["a"]).key_by(lambda text: text).distinct(within=millis(1))
    with pytest.raises(PlanError, match="timestamps"):
        LocalRunner().run(Pipeline("distinct", stream.sink_to(CollectSink())))


class Third(RichFunction):
    """Takes the third value of an event, once it was opened."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.factor = 1

    def __call__(self, event: Event) -> int:
        return event[2] * self.factor


@pytest.mark.parametrize("call", ["sum", "min", "max", "min_by", "max_by", "on_change"])
def test_selectors_are_opened(call: str) -> None:
    keyed = from_collection([("a", "x", 1), ("a", "y", 3)]).key_by(lambda event: event[0])
    assert getattr(keyed, call)(Third()).collect() == getattr(keyed, call)(lambda event: event[2]).collect()


def test_values_without_a_hash_are_refused() -> None:
    within = timedelta(seconds=1)
    keyed = from_collection(["a b"]).key_by(len)
    with pytest.raises(InvalidArgumentError, match=r"those of type list\[str\] have none(.|\n)*use a tuple for a list"):
        keyed.distinct(lambda words: words.split(), within=within)  # type: ignore[arg-type, return-value]  # a mistake
    with pytest.raises(InvalidArgumentError, match=r"those of type list\[str\] have none"):
        from_collection(["a b"]).map(str.split).key_by(len).distinct(within=within)

    def opaque(words: str) -> Any:
        return eval("words.split()")

    untyped = keyed.distinct(opaque, within=within, by=CLOCK)
    with pytest.raises(InvalidArgumentError, match=r"distinct got a value that has no hash(.|\n)*give a tuple"):
        untyped.collect()
    assert keyed.distinct(opaque, within=within, by=CLOCK, on_error="drop").collect() == []
