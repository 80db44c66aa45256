"""Every fast form gives what the general operator gives, whatever the input and wherever it is cut."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.operators.stories import WithWindow, collected
from tests.support.records import millis
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.builder.windowed import MergingWindowedStream, WindowedStream
from windrow.errors import UserFunctionError
from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.plan import WindowNode
from windrow.sinks import CollectSink
from windrow.state import ReducingStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.windows import (
    EventTimeSessionWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.topology import Port, Topology
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_runtime.operators.windows.table_loop import TableOperator
from windrow_runtime.testing import PushSource

Element = tuple[str, int]
# Any: the stages differ in their windows; all that is asked of them here is a result.
Windows = WindowedStream[Element, str, Any] | MergingWindowedStream[Element, str, Any]

late = OutputTag("late", tuple[str, int])


class Values(AggregateFunction[Element, tuple[int, ...], str]):
    """Shows every element and the order in which they were added."""

    def create_accumulator(self) -> tuple[int, ...]:
        return ()

    def add(self, value: Element, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        return (*accumulator, value[1])

    def get_result(self, accumulator: tuple[int, ...]) -> str:
        return ",".join(map(str, sorted(accumulator)))

    def merge(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return a + b


# Any: assigners of several kinds of elements.
assigners: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda size, offset: TumblingEventTimeWindows.of(millis(size), millis(offset % size)),
        st.integers(1, 20),
        st.integers(0, 20),
    ),
    st.builds(
        lambda size, slide, offset: SlidingEventTimeWindows.of(millis(size), millis(slide), millis(offset % slide)),
        st.integers(1, 20),
        st.integers(1, 20),
        st.integers(0, 20),
    ),
    st.builds(lambda gap: EventTimeSessionWindows.with_gap(millis(gap)), st.integers(1, 12)),
    st.builds(
        lambda gap: EventTimeSessionWindows.with_dynamic_gap(lambda element: millis(1 + element[1] % gap)),
        st.integers(1, 12),
    ),
)
elements = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-60, 60), st.integers(0, 999)), min_size=0, max_size=12
)
# A batch: how far the watermark advances before it, its elements, and whether a snapshot is taken behind it.
batches = st.lists(st.tuples(st.integers(0, 25), elements, st.booleans()), max_size=8)


@examples(40)
@given(
    assigner=assigners,
    lateness=st.integers(0, 15),
    function=st.sampled_from(["reduce", "aggregate", "process"]),
    stream=batches,
    by_key=st.booleans(),
)
# Elements of one key side by side, the second of which joins two sessions.
@example(
    assigner=EventTimeSessionWindows.with_gap(millis(5)),
    lateness=0,
    function="aggregate",
    stream=[
        (0, [("a", 0, 1)], False),
        (0, [("a", 10, 2)], False),
        (0, [("a", time, time) for time in (8, 5, 8, 8, 8)], False),
    ],
    by_key=True,
)
def test_fast_forms_equal_the_general_operator(
    # Any: one of several kinds of windows.
    assigner: Any,
    lateness: int,
    function: str,
    stream: list[tuple[int, list[tuple[str, int, int]], bool]],
    by_key: bool,
) -> None:
    if by_key:
        stream = [(advance, sorted(batch, key=itemgetter(0)), cut) for advance, batch, cut in stream]
    source = PushSource[Element]()
    windows: Windows = (
        from_source(source)
        .key_by(lambda element: element[0])
        .window(assigner)
        .allowed_lateness(millis(lateness))
        .side_output_late_data(late)
    )
    if function == "reduce":
        results = windows.reduce(lambda a, b: (a[0], a[1] * 3 + b[1]), WithWindow())
    elif function == "aggregate":
        results = windows.aggregate(Values(), WithWindow())
    else:
        results = windows.process(WithWindow())
    pipeline = Pipeline("fast", results.sink_to(CollectSink()), results.get_side_output(late).sink_to(CollectSink()))
    fast = run(pipeline, stream, fast=True)
    general = run(pipeline, stream, fast=False)
    assert fast == general
    assert run(pipeline, stream, fast=True, alternate=True) == general


def run(
    pipeline: Pipeline,
    stream: list[tuple[int, list[tuple[str, int, int]], bool]],
    *,
    fast: bool,
    alternate: bool = False,
) -> list[tuple[str, Counter[str]]]:
    """What each sink took in each round, and which timers and windows were left.

    With ``alternate`` the form changes at each snapshot.
    """
    topology = Topology(pipeline.steps)
    execution = Execution(topology, fast=fast)
    (step,) = topology.keyed
    expected = WindowOperator if not fast else (TableOperator, SessionLoopOperator, WindowOperator)
    assert isinstance(execution.operators[step.id], expected)
    port = Port(topology.sources[0].id)
    node = step.node
    assert isinstance(node, WindowNode)
    is_session = isinstance(node.assigner, MergingWindowAssigner)
    seen: list[tuple[str, Counter[str]]] = []
    watermark = -50
    rounds: list[tuple[int, list[tuple[str, int, int]], bool]] = [*stream, (0, [], False)]
    for number, (advance, batch, cut) in enumerate(rounds):
        watermark = MAX_TIMESTAMP if number == len(stream) else watermark + advance
        chunk = StampedElements([(key, value) for key, _, value in batch], [timestamp for _, timestamp, _ in batch])
        execution.round({port: chunk} if batch else {}, watermark=watermark)
        for identifier in sorted(execution.sinks):
            taken = execution.sinks[identifier]
            records = list(map(repr, zip(taken.values, taken.timestamps, strict=True)))
            seen.append((identifier, Counter(records)))
            if is_session:
                # Both forms emit sessions in order of time, and those of a key in one order; tables of windows emit key
                # after key.
                by_key = sorted(zip(taken.values, records, strict=True), key=lambda pair: str(pair[0][0]))
                order = [taken.timestamps, [record for _, record in by_key]]
                seen.append((f"order of {identifier}", Counter([repr(order)])))
        execution.sinks.clear()
        operator = execution.operators[step.id]
        seen.append((f"timers after {number}", Counter(map(repr, operator.pending_event_timers()))))
        seen.append((f"windows after {number}", Counter(map(repr, operator.open_windows()))))
        if cut:
            snapshot = execution.snapshot()
            fast = fast != alternate
            execution = Execution(topology, fast=fast)
            execution.restore(snapshot)
            for operator in execution.operators.values():
                operator.current_watermark = watermark
    return seen


def test_windows_beyond_the_end_of_time_fire_in_the_order_of_the_general_operator() -> None:
    # What count windows emit has the highest timestamp, and is in three windows that end behind it.
    stream = (
        from_collection([("a", 1), ("a", 2)])
        .key_by(lambda element: element[0])
        .count_window(1)
        .reduce(lambda a, b: b)
        .key_by(lambda element: element[0])
        .window(SlidingEventTimeWindows.of(millis(15), millis(5)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]), WithWindow())
    )
    fast = collected(stream)
    assert fast == collected(stream, fast=False)
    assert [contents for _, _, contents in fast] == [(("a", 3),)] * 3


class Refusing(Values):
    """An aggregate that refuses one value."""

    def add(self, value: Element, accumulator: Any) -> Any:
        if value[1] == 13:
            raise ValueError("thirteen")
        return super().add(value, accumulator)


def test_a_session_is_named_as_it_was_when_its_function_failed() -> None:
    # key a:  1 ---- 4 ---- [13] ---- 20     gap 5; the element behind the one that fails does not count
    stream: list[tuple[int, list[tuple[str, int, int]], bool]] = [
        (0, [("a", 1, 0), ("a", 4, 1), ("a", 6, 13), ("a", 8, 2)], False)
    ]
    source = PushSource[Element]()
    windows = from_source(source).key_by(lambda e: e[0]).window(EventTimeSessionWindows.with_gap(millis(5)))
    results = windows.aggregate(Refusing(), WithWindow())
    pipeline = Pipeline("refusing", results.sink_to(CollectSink()))
    texts: list[str] = []
    for fast in (True, False):
        with pytest.raises(UserFunctionError) as caught:
            run(pipeline, stream, fast=fast)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "TimeWindow(start=1, end=11)" in texts[0]


class Cleaned(ProcessWindowFunction[int, tuple[int, int], int, TimeWindow]):
    """Shows how many windows of the key were cleaned up before each firing."""

    def __init__(self) -> None:
        self._cleaned = ReducingStateDescriptor[int]("cleaned", operator.add)

    def process(
        self, key: int, context: ProcessWindowContext[TimeWindow], elements: Sequence[int]
    ) -> Iterable[tuple[int, int]]:
        return [(context.window.end, context.global_state.get_state(self._cleaned).get() or 0)]

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None:
        context.global_state.get_state(self._cleaned).add(1)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("assigner", "lateness", "elements", "expected"),
    [
        # The later window has elements first, so that its end was set before the clean-up of the earlier one.
        (TumblingEventTimeWindows.of(millis(10)), 10, [16, 7], [(10, 0), (20, 0)]),
        (TumblingEventTimeWindows.of(millis(10)), 10, [7, 16], [(10, 0), (20, 1)]),
        (SlidingEventTimeWindows.of(millis(20), millis(10)), 10, [15], [(20, 0), (30, 0)]),
        (EventTimeSessionWindows.with_gap(millis(10)), 12, [5, 17], [(15, 0), (27, 1)]),
        # A session that begins earlier is another window, whose clean-up is set anew.
        (EventTimeSessionWindows.with_gap(millis(10)), 12, [5, 17, 4], [(15, 0), (27, 0)]),
    ],
)
def test_clean_ups_and_ends_of_one_time_come_in_the_order_in_which_they_were_set(
    assigner: WindowAssigner[Any, TimeWindow],
    lateness: int,
    elements: list[int],
    expected: list[tuple[int, int]],
    fast: bool,
) -> None:
    stream = from_collection(elements).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks(), timestamp=lambda at: at
    )
    windows = stream.key_by(lambda at: 0).window(assigner).allowed_lateness(millis(lateness))
    assert windows.reduce(operator.add, Cleaned()).collect(LocalRunner(fast=fast)) == expected
