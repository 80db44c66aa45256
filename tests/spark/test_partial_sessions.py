"""Elements of sessions that are folded where they are read, against the general operator.

A task folds the elements of a key that make a session by themselves. Where one of the key may be behind the watermark,
all of them cross one by one, since what comes before such an element decides whether it is late::

    gap 10, watermark 50        elements of a task
    k    60  65    90           60..75, 90..100      two rows
    l    60  35  42             60, 35, 42           35 is late, unless another task has sent 30 before
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples, seeds
from tests.columnar.engine import LATE, Element, Keyed, Ran, at, by_key, millis, told
from tests.columnar.planning import column_form, row_form
from tests.spark.group_engine import run
from tests.spark.test_arrivals import SMALL_PAGES, Texts, WithWindow
from tests.spark.test_partials import Backwards, Nested, Nowhere, Numbers, Spoiling, Totals, operators_of, planned
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import CheckpointError, UserFunctionError
from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.state import ValueStateDescriptor
from windrow.windows import DynamicEventTimeSessionWindows, EventTimeSessionWindows, TimeWindow
from windrow.windows.spec import FARTHEST
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.windows.partials import Partials
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.route import ExchangeRows
from windrow_spark.columnar.forms.row_form import RowForm
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.windows.sessions import sessions_in_task
from windrow_spark.storage.tuning import OBJECT_PAGES, PageTuning, StateTuning

# Any in this module: accumulators and results of every type.
Build = Callable[[Keyed], DataStream[Any]]


def sessions(function: AggregateFunction[Element, Any, Any], gap: int, *, late: bool = False) -> Build:
    return aggregated(gap, function, WithWindow(), late=late)


def declared(gap: int, *, late: bool = False) -> Build:
    numbers: Any = agg.sum(lambda e: e.number), agg.min(lambda e: e.text), agg.mean(lambda e: e.level)
    return aggregated(
        gap, agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.count(), *numbers), late=late
    )


def aggregated(gap: int, *functions: Any, late: bool) -> Build:
    def build(keyed: Keyed) -> DataStream[Any]:
        windows: Any = keyed.window(EventTimeSessionWindows.with_gap(millis(gap)))
        stream: DataStream[Any] = (windows.side_output_late_data(LATE) if late else windows).aggregate(*functions)
        return stream

    return build


def bursts(chance: random.Random) -> Iterator[list[Element]]:
    """Batches in which few keys come often, in bursts, and some elements far behind; time begins before 1970."""
    for number in range(14):
        moment = -900 + 150 * number
        yield [
            at(
                moment + chance.choice([0, 30, 35, 90, 100]) + chance.randrange(12) - chance.choice([0] * 9 + [200]),
                chance.choice("klm"),
                chance.randrange(1000),
            )
            for _ in range(chance.choice([0, 2, 60, 300]))
        ]


def assert_equal(ran: Ran, *, late: bool = False) -> None:
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    if late:
        assert told(ran.engine.late) == told(ran.expected[1])
    assert ran.engine.counted["late_records_dropped"] == ran.dropped


FUNCTIONS: list[AggregateFunction[Element, Any, Any]] = [Totals(), Numbers(), Backwards(), Spoiling(), Nested()]


@pytest.mark.parametrize("late", [False, True], ids=["dropped", "late output"])
@pytest.mark.parametrize(
    ("build", "form", "number", "least_folded", "least_late"),
    [*((partial(sessions, function), row_form, 5, 3, 21) for function in FUNCTIONS), (declared, column_form, 8, 5, 31)],
    ids=[*(type(function).__name__ for function in FUNCTIONS), "declared"],
)
def test_functions_have_what_the_general_operator_gives_them(
    build: Callable[..., Build], form: Any, number: int, least_folded: int, least_late: int, late: bool
) -> None:
    folded = came_late = 0
    for seed in seeds(number):
        chance = random.Random(seed)
        gap = chance.choice([1, 3, 12, 40, 200])
        ran = run(build(gap, late=late), list(bursts(chance)), form, crash_at=seed % 5, late=late)
        assert_equal(ran, late=late)
        folded += ran.engine.folded
        came_late += ran.dropped + len(ran.engine.late)
    assert folded >= least_folded
    assert came_late >= least_late


def test_what_depends_on_the_order_of_elements_crosses_one_by_one() -> None:
    ran = run(sessions(Texts(), 30), list(bursts(random.Random(1))), row_form)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert not ran.engine.folded


def rows_of(form: ColumnarForm | RowForm, keys: str, stamps: list[int]) -> pa.RecordBatch:
    columns = [pa.array([1] * len(stamps)).cast(field.type) for field in list(form.raw_schema)[2:]]
    return pa.RecordBatch.from_arrays([pa.array(list(keys)), pa.array(stamps), *columns], schema=form.raw_schema)


def test_a_key_with_an_element_that_may_be_behind_crosses_one_by_one() -> None:
    #  watermark at most 50     k  60 62 64 66     two keys, gap 10
    #                           l  60 61 40 39
    for build, chosen in ((declared(10), column_form), (sessions(Numbers(), 10), row_form)):
        _, form = planned(build, chosen)
        rows = rows_of(form, "kkkkllll", [60, 62, 64, 66, 60, 61, 40, 39])
        crossing = [(kind, set(part.column(0).to_pylist())) for kind, part in form.exchange_rows(rows, 50)]
        folded = ExchangeRows.AGGREGATED if chosen is column_form else ExchangeRows.AGGREGABLE
        assert crossing == [(ExchangeRows.ELEMENTS, {"l"}), (folded, {"k"})]
        # 39 + 10 is the end, exclusive: at a watermark of 47 its window is still open.
        assert [kind for kind, _ in form.exchange_rows(rows, 47)] == [folded]
        assert [kind for kind, _ in form.exchange_rows(rows, 48)] == [ExchangeRows.ELEMENTS, folded]
        assert [kind for kind, _ in form.exchange_rows(rows, None)] == [ExchangeRows.ELEMENTS]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-50, 50)), max_size=30), st.integers(1, 20))
def test_pieces_are_the_sessions_of_elements_by_themselves(elements: list[tuple[str, int]], gap: int) -> None:
    keys = encode_keys(pa.array([key for key, _ in elements], pa.string()))
    pieces = sessions_in_task(keys, np.array([stamp for _, stamp in elements], np.int64), gap)
    found = {
        (keys.distinct[code].as_py(), start, end): np.flatnonzero(pieces.groups.ids == number).tolist()
        for number, (code, start, end) in enumerate(
            zip(pieces.codes.tolist(), pieces.starts.tolist(), pieces.ends.tolist(), strict=True)
        )
    }
    expected: dict[tuple[str, int, int], list[int]] = {}
    for wanted in sorted({key for key, _ in elements}):
        mine = sorted((stamp, row) for row, (key, stamp) in enumerate(elements) if key == wanted)
        while mine:
            start, end, members = mine[0][0], mine[0][0], []
            while mine and mine[0][0] <= end:
                end = mine[0][0] + gap
                members.append(mine.pop(0)[1])
            expected[wanted, start, end] = sorted(members)
    assert found == expected


def test_an_accumulator_joins_the_sessions_that_it_meets_and_those_of_the_general_operator() -> None:
    #  gap 10     general operator   k |20---30|
    #             loop                            k |40---50|         l |40---50|
    #  folded                        k    |28---------45|             l           |60--70|
    general, loop = operators_of(sessions(Numbers(), 10))
    assert isinstance(loop, SessionLoopOperator)
    state, output = OperatorState(), Nowhere()
    general.bind(state, output)
    general.process_batch(["k"], [at(20, number=1)], [20])
    loop.bind(state, output)
    loop.process_batch(["k", "l"], [at(40, number=2), at(40, number=5)], [40, 40])
    loop.merge_batch(Partials(["k", "l", "m"], [[3, 4], [6], [7]], [28, 60, 5], [45, 70, 15], [2, 1, 1]))
    loop.merge_batch(Partials(["k", "m", "m"], [[8], [9], [10]], [49, 25, 14], [59, 35, 26], [1, 1, 1]))
    loop.advance_watermark(1_000)
    assert sorted(output.values) == [
        ("k", 20, 59, (1, 2, 3, 4, 8)),
        ("l", 40, 50, (5,)),
        ("l", 60, 70, (6,)),
        ("m", 5, 35, (7, 9, 10)),
    ]
    assert not list(loop.open_windows())


class Failing(Numbers):
    """Refuses the number 7, and what has it."""

    def add(self, value: Element, accumulator: list[int]) -> list[int]:
        if value.number == 7:
            raise ValueError("seven")
        return super().add(value, accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        if 8 in b:
            raise ValueError("eight")
        return super().merge(a, b)


WHERE_IT_FOLDS = [[*(at(20 + number, number=1) for number in range(6)), at(33, number=7), at(35, number=1)]]
WHERE_IT_MERGES = [[at(20)], [at(25 + number, number=8) for number in range(12)]]


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        (WHERE_IT_FOLDS, "start=20, end=45), element Element(key='k', at=33, number=7, level=0.5, text='t')"),
        (WHERE_IT_MERGES, "start=20, end=40)"),
    ],
    ids=["folds", "merges"],
)
def test_a_function_that_fails_is_described_with_key_and_window(inputs: list[list[Element]], given: str) -> None:
    with pytest.raises(UserFunctionError) as caught:
        run(sessions(Failing(), 10), inputs, row_form, alone=True)
    assert caught.value.given == f"key 'k', window TimeWindow({given}"


def test_elements_of_a_key_count_in_the_order_in_which_tasks_send_them() -> None:
    #  gap 10, watermark 50     first task    35 10 11 12     35 is late: nothing is there yet that it meets
    #                           second task   42 43 44 45     one row
    inputs = [[at(131, "z")], [*map(at, (35, 10, 11, 12, 42, 43, 44, 45))]]
    ran = run(declared(10), inputs, column_form, bound_of=lambda task, watermark, step: watermark)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert ran.engine.counted["late_records_dropped"] == ran.dropped == 4
    assert ran.engine.folded


@pytest.mark.parametrize(("form", "far"), [(column_form, FARTHEST), (row_form, FARTHEST), (row_form, 2 * FARTHEST)])
@pytest.mark.parametrize("seed", seeds(3))
def test_elements_that_are_millions_of_years_apart_are_folded(form: Any, far: int, seed: int) -> None:
    chance = random.Random(seed)
    gap = chance.choice([1, 5, 40, 10**15])
    build = declared(gap) if form is column_form else sessions(Numbers(), gap)
    moments = [-far, -far + 200, -(10**15), -3, 0, 50, 10**15, far - 500]
    inputs = [
        [
            at(min(max(moment + chance.randrange(60) - chance.choice([0] * 9 + [300]), -far), far), chance.choice("ab"))
            for _ in range(chance.choice([3, 40, 80]))
        ]
        for moment in moments
    ]
    ran = run(build, inputs, form, crash_at=seed % 5)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert ran.engine.counted["late_records_dropped"] == ran.dropped


@pytest.mark.parametrize("stamps", [range(20, 28), range(405, 421)], ids=["all of them", "the first of them"])
@pytest.mark.parametrize(("build", "form"), [(declared(10), column_form), (sessions(Numbers(), 10), row_form)])
def test_folded_elements_behind_the_watermark_are_refused(build: Build, form: Any, stamps: range) -> None:
    # The watermark is 419: the windows of elements up to 409 by themselves are behind it.
    inputs = [[at(500)], [*map(at, stamps)]]
    with pytest.raises(CheckpointError, match="as those on time are behind the watermark") as caught:
        run(build, inputs, form, alone=True, bound_of=lambda task, watermark, step: -(2**62))
    assert "test_partial_sessions.py:" in str(caught.value.where)


# Elements are added session by session, wherever batches are cut. The function shows the order of its calls. Elements
# come late, join two sessions, touch a session that has fired, and are of keys of which a batch has many, or one.

REFUSED = 10_000


class Calls(AggregateFunction[Element, list[int], tuple[int, ...]]):
    """Shows the numbers in the order in which they were added, and where two accumulators were merged."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Element, accumulator: list[int]) -> list[int]:
        assert value.number is not None
        if value.number == REFUSED:
            raise ValueError("a number that is refused")
        accumulator.append(value.number)
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [*a, -1, *b]


