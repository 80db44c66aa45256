"""Elements that cross the exchange as columns: steps of Python functions give what the general operator gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.columnar.engine import LATE, Element, Keyed, at, batches, by_key, millis, told
from tests.columnar.planning import row_form
from tests.counting import Count
from tests.spark.group_engine import run
from tests.spark.timed import timed
from windrow import DataStream, Pipeline, WindowedStream, from_source
from windrow.errors import UserFunctionError
from windrow.evictors import CountEvictor
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.state import ValueStateDescriptor
from windrow.triggers import CountTrigger, PurgingTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.rows.groups import stable_hashes
from windrow_spark.stable_hash import stable_hash
from windrow_spark.storage.tuning import OBJECT_PAGES, PageTuning, StateTuning

# Any in this module: results of every type.


class Texts(AggregateFunction[Element, tuple[str, ...], str]):
    """What elements say, in the order in which they come."""

    def create_accumulator(self) -> tuple[str, ...]:
        return ()

    def add(self, value: Element, accumulator: tuple[str, ...]) -> tuple[str, ...]:
        return (*accumulator, f"{value.number}{value.text}")

    def get_result(self, accumulator: tuple[str, ...]) -> str:
        return " ".join(accumulator)

    def merge(self, a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        return a + b


class WithWindow(ProcessWindowFunction[str, tuple[Any, ...], "str | None", TimeWindow]):
    """Adds the key and the window."""

    def process(
        self, key: str | None, context: ProcessWindowContext[TimeWindow], elements: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        yield key, context.window.start, context.window.end, *elements


LAST = ValueStateDescriptor("last", int)


class Steps(KeyedProcessFunction["str | None", Element, tuple[Any, ...]]):
    """How far each element is from the one before; says when a timer fires."""

    def process_element(self, value: Element, context: KeyedProcessContext[str | None]) -> Iterable[tuple[Any, ...]]:
        last = context.get_state(LAST)
        before = last.value()
        last.update(value.at)
        context.timer_service.register_event_time_timer(value.at + 50)
        yield context.key, value, context.timestamp, None if before is None else value.at - before

    def on_timer(self, timestamp: int, context: KeyedProcessContext[str | None]) -> Iterable[tuple[Any, ...]]:
        yield context.key, timestamp


def within(keyed: Keyed, size: int, offset: int = 0) -> WindowedStream[Element, str | None, TimeWindow]:
    return keyed.window(TumblingEventTimeWindows.of(millis(size), millis(offset)))


def texts(windows: Any) -> DataStream[Any]:
    """What the elements of each window say, with its key."""
    stream: DataStream[Any] = windows.aggregate(Texts(), WithWindow())
    return stream


class Stamps(KeyedProcessFunction["str | None", Element, Any]):
    """Says which timestamps elements have."""

    def process_element(self, value: Element, context: KeyedProcessContext[str | None]) -> list[Any]:
        return [(value.key, context.timestamp, value)]


PLANS: dict[str, Callable[[Keyed], DataStream[Any]]] = {
    "tumbling": lambda keyed: texts(within(keyed, 60, -7)),
    # Many elements of a task are partially aggregated before the exchange.
    "hourly": lambda keyed: texts(within(keyed, 3_600_000)),
    "reduced": lambda keyed: within(keyed, 500, 13).reduce(
        lambda a, b: Element(a.key, a.at, b.number, a.level, a.text + b.text)
    ),
    "tumbling_late": lambda keyed: texts(within(keyed, 60).allowed_lateness(millis(30)).side_output_late_data(LATE)),
    "sliding": lambda keyed: texts(keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30)))),
    "sessions_late": lambda keyed: texts(
        keyed.window(EventTimeSessionWindows.with_gap(millis(12)))
        .allowed_lateness(millis(20))
        .side_output_late_data(LATE)
    ),
    "all_elements": lambda keyed: within(keyed, 60).apply(lambda key, window, found: [(key, window.start, *found)]),
    "evicted": lambda keyed: (
        keyed.window(GlobalWindows.create())
        .trigger(CountTrigger.of(3))
        .evictor(CountEvictor.of(4))
        .apply(lambda key, window, elements: [(key, *elements)])
    ),
    "counted": lambda keyed: texts(within(keyed, 60).trigger(PurgingTrigger.of(CountTrigger.of(2)))),
    "process": lambda keyed: keyed.process(Steps()),
}

SMALL_PAGES = PageTuning(small=100, dense=200, least=25, inline_bytes=300, bytes_at_once=400, pages_in_record=4)


@pytest.mark.parametrize("pages", [OBJECT_PAGES, SMALL_PAGES], ids=["one page", "small pages"])
@pytest.mark.parametrize("name", PLANS)
def test_elements_in_columns_give_what_the_general_operator_gives(name: str, pages: PageTuning) -> None:
    late = name.endswith("late")
    inputs = [*batches(random.Random(7), 24), []]
    engine, wanted, dropped = run(
        PLANS[name], inputs, row_form, crash_at=2, late=late, tuning=StateTuning(object_pages=pages)
    )
    assert len(wanted[0]) > (20 if name == "hourly" else 100)
    assert engine.folded == (name in {"tumbling", "tumbling_late", "hourly"})
    assert by_key(engine.results) == by_key(wanted[0])
    if late:
        assert len(wanted[1]) > 5
        assert told(engine.late) == told(wanted[1])
    assert engine.counted["late_records_dropped"] == dropped


def test_timestamps_may_lie_anywhere() -> None:
    far = [[at(2**62), at(-(2**62), "l")], [at(5)]]
    engine, (expected,), _ = run(PLANS["process"], far, row_form)
    assert expected
    assert by_key(engine.results) == by_key(expected)


class Picky(Texts):
    """Refuses some elements."""

    def add(self, value: Element, accumulator: tuple[str, ...]) -> tuple[str, ...]:
        if value.text == "bad":
            raise ValueError("too bad")
        return super().add(value, accumulator)


def test_a_function_that_fails_in_front_of_the_exchange_is_told_with_key_window_and_element() -> None:
    good = [at(moment, key) for moment in range(100) for key in ("k", "l")]
    bad = [*good, *(at(moment, "m") for moment in range(200, 204)), at(205, "m")._replace(text="bad")]
    with pytest.raises(UserFunctionError, match="too bad") as caught:
        run(lambda keyed: within(keyed, 100).aggregate(Picky()), [bad], row_form, alone=True)
    assert caught.value.given == f"key 'm', window TimeWindow(start=200, end=300), element {bad[-1]!r}"
    assert "test_arrivals.py:" in str(caught.value.where)


class Opened(Texts):
    """Has to be opened where it runs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened = True


