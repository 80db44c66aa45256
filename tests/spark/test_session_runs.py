"""Sessions whose elements are added session by session, against the general operator, wherever batches are cut.

The function shows the order of its calls. Elements come late, join two sessions, touch a session that has fired, and
are of keys of which a batch has many elements, or one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.columnar.engine import LATE, Element, Keyed, at, by_key, millis, told
from tests.columnar.planning import row_form
from tests.spark.group_engine import run
from tests.spark.test_arrivals import SMALL_PAGES
from windrow import DataStream
from windrow.errors import UserFunctionError
from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.state import ValueStateDescriptor
from windrow.windows import DynamicEventTimeSessionWindows, EventTimeSessionWindows, TimeWindow
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_spark.storage.tuning import OBJECT_PAGES, PageTuning, StateTuning

# Any in this module: results of every type.

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


class WithWindow(ProcessWindowFunction[tuple[int, ...], tuple[Any, ...], "str | None", TimeWindow]):
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


def sessions(gap: int, lateness: int, *, dynamic: bool = False) -> Callable[[Keyed], DataStream[Any]]:
    def build(keyed: Keyed) -> DataStream[Any]:
        by_element: DynamicEventTimeSessionWindows[Element] = EventTimeSessionWindows.with_dynamic_gap(
            lambda e: millis(1 + (e.number or 0) % gap)
        )
        windows = keyed.window(by_element if dynamic else EventTimeSessionWindows.with_gap(millis(gap)))
        late = windows.allowed_lateness(millis(lateness)).side_output_late_data(LATE)
        return late.aggregate(Calls(), WithWindow())

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


@examples(150)
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
        sessions(gap, lateness, dynamic=dynamic),
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
        ran = run(sessions(30, 0), [first, [*second, at(0, "b", 1)]], row_form, late=True)
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert len(ran.engine.late) == 1
    assert set(taken) == {"b"}


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
    texts = []
    for alone in (False, True):
        try:
            run(sessions(gap, 0), stream, row_form, late=True, alone=alone)
        except UserFunctionError as error:
            texts.append(str(error))
        else:
            texts.append("late")
    assert texts[0] == texts[1]


def test_an_accumulator_that_cannot_be_made_names_its_first_element() -> None:
    class Failing(Calls):
        def create_accumulator(self) -> list[int]:
            raise ValueError("nothing to add to")

    def build(keyed: Keyed) -> DataStream[Any]:
        return keyed.window(EventTimeSessionWindows.with_gap(millis(10))).aggregate(Failing(), WithWindow())

    texts = []
    for alone in (False, True):
        with pytest.raises(UserFunctionError) as caught:
            run(build, [[at(3, "b", 7), at(5, "b", 8)]], row_form, alone=alone)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "number=7" in texts[0]
