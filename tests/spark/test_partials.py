"""Functions that fold in front of the exchange, by slices that windows share: the results of the general operator."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest

from tests.budget import seeds
from tests.columnar.engine import LATE, Element, Keyed, Ran, at, by_key, millis
from tests.columnar.planning import row_form
from tests.spark.group_engine import run
from tests.spark.test_arrivals import Texts, WithWindow
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, UserFunctionError, WindrowError
from windrow.functions import AggregateFunction
from windrow.plan import Step
from windrow.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.metrics.step_metrics import Metrics
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.operator import KeyedOperator, OperatorRuntimeContext
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.windows.partials import Partials
from windrow_runtime.operators.windows.table_loop import TableOperator
from windrow_spark.columnar.forms.row_form import RowForm

# Any in this module: accumulators and results of every type.


class Total(NamedTuple):
    number: int
    total: int


class Totals(AggregateFunction[Element, Total, tuple[int, int]]):
    """Accumulators that nobody can change."""

    commutative: ClassVar[bool] = True

    def create_accumulator(self) -> Total:
        return Total(0, 0)

    def add(self, value: Element, accumulator: Total) -> Total:
        return Total(accumulator.number + 1, accumulator.total + (value.number or 0))

    def get_result(self, accumulator: Total) -> tuple[int, int]:
        return accumulator.number, accumulator.total

    def merge(self, a: Total, b: Total) -> Total:
        return Total(a.number + b.number, a.total + b.total)


class Numbers(AggregateFunction[Element, list[int], tuple[int, ...]]):
    """Accumulators that are changed in place, by ``merge`` the first one."""

    commutative: ClassVar[bool] = True

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Element, accumulator: list[int]) -> list[int]:
        accumulator.append(value.number or 0)
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(sorted(accumulator))

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return a


class Backwards(Numbers):
    """``merge`` changes the second one."""

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        b.extend(a)
        return b


class Spoiling(Numbers):
    """``merge`` leaves nothing of its arguments."""

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        both = a + b
        a.clear()
        b.clear()
        return both


class Nested(AggregateFunction[Element, tuple[int, list[int]], tuple[int, ...]]):
    """A tuple that holds what can be changed."""

    commutative: ClassVar[bool] = True

    def create_accumulator(self) -> tuple[int, list[int]]:
        return 0, []

    def add(self, value: Element, accumulator: tuple[int, list[int]]) -> tuple[int, list[int]]:
        accumulator[1].append(value.number or 0)
        return accumulator[0] + 1, accumulator[1]

    def get_result(self, accumulator: tuple[int, list[int]]) -> tuple[int, ...]:
        return accumulator[0], *sorted(accumulator[1])

    def merge(self, a: tuple[int, list[int]], b: tuple[int, list[int]]) -> tuple[int, list[int]]:
        a[1].extend(b[1])
        return a[0] + b[0], a[1]


FUNCTIONS: list[AggregateFunction[Element, Any, Any]] = [Totals(), Numbers(), Backwards(), Spoiling(), Nested()]


def sliding(
    function: AggregateFunction[Element, Any, Any], size: int, slide: int, offset: int = 0
) -> Callable[[Keyed], DataStream[Any]]:
    windows = SlidingEventTimeWindows.of(millis(size), millis(slide), millis(offset))
    return lambda keyed: keyed.window(windows).aggregate(function, WithWindow())


def dense(chance: random.Random) -> list[list[Element]]:
    """Batches of many elements of few keys, and of few; some are late, and time begins before 1970."""
    moments = [-900 + 150 * number for number in range(12)]
    return [
        [
            at(moment + chance.randrange(-400, 150), chance.choice("kl"), chance.randrange(1000))
            for _ in range(chance.choice([0, 2, 40, 300]))
        ]
        for moment in moments
    ]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
def test_windows_that_share_slices_have_what_the_general_operator_gives_them(
    function: AggregateFunction[Element, Any, Any],
) -> None:
    folded = dropped = 0
    for seed in seeds(10):
        chance = random.Random(seed)
        slide = chance.choice([1, 30, 40, 100, 250])
        size = chance.choice([slide, 2 * slide, 5 * slide, slide + slide // 2, slide + chance.randrange(300)])
        build = sliding(function, size, slide, chance.randrange(-slide + 1, slide))
        ran = run(build, dense(chance), row_form, crash_at=seed % 5)
        assert_equal(ran)
        folded += ran.engine.folded
        dropped += ran.dropped
    # Where slices are short, elements cross one by one.
    assert folded > 2
    assert dropped > 30


def assert_equal(ran: Ran) -> None:
    assert by_key(ran.engine.results) == by_key(ran.expected[0])
    assert ran.engine.counted["late_records_dropped"] == ran.dropped


def four(moment: int, number: int) -> list[Element]:
    """So many that they are folded."""
    return [at(moment, number=number)] * 4


def test_a_function_that_does_not_say_commutative_has_its_elements_in_order_of_arrival() -> None:
    # Later timestamps come first, so that slices would show them in another order.
    elements = [at(moment, number=moment) for moment in range(590, -10, -10)]

    class Careless(Texts):
        commutative: ClassVar[bool] = True

    ran = run(sliding(Texts(), 600, 300), [elements], row_form)
    assert not ran.engine.folded
    assert ran.engine.results == ran.expected[0]
    shared = run(sliding(Careless(), 600, 300), [elements], row_form)
    assert shared.engine.folded
    assert by_key(shared.engine.results) != by_key(shared.expected[0])


def test_windows_that_slide_by_their_size_keep_the_order_too() -> None:
    elements = [at(moment, number=moment) for moment in range(590, -10, -10)]
    ran = run(sliding(Texts(), 300, 300), [elements[:40], elements[40:]], row_form)
    assert ran.engine.folded
    assert ran.engine.results == ran.expected[0]


# Any: forms of every kind.
def planned(build: Callable[[Keyed], DataStream[Any]], chosen: Any = row_form) -> tuple[Step, Any]:
    """The keyed step of a plan, and its form."""
    found: list[tuple[Step, Any]] = []

    def remember(topology: Topology, step: Step, check_source: Any) -> Any:
        found.append((step, chosen(topology, step, check_source)))
        return found[-1][1]

    run(build, [], remember)
    return found[0]


def explained(build: Callable[[Keyed], DataStream[Any]]) -> str:
    """How the elements get to the step."""
    form = planned(build)[1]
    assert isinstance(form, RowForm)
    return form.describe()


CROSS = "elements cross the exchange as columns"
AGGREGATED = f"{CROSS}, partially aggregated before where that pays"


def test_explain_says_what_is_folded_and_shared() -> None:
    assert explained(sliding(Totals(), 60, 20)) == f"{AGGREGATED}, slices shared by windows"
    assert explained(sliding(Totals(), 60, 60)) == AGGREGATED
    assert explained(sliding(Texts(), 60, 20)) == CROSS
    # An element between two windows may be late, which its slice does not tell.
    assert explained(sliding(Totals(), 20, 60)) == CROSS
    late = SlidingEventTimeWindows.of(millis(60), millis(20))
    on_time = f"{CROSS}, partially aggregated before where on time and worth it, slices shared by windows"
    assert explained(lambda keyed: keyed.window(late).allowed_lateness(millis(1)).aggregate(Totals())) == on_time
    assert explained(lambda keyed: keyed.window(late).side_output_late_data(LATE).aggregate(Totals())) == on_time


def length(element: Element) -> int:
    """What no column computes."""
    return len(element.text.strip()) + (element.number or 0)


DECLARED = agg.combine(
    agg.count(),
    agg.sum(length),
    agg.mean(length),
    agg.stddev(length),
    agg.min(length),
    agg.max(length),
    agg.count_distinct(length),
    Totals(),
)


def test_declared_aggregates_whose_selectors_are_python_share_slices() -> None:
    ran = run(sliding(DECLARED, 500, 100), dense(random.Random(3)), row_form, crash_at=1)
    assert ran.engine.folded
    assert_equal(ran)


@pytest.mark.parametrize(
    "aggregate",
    [agg.first(length), agg.collect_list(length), agg.min_by(length), agg.top_k(2, length)],
    ids=lambda aggregate: aggregate.declaration.kind,
)
def test_declared_aggregates_of_elements_in_order_share_nothing(
    aggregate: AggregateFunction[Element, Any, Any],
) -> None:
    both = agg.combine(agg.count(), aggregate)
    assert explained(sliding(both, 60, 20)) == CROSS
    tumbling = TumblingEventTimeWindows.of(millis(60))
    assert explained(lambda keyed: keyed.window(tumbling).aggregate(both)) == AGGREGATED


@dataclass
class Failing(Numbers):
    """Raises in one of its methods; in ``add``, and only there, at one element alone."""

    method: str

    def create_accumulator(self) -> list[int]:
        self._fail("create_accumulator")
        return []

    def add(self, value: Element, accumulator: list[int]) -> list[int]:
        if value.number == 13:
            self._fail("add")
        return super().add(value, accumulator)

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        self._fail("get_result")
        return super().get_result(accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        self._fail("merge")
        return super().merge(a, b)

    def _fail(self, method: str) -> None:
        if method == self.method:
            raise ValueError(f"no {method}")


BAD = at(23, number=13)
AGGREGATED_WINDOWS = {
    "tumbling": (
        TumblingEventTimeWindows.of(millis(60)),
        {
            "create_accumulator": "key 'k', window TimeWindow(start=0, end=60)",
            "add": f"key 'k', window TimeWindow(start=0, end=60), element {BAD!r}",
            "merge": "key 'k', window TimeWindow(start=0, end=60)",
            "get_result": "key 'k', window TimeWindow(start=0, end=60)",
        },
    ),
    # Of the windows that share a slice, the latest is told.
    "sliding": (
        SlidingEventTimeWindows.of(millis(60), millis(20)),
        {
            "create_accumulator": "key 'k', window TimeWindow(start=0, end=60)",
            "add": f"key 'k', window TimeWindow(start=20, end=80), element {BAD!r}",
            "merge": "key 'k', window TimeWindow(start=0, end=60)",
            "get_result": "key 'k', window TimeWindow(start=-40, end=20)",
        },
    ),
}


@pytest.mark.parametrize("method", ["create_accumulator", "add", "merge", "get_result"])
@pytest.mark.parametrize("name", AGGREGATED_WINDOWS)
def test_a_function_that_folds_before_is_told_with_key_window_and_element(name: str, method: str) -> None:
    windows, given = AGGREGATED_WINDOWS[name]
    # The second batch is folded apart, and merged into what the first has left.
    inputs = [[*four(0, 1), *four(22, 2)], [*four(21, 3), BAD, *four(24, 4)]]
    with pytest.raises(UserFunctionError) as caught:
        run(lambda keyed: keyed.window(windows).aggregate(Failing(method)), inputs, row_form, alone=True)
    assert caught.value.message == f"a function of the step raised ValueError: no {method}"
    assert caught.value.given == given[method]
    assert "test_partials.py:" in str(caught.value.where)
    assert isinstance(caught.value.__cause__, ValueError)


class Unreadable:
    """Can be written, and not be read again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Unreadable, (), {"a": 1}

    def __setstate__(self, state: object) -> None:
        raise ValueError("no copy")