FIRED = ValueStateDescriptor("fired", int)


class WithState(ProcessWindowFunction[tuple[int, ...], tuple[Any, ...], "str | None", TimeWindow]):
    """Adds the key and the window; counts the sessions of some keys, so that these have state beside sessions."""

    def process(
        self, key: str | None, context: ProcessWindowContext[TimeWindow], elements: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        fired = 0
        if key == "a":
            state = context.global_state.get_state(FIRED)
            fired = (state.value() or 0) + 1
            state.update(fired)
        yield key, context.window.start, context.window.end, fired, *elements


def sessions_of_calls(gap: int, lateness: int, *, dynamic: bool = False) -> Build:
    def build(keyed: Keyed) -> DataStream[Any]:
        by_element: DynamicEventTimeSessionWindows[Element] = EventTimeSessionWindows.with_dynamic_gap(
            lambda e: millis(1 + (e.number or 0) % gap)
        )
        windows = keyed.window(by_element if dynamic else EventTimeSessionWindows.with_gap(millis(gap)))
        late = windows.allowed_lateness(millis(lateness)).side_output_late_data(LATE)
        return late.aggregate(Calls(), WithState())

    return build


# A batch: how far time goes on, and elements as key, how far they are from that time, and number.
moments = st.integers(-160, 60)
batches = st.tuples(
    st.integers(0, 120),
    st.lists(st.tuples(st.sampled_from("abcdefgh"), moments, st.integers(0, 99)), max_size=40)
    | st.lists(st.tuples(st.just("b"), moments, st.integers(0, 99)), max_size=40),
)


def stream_of(drawn: Sequence[tuple[int, Sequence[tuple[str, int, int]]]]) -> list[list[Element]]:
    now, stream = 0, []
    for advance, elements in drawn:
        now += advance
        stream.append([at(now + moment, key, number) for key, moment, number in elements])
    return stream


@examples(80)
@given(
    gap=st.integers(1, 90),
    lateness=st.sampled_from([0, 0, 0, 25]),
    dynamic=st.sampled_from([False, False, False, True]),
    drawn=st.lists(batches, min_size=1, max_size=6),
    pages=st.sampled_from([OBJECT_PAGES, SMALL_PAGES]),
)
# The last element of the second batch joins a stored session and one that is born in this batch.
@example(10, 0, False, [(0, [("b", 0, 1)]), (0, [("b", 19, 2), ("b", 20, 3), ("b", 10, 4)])], OBJECT_PAGES)
# Two sessions are born in one batch, the later one first, and joined in the next.
@example(10, 0, False, [(0, [("b", 16, 1), ("b", 0, 2)]), (0, [("b", 8, 3)])], OBJECT_PAGES)
# One element is late, as it comes before another one that it touches.
@example(
    10, 0, False, [(0, [("c", 60, 0)]), (100, [("b", -160, 1), ("b", -148, 2)]), (0, [("b", -120, 3)])], OBJECT_PAGES
)
def test_elements_are_added_as_by_the_general_operator(
    gap: int, lateness: int, dynamic: bool, drawn: list[tuple[int, list[tuple[str, int, int]]]], pages: PageTuning
) -> None:
    ran = run(
        sessions_of_calls(gap, lateness, dynamic=dynamic),
        stream_of(drawn),
        row_form,
        crash_at=1,
        late=True,
        tuning=StateTuning(object_pages=pages),
    )
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert told(ran.engine.late) == told(ran.expected[1])


def test_elements_of_ordinary_keys_are_not_taken_one_by_one() -> None:
    # Key b has a late element, which is in a batch with elements of many other keys.
    first = [at(200 + number % 7, f"key {number % 50}", number) for number in range(500)]
    second = [at(205 + number % 7, f"key {number % 60}", number) for number in range(500)]
    taken: list[Any] = []
    take = SessionLoopOperator.take

    def watched(self: SessionLoopOperator, keys: Any, values: Any, timestamps: Any) -> None:
        taken.extend(keys)
        take(self, keys, values, timestamps)

    with patch.object(SessionLoopOperator, "take", watched):
        ran = run(sessions_of_calls(30, 0), [first, [*second, at(0, "b", 1)]], row_form, late=True)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert len(ran.engine.late) == 1
    assert set(taken) == {"b"}


def errors(build: Build, stream: list[list[Element]]) -> Iterator[str]:
    """What the general operator says of a failure, and what the loop says; nothing if the element comes late."""
    for alone in (False, True):
        try:
            run(build, stream, row_form, late=True, alone=alone)
        except UserFunctionError as error:
            yield str(error)
        else:
            yield ""


@examples(40)
@given(gap=st.integers(1, 60), drawn=st.lists(batches, min_size=1, max_size=3), place=st.integers(0, 10_000))
@example(10, [(0, [("b", 0, 1)]), (0, [("b", 5, 2), ("b", 9, 3)])], 1)  # the first of a session that goes on
@example(10, [(0, [("b", 0, 1), ("b", 5, 2)])], 0)  # the first of all
def test_errors_name_what_the_general_operator_names(
    gap: int, drawn: list[tuple[int, list[tuple[str, int, int]]]], place: int
) -> None:
    stream = stream_of(drawn)
    last = stream[-1]
    if not last:
        return
    last[place % len(last)] = last[place % len(last)]._replace(number=REFUSED)
    general, loop = errors(sessions_of_calls(gap, 0), stream)
    assert general == loop


def test_an_accumulator_that_cannot_be_made_names_its_first_element() -> None:
    class Failing(Calls):
        def create_accumulator(self) -> list[int]:
            raise ValueError("nothing to add to")

    def build(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(EventTimeSessionWindows.with_gap(millis(10))).side_output_late_data(LATE)
        return windows.aggregate(Failing(), WithState())

    general, loop = errors(build, [[at(3, "b", 7), at(5, "b", 8)]])
    assert general == loop
    assert "number=7" in general
