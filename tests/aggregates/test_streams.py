"""Declared aggregates in windows: fast loops and general operator, sessions, evictors, lateness, state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.aggregates.naive import AGGREGATES, Row, close
from tests.aggregates.test_values import rows
from tests.budget import examples
from tests.dsl.plans import plan
from tests.support.records import millis
from windrow import Pipeline, from_source
from windrow.aggregates.combined import Combined
from windrow.evictors import CountEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.state import AggregatingStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import CountTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.topology import Port, Topology
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: results of every type.

ALL: Combined[Row, tuple[Any, ...], Any, object] = Combined(
    tuple([("", function) for function, _ in AGGREGATES.values()]), None
)

IN_ORDER = {
    *("min_by", "max_by", "top_k", "top_k with ties", "top_k reverse", "first", "last", "first of all", "combine"),
    *(name for name in AGGREGATES if name.startswith("collect_list")),
}
"""Those whose result depends on the order of the elements, which a merge of windows changes."""


def check(found: Sequence[Any], elements: Sequence[Row], *, in_order: bool = True) -> None:
    for (name, (_, naive)), value in zip(AGGREGATES.items(), found, strict=True):
        if in_order or name not in IN_ORDER:
            assert close(value, naive(elements)), (name, value, naive(elements))


class WithWindow(ProcessWindowFunction[Any, tuple[str, TimeWindow, Any], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Any]
    ) -> Iterable[tuple[str, TimeWindow, Any]]:
        yield key, context.window, list(elements)


# Any: assigners of several kinds.
assigners: st.SearchStrategy[Any] = st.one_of(
    st.integers(1, 20).map(lambda size: TumblingEventTimeWindows.of(millis(size))),
    st.tuples(st.integers(1, 20), st.integers(2, 20)).map(
        lambda sizes: SlidingEventTimeWindows.of(millis(sizes[0]), millis(sizes[1]))
    ),
    st.integers(1, 12).map(lambda gap: EventTimeSessionWindows.with_gap(millis(gap))),
)


@examples(30)
@given(
    assigner=assigners,
    lateness=st.sampled_from([0, 7]),
    stream=st.lists(st.tuples(st.integers(0, 15), rows, st.booleans()), max_size=4),
)
def test_windows_of_every_kind(assigner: Any, lateness: int, stream: list[tuple[int, list[Row], bool]]) -> None:
    windows = from_source(PushSource[Row]()).key_by(lambda row: row.key).window(assigner)
    windows = windows.allowed_lateness(millis(lateness))
    aggregated, listed = windows.aggregate(ALL, WithWindow()), windows.process(WithWindow())
    pipeline = plan(aggregated, listed)
    fast, general = run(pipeline, stream, fast=True), run(pipeline, stream, fast=False)
    assert repr(fast) == repr(general)
    results, contents = fast
    assert [found[:2] for found in results] == [found[:2] for found in contents]
    for (_, _, (values,)), (_, _, elements) in zip(results, contents, strict=True):
        check(values, elements, in_order=not isinstance(assigner, EventTimeSessionWindows))


def run(pipeline: Pipeline, stream: list[tuple[int, list[Row], bool]], *, fast: bool) -> list[list[Any]]:
    """What each of the two sinks took, after snapshots at random places."""
    topology = Topology(pipeline.steps)
    execution = Execution(topology, fast=fast)
    port = Port(topology.sources[0].id)
    taken: dict[str, list[Any]] = {step.id: [] for step in topology.sinks}
    watermark = 0
    for number, (advance, batch, cut) in enumerate([*stream, (0, [], False)]):
        watermark = MAX_TIMESTAMP if number == len(stream) else watermark + advance
        chunk = StampedElements(list(batch), [row.at for row in batch])
        execution.round({port: chunk} if batch else {}, watermark=watermark)
        for identifier, sink in execution.sinks.items():
            # Both steps fire the same windows, in the order of their time and, among these, of their keys.
            taken[identifier].extend(sorted(sink.values, key=lambda found: (found[1].end, found[1], found[0])))
        execution.sinks.clear()
        if cut:
            snapshot = execution.snapshot()
            execution = Execution(topology, fast=fast)
            execution.restore(snapshot)
            for operator in execution.operators.values():
                operator.current_watermark = watermark
    return list(taken.values())


@examples(20)
@given(every=st.integers(1, 4), kept=st.integers(0, 4), after=st.booleans(), elements=rows)
def test_what_evictors_leave(every: int, kept: int, after: bool, elements: list[Row]) -> None:
    source = PushSource(Row)
    keyed = from_source(source).key_by(lambda row: row.key)
    windows = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(every)).evictor(CountEvictor.of(kept, after))
    contents: dict[str, list[Row]] = {"a": [], "b": []}
    counts = {"a": 0, "b": 0}
    with StreamHarness(windows.aggregate(ALL), source) as harness:
        for row in elements:
            held = contents[row.key]
            held.append(row)
            counts[row.key] += 1
            harness.process_element(row, row.at)
            found = harness.take_values()
            assert len(found) == (counts[row.key] % every == 0)
            if found:
                left = held[max(len(held) - kept, 0) :]
                # Nothing may be left; the result is then that of nothing.
                check(found[0], held if after else left)
                contents[row.key] = left


class Rolling(KeyedProcessFunction[str, Row, tuple[Any, ...]]):
    """The results so far, in state."""

    so_far = AggregatingStateDescriptor("so-far", ALL)

    def process_element(self, value: Row, context: KeyedProcessContext[str]) -> Iterable[tuple[Any, ...]]:
        state = context.get_state(self.so_far)
        state.add(value)
        found = state.get()
        assert found is not None
        yield found


@examples(20)
@given(elements=rows)
def test_results_so_far(elements: list[Row]) -> None:
    source = PushSource(Row)
    with StreamHarness(from_source(source).key_by(lambda row: row.key).process(Rolling()), source) as harness:
        for number, row in enumerate(elements, start=1):
            harness.process_element(row, row.at)
            (found,) = harness.take_values()
            check(found, [seen for seen in elements[:number] if seen.key == row.key])


def test_of_sessions_that_merge_the_one_that_was_there_first_comes_first() -> None:
    # time:  0 . . . 4 . . . 8
    #        A       C       B     gap 5: C joins A and B, and goes to what they become
    source = PushSource(Row)
    names = list(AGGREGATES)
    keyed = from_source(source).key_by(lambda row: row.key)
    sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(5))).aggregate(ALL)
    for arrival in ((0, 8, 4), (8, 0, 4)):
        with StreamHarness(sessions, source) as harness:
            for at in arrival:
                harness.process_element(Row("a", at, 1.0, at, {0: "A", 8: "B", 4: "C"}[at]), at)
            harness.process_watermark(100)
            (found,) = harness.take_values()
            order = ["A", "B", "C"] if arrival[0] == 0 else ["B", "A", "C"]
            assert found[names.index("collect_list of")] == order
            assert found[names.index("first")].s == found[names.index("max_by")] == order[0]
            assert found[names.index("last")] == "C"