class Refusing:
    """Raises an error of its own."""

    def __reduce__(self) -> str:
        raise InvalidArgumentError("not to be written", given="Refusing", expected="something else")


def nested(levels: int) -> list[Any]:
    held: list[Any] = []
    for _ in range(levels):
        held = [held]
    return held


@pytest.mark.parametrize(
    ("accumulator", "error", "told"),
    [
        (Unreadable(), UserFunctionError, "no copy"),
        (nested(100_000), UserFunctionError, "RecursionError"),
        ([Refusing()], InvalidArgumentError, "not to be written"),
    ],
    ids=["unreadable", "deep", "refused by the language"],
)
# Any: accumulators of every type.
def test_an_accumulator_that_cannot_be_copied_is_told_with_step_and_key(
    accumulator: Any, error: type[WindrowError], told: str
) -> None:
    _, loop = operators(Numbers())
    assert isinstance(loop, TableOperator)
    loop.bind(OperatorState(), Nowhere())
    with pytest.raises(error, match=told) as caught:
        loop.merge_batch(Partials(["j", "k", "l"], [[1], accumulator, [2]], [20, 20, 20], (), [1, 1, 1]))
    if error is UserFunctionError:
        assert caught.value.where == loop.step.where
        assert caught.value.given == "key 'k', window TimeWindow(start=20, end=80)"
    else:
        assert str(caught.value.where).startswith(f"{loop.step.where}, by the call at ")


