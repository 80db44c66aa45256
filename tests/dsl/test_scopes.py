"""Functions of the user's that make steps of a stage: the scopes that their steps are in."""

from __future__ import annotations

from functools import partial
from threading import Thread
from typing import Any

import pytest

from tests.dsl.plans import fault_of, faults_of, plan, refusal
from windrow import DataStream, DataStreamSink, KeyedStream, OutputTag, from_collection
from windrow.functions import MapFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.windows import GlobalWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import topology_of
from windrow_spark.physical.plan import PhysicalPlan

NUMBERS = from_collection([1, 2, 3])


def doubled(numbers: DataStream[int], least: int = 0) -> DataStream[int]:
    return numbers.map(lambda number: 2 * number).filter(lambda number: number > least, name="enough")


def sums(numbers: DataStream[int]) -> DataStream[tuple[int, int]]:
    return numbers.key_by(lambda number: number % 2).sum(lambda number: number)


def ids(*streams: DataStream[Any] | DataStreamSink) -> list[str]:
    """The ids of the steps of a plan, without its name."""
    return [step.id.removeprefix("p.") for step in plan(*streams).steps]


def test_steps_have_the_name_of_their_function_in_front() -> None:
    pipeline = plan(NUMBERS.pipe(doubled, least=2))
    assert pipeline.explain().splitlines() == [
        "pipeline p",
        "  1 source                          collection of 3  : int",
        "  2 doubled/map            <- 1     2 * element  : int",
        "  3 filter doubled/enough  <- 2     element > least  : int",
        "  4 sink                   <- 3     collect",
    ]
    assert [step.id for step in pipeline.steps] == ["p.1.source", "p.2.doubled/map", "p.3.doubled/enough", "p.4.sink"]
    assert [step.name for step in pipeline.steps] == [None, None, "doubled/enough", None]


def test_uses_of_one_function_are_numbered_in_the_order_of_the_plan() -> None:
    first, second = NUMBERS.pipe(doubled), NUMBERS.pipe(doubled, 2)
    both = [
        *("1.source", "2.doubled/map", "3.doubled/enough", "4.sink"),
        *("5.doubled#2/map", "6.doubled#2/enough", "7.sink"),
    ]
    assert ids(first, second) == both
    # Which one was made first in the program makes no difference, and neither does an earlier plan.
    assert ids(second, first) == both
    assert ids(second) == both[:4]


def twice(numbers: DataStream[int]) -> DataStream[int]:
    return numbers.pipe(doubled).filter(lambda number: True).pipe(doubled)


def test_scopes_hold_scopes() -> None:
    assert ids(NUMBERS.pipe(twice))[1:-1] == [
        *("2.twice/doubled/map", "3.twice/doubled/enough", "4.twice/filter"),
        *("5.twice/doubled#2/map", "6.twice/doubled#2/enough"),
    ]


class Scaled:
    def __call__(self, numbers: DataStream[int]) -> DataStream[int]:
        return numbers.map(lambda number: 10 * number)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (doubled, "doubled"),
        (partial(partial(doubled), least=2), "doubled"),
        (lambda stream: doubled(stream, 2), "lambda"),
        (Scaled(), "Scaled"),
    ],
    ids=["function", "partial", "lambda", "object"],
)
def test_a_scope_has_the_name_of_its_function(function: Any, name: str) -> None:
    assert ids(NUMBERS.apply_transform(function))[1] == f"2.{name}/map"
    assert ids(NUMBERS.pipe(function))[1] == f"2.{name}/map"


def test_a_stream_is_shown_with_its_scope() -> None:
    def outer(numbers: DataStream[int]) -> DataStream[int]:
        return numbers.apply_transform(doubled, name="inner")

    shown = repr(NUMBERS.pipe(outer))
    assert shown.startswith("DataStream(filter 'outer/inner/enough': int, ")
    assert repr(NUMBERS.pipe(lambda numbers: numbers.map(str))).startswith("DataStream(lambda/map: str, ")
    assert repr(NUMBERS).startswith("DataStream(source: int, ")


def test_a_name_may_be_given() -> None:
    streams = [NUMBERS.apply_transform(doubled, name=name) for name in ("north", "south")]
    assert ids(*streams) == [
        *("1.source", "2.north/map", "3.north/enough", "4.sink"),
        *("5.south/map", "6.south/enough", "7.sink"),
    ]


def test_a_call_of_the_function_makes_no_scope() -> None:
    assert ids(doubled(NUMBERS)) == ["1.source", "2.map", "3.enough", "4.sink"]


def test_all_that_a_function_makes_is_in_the_scope() -> None:
    """Sources, sinks, several results; stages from outside whose step is made within."""
    windows = NUMBERS.window_all(GlobalWindows.create_with_end_of_stream_trigger())

    def ends(numbers: DataStream[int]) -> tuple[DataStream[int], Any]:
        more = from_collection([4], name="more")
        return windows.reduce(max), numbers.union(more).sink_to(CollectSink())

    largest, sink = NUMBERS.pipe(ends)
    assert ids(largest.map(lambda number: number), sink) == [
        *("1.source", "2.ends/window", "3.map", "4.sink", "5.ends/more", "6.ends/union", "7.ends/sink")
    ]