@pytest.mark.parametrize("function", [Opened(), Count()])
def test_what_cannot_be_folded_by_several_tasks_crosses_element_by_element(
    function: AggregateFunction[Element, Any, Any],
) -> None:
    inputs = [[at(moment) for moment in range(2_000)]]
    engine, (expected,), _ = run(lambda keyed: within(keyed, 1_000).aggregate(function), inputs, row_form)
    assert not engine.folded
    assert engine.results == expected
    assert len(expected) == 2


EDGES = st.sampled_from([-1, 0, -2, 2**61 - 2, 2**61 - 1, 2**61, 2**63 - 1, -(2**63), 1 - 2**61])
KEYS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "texts": (pa.string(), st.text()),
    "bytes": (pa.binary(), st.binary()),
    "numbers": (pa.int64(), EDGES | st.integers(-(2**63), 2**63 - 1)),
    "flags": (pa.bool_(), st.booleans()),
    "no keys": (pa.null(), st.none()),
}


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_keys_are_in_the_key_group_of_the_object(name: str, data: st.DataObject) -> None:
    arrow_type, values = KEYS[name]
    keys = data.draw(st.lists(st.none() | values, max_size=5))
    assert stable_hashes(pa.array(keys, arrow_type)).tolist() == list(map(stable_hash, keys))


@pytest.mark.parametrize("seed", [1, 2])
def test_elements_without_timestamps_have_none(seed: int) -> None:
    inputs = [*batches(random.Random(seed))]
    for build in (PLANS["evicted"], lambda keyed: keyed.process(Stamps())):
        engine, (expected,), _ = run(build, inputs, row_form, crash_at=seed, stamped=False)
        assert len(expected) > 100
        assert by_key(engine.results) == by_key(expected)


def test_some_elements_have_timestamps_and_some_have_none() -> None:
    first, second = (from_source(ParquetFileSource(name, Element)) for name in ("first", "second"))
    stream = timed(first).union(second).key_by(lambda e: e.key).process(Stamps())
    topology = Topology(Pipeline("plan", stream.sink_to(CollectSink())).steps)
    (step,) = topology.keyed
    form = row_form(topology, step)
    assert [route.is_stamped for route in form.routes] == [True, False]
    columns = [form.stamps_of(route, np.array([3, 4])).to_pylist() for route in form.routes]
    assert columns == [[3, 4], [None, None]]