class Nowhere:
    """Takes what a step emits."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    # Any: results of every type.
    def collect(self, value: Any, timestamp: int | None) -> None:
        self.values.append(value)

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        raise AssertionError(tag)


def operators(function: AggregateFunction[Element, Any, Any]) -> Iterator[KeyedOperator]:
    """The general operator of sliding windows, then the loop."""
    return operators_of(sliding(function, 60, 20))


def operators_of(build: Callable[[Keyed], DataStream[Any]]) -> Iterator[KeyedOperator]:
    """The general operator of a step, then the loop."""
    step, _ = planned(build)
    for fast in (False, True):
        operator = operator_for(step, fast=fast)
        operator.metrics = Metrics()
        operator.open(OperatorRuntimeContext("s", operator.metrics))
        yield operator


@pytest.mark.parametrize("function", [Numbers(), Backwards()], ids=["first", "second"])
def test_what_the_general_operator_began_goes_on(function: Numbers) -> None:
    general, loop = operators(function)
    assert isinstance(loop, TableOperator)
    state, output = OperatorState(), Nowhere()
    general.bind(state, output)
    general.process_batch(["k"], [at(25, number=1)], [25])
    loop.bind(state, output)
    loop.merge_batch(Partials(["k", "l", "k"], [[2, 3], [9], [4]], [20, 20, 40], (), [2, 1, 1]))
    loop.process_batch(["k"], [at(41, number=5)], [41])
    loop.advance_watermark(1_000)
    assert sorted(output.values) == [
        ("k", -20, 40, (1, 2, 3)),
        ("k", 0, 60, (1, 2, 3, 4, 5)),
        ("k", 20, 80, (1, 2, 3, 4, 5)),
        ("k", 40, 100, (4, 5)),
        *(("l", start, start + 60, (9,)) for start in (-20, 0, 20)),
    ]