@pytest.mark.parametrize("given", ["", "a/b", "a#2", "a\ud800", 1], ids=ascii)
def test_a_name_is_a_text_without_separators(given: Any) -> None:
    error = refusal(lambda: NUMBERS.apply_transform(doubled, name=given))
    assert error.message == "a scope needs a name"
    assert str(error.where).startswith(f"{__file__}:")


@pytest.mark.parametrize("call", ["pipe", "apply_transform"])
def test_what_cannot_be_called_is_refused(call: str) -> None:
    error = refusal(lambda: getattr(NUMBERS, call)(doubled(NUMBERS)))
    assert error.message == f"{call} needs a function"
    assert str(error.where).startswith(f"{__file__}:")


def test_a_name_that_was_given_is_for_one_scope() -> None:
    named, alike = NUMBERS.apply_transform(sums, name="doubled"), NUMBERS.pipe(doubled)
    fault = fault_of(named, alike)
    assert fault.message == "the name 'doubled' is given to a scope, and another one has it"
    assert "test_scopes.py:" in fault.where
    # In different scopes names are different.
    ids(NUMBERS.pipe(lambda stream: stream.apply_transform(sums, name="doubled")), alike)


def test_names_of_steps_are_compared_with_their_scopes() -> None:
    ids(NUMBERS.pipe(doubled), NUMBERS.filter(lambda number: True, name="enough"))
    faults = faults_of(NUMBERS.pipe(doubled), NUMBERS.filter(lambda number: True, name="doubled/enough"))
    assert {fault.message for fault in faults} == {"the name 'doubled/enough' is given to several steps"}


def test_an_error_in_the_function_leaves_its_scope() -> None:
    def failing(numbers: DataStream[int]) -> DataStream[int]:
        numbers.map(lambda number: number)
        raise LookupError

    with pytest.raises(LookupError):
        NUMBERS.pipe(failing)
    assert ids(NUMBERS.map(lambda number: number))[1] == "2.map"


def test_threads_have_scopes_of_their_own() -> None:
    made: list[DataStream[int]] = []

    def beside(numbers: DataStream[int]) -> DataStream[int]:
        thread = Thread(target=lambda: made.append(doubled(numbers)))
        thread.start()
        thread.join()
        return numbers.map(lambda number: number)

    assert ids(NUMBERS.pipe(beside), *made)[1] == "2.beside/map"
    assert ids(*made)[1] == "2.map"


def test_state_is_stored_under_the_names_with_scopes() -> None:
    def named(numbers: DataStream[int]) -> DataStream[tuple[int, int]]:
        return numbers.key_by(lambda number: number).sum(lambda number: number, name="total")

    def state_ids(*streams: DataStream[Any]) -> list[str]:
        return list(PhysicalPlan(topology_of(plan(*streams))).state_ids.values())

    scoped = state_ids(NUMBERS.pipe(sums), NUMBERS.pipe(sums), NUMBERS.pipe(named), NUMBERS.pipe(named))
    assert scoped == ["#sums/process-1", "#sums#2/process-1", "named/total", "named#2/total"]
    outside = state_ids(NUMBERS.pipe(sums), sums(NUMBERS), sums(NUMBERS))
    assert outside == ["#sums/process-1", "#process-1", "#process-2"]


def test_counters_and_functions_see_the_names() -> None:
    seen: set[str] = set()

    class Counting(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            seen.add(runtime_context.step_name)
            self.numbers = runtime_context.metrics.counter("numbers")

        def map(self, value: int) -> int:
            self.numbers.inc()
            return value

    def counted(numbers: DataStream[int]) -> DataStream[int]:
        return numbers.map(Counting(), name="count").map(Counting())

    result = LocalRunner().run(plan(NUMBERS.pipe(counted)))
    assert result.counters == {"p.2.counted/count": {"numbers": 3}, "p.3.counted/map": {"numbers": 3}}
    assert seen == {"counted/count", "p.3.counted/map"}


def test_every_stage_takes_functions() -> None:
    """Each is handed to the function as it is."""
    keyed = NUMBERS.key_by(lambda number: number)
    windows = keyed.window(GlobalWindows.create_with_end_of_stream_trigger())
    joined = NUMBERS.join(NUMBERS)
    stages: list[Any] = [
        *(NUMBERS, keyed, windows, NUMBERS.connect(NUMBERS), keyed.connect(keyed), joined),
        *(joined.where(lambda number: number), NUMBERS.co_group(NUMBERS), keyed.interval_join(keyed)),
        *(keyed.as_of_join(keyed), keyed.left_as_of_join(keyed), NUMBERS.broadcast()),
        windows.side_output_late_data(OutputTag("late", int)),
    ]
    for stage in stages:
        assert stage.pipe(lambda given: given) is stage

    def total(given: KeyedStream[int, int]) -> DataStream[tuple[int, int]]:
        return given.sum(lambda number: number)

    assert ids(keyed.pipe(total))[2] == "3.total/process"
