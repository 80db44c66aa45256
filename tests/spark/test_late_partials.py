"""Python functions in windows that late elements fire again, or leave one by one, against the general operator.

Tasks aggregate the elements that are on time for certain, and the others cross the exchange one by one. Windows that
have fired stay in tables, unless the window function keeps state for them or is told when they go.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.columnar.engine import LATE, Element, Keyed, at, batches, by_key, millis, told
from tests.columnar.planning import row_form
from tests.spark.group_engine import run
from tests.spark.test_arrivals import WithWindow
from tests.spark.test_partials import FUNCTIONS, Numbers
from windrow import DataStream
from windrow.errors import CheckpointError
from windrow.functions import AggregateFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.state import ValueStateDescriptor
from windrow.windows import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from windrow_spark.columnar.forms.route import ExchangeRows
from windrow_spark.columnar.forms.row_form import RowForm

# Any in this module: accumulators and results of every type.

Context = ProcessWindowContext[TimeWindow]
COUNT = ValueStateDescriptor("count", int)


class Counts(ProcessWindowFunction[Any, tuple[Any, ...], "str | None", TimeWindow]):
    """Counts the firings of a key, and those of some of its windows."""

    def process(self, key: str | None, context: Context, elements: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        of_key = context.global_state.get_state(COUNT)
        of_key.update((of_key.value() or 0) + 1)
        window = context.window
        firings = 0
        if window.start % 3 == 0:
            of_window = context.window_state.get_state(COUNT)
            of_window.update((of_window.value() or 0) + 1)
            firings = of_window.value() or 0
        yield key, window.start, window.end, firings, of_key.value(), *elements


class Forgets(Counts):
    """Forgets a key when one of its windows goes."""

    def clear(self, context: Context) -> None:
        context.global_state.get_state(COUNT).clear()


def tumbling(size: int) -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(millis(size))


def late_windows(
    function: AggregateFunction[Element, Any, Any], assigner: Any, lateness: int, process: Any, *, late: bool
) -> Callable[[Keyed], DataStream[Any]]:
    def build(keyed: Keyed) -> DataStream[Any]:
        windows: Any = keyed.window(assigner)
        if lateness:
            windows = windows.allowed_lateness(millis(lateness))
        if late:
            windows = windows.side_output_late_data(LATE)
        stream: DataStream[Any] = windows.aggregate(function, process)
        return stream

    return build


@pytest.mark.parametrize("process", [WithWindow, Counts, Forgets])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
def test_functions_have_what_the_general_operator_gives_them(
    function: AggregateFunction[Element, Any, Any], process: type[Any]
) -> None:
    folded = came_late = 0
    sees_cleanups = issubclass(process, Forgets)
    for seed, assigner in enumerate([tumbling(40), SlidingEventTimeWindows.of(millis(60), millis(20)), tumbling(7)]):
        chance = random.Random(f"{seed} {type(function).__name__} {process.__name__}")
        lateness, late = chance.choice([(0, True), (30, False), (30, True), (300, True), (10**13, False)])
        if sees_cleanups and seed == 0:
            lateness, late = 0, True
        build = late_windows(function, assigner, lateness, process(), late=late)
        inputs = [
            [element._replace(key=chance.choice(["k", "l", None])) for element in elements]
            for elements in batches(chance, 16)
        ]
        ran = run(build, inputs, row_form, crash_at=seed % 5, late=late)
        assert by_key(ran.engine.results) == by_key(ran.expected[0])
        if late:
            assert told(ran.engine.late) == told(ran.expected[1])
        assert ran.engine.counted["late_records_dropped"] == ran.dropped
        # Cleaned-up windows that a function sees are the general operator's, which takes no accumulators.
        assert not (sees_cleanups and lateness and ran.engine.folded)
        folded += ran.engine.folded
        came_late += ran.dropped + len(ran.engine.late) + (lateness > 0)
    assert folded
    assert came_late


def test_elements_that_may_be_behind_the_watermark_cross_one_by_one() -> None:
    found: list[Any] = []

    def remember(*given: Any) -> Any:
        found.append(row_form(*given))
        return found[0]

    run(late_windows(Numbers(), tumbling(10), 5, WithWindow(), late=False), [], remember)
    form = found[0]
    assert isinstance(form, RowForm)
    assert (
        form.describe()
        == "elements cross the exchange as columns, partially aggregated before where on time and worth it"
    )

    stamps = [38, 39, 40, 49, 50]
    columns = [pa.array([1] * len(stamps)).cast(field.type) for field in list(form.raw_schema)[2:]]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["k"] * len(stamps)), pa.array(stamps), *columns], schema=form.raw_schema
    )
    for bound, late in ((38, []), (39, [38, 39]), (48, [38, 39]), (49, [38, 39, 40, 49])):
        crossing = {kind: part.column(1).to_pylist() for kind, part in form.exchange_rows(rows, bound)}
        assert crossing.get(ExchangeRows.ELEMENTS, []) == late
        assert crossing[ExchangeRows.AGGREGABLE] == stamps[len(late) :]
    assert [kind for kind, _ in form.exchange_rows(rows, None)] == [ExchangeRows.ELEMENTS]


@pytest.mark.parametrize(("lateness", "late"), [(0, True), (50, False)])
def test_aggregated_elements_behind_the_watermark_are_refused(lateness: int, late: bool) -> None:
    inputs = [[at(500)], [*map(at, range(401, 409))]]
    build = late_windows(Numbers(), tumbling(10), lateness, WithWindow(), late=late)
    with pytest.raises(CheckpointError, match="as those on time are behind the watermark"):
        run(build, inputs, row_form, alone=True, late=late, bound_of=lambda task, watermark, step: -(2**62))
