"""Elements of sessions that are folded where they are read, against the general operator.

A task folds the elements of a key that make a session by themselves. Where one of the key may be behind the watermark,
all of them cross one by one, since what comes before such an element decides whether it is late::

    gap 10, watermark 50        elements of a task
    k    60  65    90           60..75, 90..100      two rows
    l    60  35  42             60, 35, 42           35 is late, unless another task has sent 30 before
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import seeds
from tests.columnar.engine import LATE, Element, Keyed, Ran, at, by_key, millis, told
from tests.columnar.planning import column_form, row_form
from tests.spark.group_engine import run
from tests.spark.test_arrivals import Texts, WithWindow
from tests.spark.test_partials import Backwards, Nested, Nowhere, Numbers, Spoiling, Totals, operators_of
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import CheckpointError, UserFunctionError
from windrow.functions import AggregateFunction
from windrow.windows import EventTimeSessionWindows
from windrow.windows.spec import FARTHEST
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.windows.partials import Partials
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.route import ExchangeRows
from windrow_spark.columnar.forms.row_form import RowForm
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.windows.sessions import sessions_in_task

# Any in this module: accumulators and results of every type.


def sessions(
    function: AggregateFunction[Element, Any, Any], gap: int, *, late: bool = False
) -> Callable[[Keyed], DataStream[Any]]:
    def build(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(EventTimeSessionWindows.with_gap(millis(gap)))
        if late:
            windows = windows.side_output_late_data(LATE)
        return windows.aggregate(function, WithWindow())

    return build


def declared(gap: int, *, late: bool = False) -> Callable[[Keyed], DataStream[Any]]:
    def build(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(EventTimeSessionWindows.with_gap(millis(gap)))
        if late:
            windows = windows.side_output_late_data(LATE)
        return windows.aggregate(
            agg.combine(
                agg.key(),
                agg.window_start(),
                agg.window_end(),
                agg.count(),
                agg.sum(lambda e: e.number),
                agg.min(lambda e: e.text),
                agg.mean(lambda e: e.level),
            )
        )

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
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
def test_functions_have_what_the_general_operator_gives_them(
    function: AggregateFunction[Element, Any, Any], late: bool
) -> None:
    folded = came_late = 0
    for seed in seeds(5):
        chance = random.Random(seed)
        build = sessions(function, chance.choice([1, 3, 12, 40, 200]), late=late)
        ran = run(build, list(bursts(chance)), row_form, crash_at=seed % 5, late=late)
        assert_equal(ran, late=late)
        folded += ran.engine.folded
        came_late += ran.dropped + len(ran.engine.late)
    assert folded > 2
    assert came_late > 20


@pytest.mark.parametrize("late", [False, True], ids=["dropped", "late output"])
def test_declared_aggregates_have_what_the_general_operator_gives_them(late: bool) -> None:
    folded = came_late = 0
    for seed in seeds(8):
        chance = random.Random(seed)
        build = declared(chance.choice([1, 3, 12, 40, 200]), late=late)
        ran = run(build, list(bursts(chance)), column_form, crash_at=seed % 5, late=late)
        assert_equal(ran, late=late)
        folded += ran.engine.folded
        came_late += ran.dropped + len(ran.engine.late)
    assert folded > 4
    assert came_late > 30


def test_what_depends_on_the_order_of_elements_crosses_one_by_one() -> None:
    ran = run(sessions(Texts(), 30), list(bursts(random.Random(1))), row_form)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert not ran.engine.folded


def rows_of(form: ColumnarForm | RowForm, keys: str, stamps: list[int]) -> pa.RecordBatch:
    columns = [pa.array([1] * len(stamps)).cast(field.type) for field in list(form.raw_schema)[2:]]
    return pa.RecordBatch.from_arrays([pa.array(list(keys)), pa.array(stamps), *columns], schema=form.raw_schema)


def form_of(build: Callable[[Keyed], DataStream[Any]], chosen: Any) -> Any:
    found: list[Any] = []

    def remember(*given: Any) -> Any:
        found.append(chosen(*given))
        return found[0]

    run(build, [], remember)
    return found[0]


def test_a_key_with_an_element_that_may_be_behind_crosses_one_by_one() -> None:
    #  watermark at most 50     k  60 62 64 66     two keys, gap 10
    #                           l  60 61 40 39
    for build, chosen in ((declared(10), column_form), (sessions(Numbers(), 10), row_form)):
        form = form_of(build, chosen)
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


def test_a_function_that_fails_where_it_folds_is_described_with_key_window_and_element() -> None:
    inputs = [[*[at(20 + number, number=1) for number in range(6)], at(33, number=7), at(35, number=1)]]
    with pytest.raises(UserFunctionError) as caught:
        run(sessions(Failing(), 10), inputs, row_form, alone=True)
    assert "key 'k', window TimeWindow(start=20, end=45), element Element(key='k', at=33" in str(caught.value.given)


def test_a_merge_that_fails_is_described_with_key_and_window() -> None:
    inputs = [[at(20)], [at(25 + number, number=8) for number in range(12)]]
    with pytest.raises(UserFunctionError) as caught:
        run(sessions(Failing(), 10), inputs, row_form, alone=True)
    assert caught.value.given == "key 'k', window TimeWindow(start=20, end=40)"


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
def test_folded_elements_behind_the_watermark_are_refused(
    build: Callable[[Keyed], DataStream[Any]], form: Any, stamps: range
) -> None:
    # The watermark is 419: the windows of elements up to 409 by themselves are behind it.
    inputs = [[at(500)], [*map(at, stamps)]]
    with pytest.raises(CheckpointError, match="as those on time are behind the watermark") as caught:
        run(build, inputs, form, alone=True, bound_of=lambda task, watermark, step: -(2**62))
    assert "test_partial_sessions.py:" in str(caught.value.where)
