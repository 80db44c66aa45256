"""Interval joins on columns make the pairs that the operator on Python objects makes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import millis, told
from tests.columnar.joined import TwoBatches, run, streams
from tests.columnar.planning import column_form
from tests.columnar.test_steps import TINY
from windrow import DataStream, OutputTag, Pipeline, joins
from windrow.errors import CheckpointError, InvalidArgumentError, UnsupportedOperationError
from windrow.functions import JoinFunction
from windrow.sinks import CollectSink
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.joins.ranges import Ranges, Side, near_in_time
from windrow_spark.storage.tuning import PortionTuning

# Any in this module: keys, elements and results of every type.


class Left(NamedTuple):
    key: str | None
    at: int
    number: int
    text: str | None


class Right(NamedTuple):
    code: str | None
    at: int
    level: float
    amount: int


class NumberedLeft(NamedTuple):
    key: int
    at: int
    number: int
    text: str | None


class NumberedRight(NamedTuple):
    code: int
    at: int
    level: float
    amount: int


class Pair(NamedTuple):
    key: Any
    text: str | None
    number: int
    amount: int
    level: float
    of_left: int
    of_right: int


class Typed(NamedTuple):
    key: Any
    number: int
    level: float


Build = Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]]

TEXTS: list[Any] = [*(f"key {n}" for n in range(12)), "", None]
NUMBERS: list[Any] = [*range(-3, 12), 2**62]


def everything() -> Any:
    return joins.into(
        Pair,
        joins.key(),
        joins.left(lambda e: e.text),
        joins.left(lambda e: e.number),
        joins.right(lambda e: e.amount),
        joins.right(lambda e: e.level),
        joins.left(lambda e: e.at),
        joins.right(lambda e: e.at),
    )


def joined(
    lower: int, upper: int, *, exclusive: str = "", function: Callable[[], Any] = everything, lateness: int = 0
) -> Build:
    def build(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        bounds = left.key_by(lambda e: e.key).interval_join(right.key_by(lambda e: e.code))
        found = bounds.between(millis(lower), millis(upper)).allowed_lateness(millis(lateness))
        if "l" in exclusive:
            found = found.lower_bound_exclusive()
        if "u" in exclusive:
            found = found.upper_bound_exclusive()
        stream: DataStream[Any] = found.apply(function())
        return stream

    return build


def typed() -> Any:
    return joins.into(
        Typed, level=joins.right(lambda e: e.level), key=joins.key(), number=joins.left(lambda e: e.number)
    )


PLANS: dict[str, Build] = {
    "around": joined(-40, 40),
    "later": joined(10, 90),
    "earlier": joined(-120, -30),
    "at once": joined(0, 0),
    "without bounds": joined(-40, 40, exclusive="lu"),
    "without the lower bound": joined(0, 60, exclusive="l"),
    "nothing": joined(5, 5, exclusive="lu"),
    "far": joined(-400, 1000),
    "around, and late": joined(-40, 40, lateness=50),
    "later, and late without the lower bound": joined(10, 90, exclusive="l", lateness=7),
    "earlier, and very late": joined(-120, -30, lateness=40),
    "by name": joined(-30, 70, function=typed),
    "a plain function": joined(
        -20, 20, function=lambda: joins.into(lambda *values: values, joins.key(), joins.left(lambda e: e.number))
    ),
}


def batches(chance: random.Random, keys: list[Any], sides: tuple[type[Any], type[Any]]) -> Iterator[TwoBatches]:
    """Batches of every size; time goes on by some 60 ms in each, with disorder; keys come and go."""
    for number in range(24):
        alive = keys if number % 10 < 6 else chance.sample(keys, 3)

        def element(of: type[Any], *values: Any, alive: list[Any] = alive, number: int = number) -> Any:
            return of(chance.choice(alive), (number - 3) * 60 + chance.randrange(-150, 60), *values)

        yield (
            [
                element(sides[0], chance.randrange(2**40), chance.choice([None, "", "a", "abc"]))
                for _ in range(chance.choice([0, 1, 7, 60]))
            ],
            [element(sides[1], chance.random(), chance.randrange(9)) for _ in range(chance.choice([0, 1, 7, 60]))],
        )


@pytest.mark.parametrize("keys", ["texts", "numbers"])
@pytest.mark.parametrize("name", PLANS)
def test_columns_give_what_the_operator_on_objects_gives(name: str, keys: str) -> None:
    tuning = replace(TINY, portions=PortionTuning(pairs=17))
    sides: tuple[type[Any], type[Any]] = (Left, Right) if keys == "texts" else (NumberedLeft, NumberedRight)
    inputs = batches(random.Random(len(name)), TEXTS if keys == "texts" else NUMBERS, sides)
    engine, expected, dropped = run(PLANS[name], sides, inputs, crash_at=2, tuning=tuning)
    assert len(expected) >= {"nothing": 0, "at once": 5}.get(name, 30)
    assert told(engine.results) == told(expected)
    assert engine.counted["late_records_dropped"] == dropped > 10
    assert set(engine.records.values()) == {None}


def test_elements_at_the_watermark_are_joined_until_it_advances() -> None:
    inputs: list[TwoBatches] = [
        ([Left("k", 100, 1, None)], [Right("k", 100, 0.5, 1)]),
        # The watermark has reached 100.
        ([Left("k", 100, 2, None)], []),
        ([], [Right("k", 100, 0.5, 2)]),
        ([], [Right("k", 101, 0.5, 3)]),
        ([Left("k", 101, 3, None)], []),
    ]
    engine, expected, _ = run(joined(0, 0), (Left, Right), inputs, late=0)
    assert told(engine.results) == told(expected)
    assert len(expected) == 2


def test_a_stream_is_joined_with_itself() -> None:
    def build(stream: DataStream[Any], other: DataStream[Any]) -> DataStream[Any]:
        keyed = stream.key_by(lambda e: e.key)
        return (
            keyed.interval_join(keyed)
            .between(millis(-5), millis(5))
            .apply(
                joins.into(lambda one, two: (one, two), joins.left(lambda e: e.number), joins.right(lambda e: e.number))
            )
        )

    form = form_of(build)
    assert isinstance(form, JoinForm)
    assert [route.side for route in form.routes] == [1, 2]
    assert len({route.source for route in form.routes}) == 1


def form_of(build: Build, sides: tuple[type[Any], type[Any]] = (Left, Right)) -> JoinForm | DeclinedError:
    topology = Topology(Pipeline("one join", build(*streams(*sides)).sink_to(CollectSink[Any]())).steps)
    (step,) = topology.keyed
    try:
        form = column_form(topology, step)
    except DeclinedError as declined:
        return declined
    assert isinstance(form, JoinForm)
    return form


class Method(JoinFunction[Any, Any, int]):
    def join(self, left: Any, right: Any) -> int:
        return 1


def behind(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    between = left.key_by(lambda e: e.key).interval_join(right.key_by(lambda e: e.code)).between(millis(0), millis(1))
    return between.side_output_left_late_data(OutputTag[Any]("late")).apply(everything())


def as_of(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    return left.key_by(lambda e: e.key).as_of_join(right.key_by(lambda e: e.code)).apply(everything())


DECLINED: dict[str, tuple[Build, str]] = {
    "a function": (joined(0, 1, function=lambda: lambda left, right: left), "not a join of windrow.joins"),
    "an object": (joined(0, 1, function=Method), "not a join of windrow.joins"),
    "late": (behind, "late elements leave one by one"),
    "as of": (as_of, "looks versions up one by one"),
    "a selector": (
        joined(0, 1, function=lambda: joins.into(lambda one: one, joins.left(lambda e: str(e.number)))),
        "the field one uses str",
    ),
    "a whole element": (
        joined(0, 1, function=lambda: joins.into(lambda one: one, joins.left(lambda e: e))),
        "the field one: takes the whole element",
    ),
    "a timestamp": (lambda left, right: joined(0, 1)(left.map(lambda e: e).returns(Left), right), "the map"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_joins_that_columns_decline_say_why(name: str) -> None:
    build, reason = DECLINED[name]
    form = form_of(build)
    assert isinstance(form, DeclinedError)
    assert reason in str(form)


def test_keys_of_other_columns_are_refused() -> None:
    """What annotations tell is known when the plan is built; keys of other kinds of numbers have other columns."""
    with pytest.raises(InvalidArgumentError, match=r"keys of both streams(.|\n)*given: +str \| None and int"):
        form_of(joined(0, 1), (Left, NumberedRight))

    def by_level(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        bounds = left.key_by(lambda e: e.number).interval_join(right.key_by(lambda e: e.amount > 3))
        stream: DataStream[Any] = bounds.between(millis(0), millis(1)).apply(everything())
        return stream

    form = form_of(by_level)
    assert isinstance(form, DeclinedError)


def test_state_holds_what_the_result_takes_and_no_more() -> None:
    form = form_of(joined(0, 1, function=typed))
    assert isinstance(form, JoinForm)
    assert str(form.describe()) == "columns, pairs as elements arrive"
    assert form.state_text == "string, int64, int8, int64, double: left .number in 0, right .level in 1"
    swapped = form_of(
        joined(
            0,
            1,
            function=lambda: joins.into(
                Typed, joins.key(), joins.left(lambda e: e.number), joins.right(lambda e: e.level)
            ),
        )
    )
    assert isinstance(swapped, JoinForm)
    assert swapped.state_text == form.state_text
    all_of_it = form_of(joined(0, 1))
    assert isinstance(all_of_it, JoinForm)
    # A slot is shared by what both sides have of one type.
    assert [str(kind) for kind in all_of_it.slots.types] == ["int64", "int64", "string", "double"]


def test_a_result_that_is_refused_names_the_key() -> None:
    def refuse(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number

    build = joined(0, 5, function=lambda: joins.into(refuse, joins.left(lambda e: e.number)))
    inputs: list[TwoBatches] = [([Left("k", 0, 7, None)], [Right("k", 1, 0.5, 1)])]
    with pytest.raises(Exception, match="seven") as failed:
        run(build, (Left, Right), inputs)
    assert "key" in str(failed.value)


def test_timestamps_that_are_too_far_away_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="too far away"):
        run(joined(0, 5), (Left, Right), [([Left("k", 2**62, 7, None)], [])])


def test_damaged_rows_are_refused() -> None:
    form = form_of(joined(0, 1, function=typed))
    assert isinstance(form, JoinForm)
    rows = pa.RecordBatch.from_pylist([{"key": "k", "at": 1, "side": 3}], form.operator.schema)
    with pytest.raises(CheckpointError, match="of no stream"):
        form.operator.check(rows)


@pytest.mark.parametrize("scale", [1, 2**50])
def test_pairs_are_those_within_bounds(scale: int) -> None:
    """Timestamps that are far apart are compared by their order."""
    chance = np.random.default_rng(3)
    for _ in range(50):
        sizes = chance.integers(0, 30, 2)
        sides = [Side(chance.integers(0, 4, size), chance.integers(-9, 9, size) * scale) for size in sizes]
        lower, upper = (int(bound) * scale for bound in chance.integers(-6, 6, 2))
        found = near_in_time(sides[0], sides[1], 4, lower, upper)
        pairs = [
            (int(found.rows[place]), int(found.others[partner]))
            for places, partners in found.portions(7)
            for place, partner in zip(places, partners, strict=True)
        ]
        wanted = [
            (one, other)
            for one in range(sizes[0])
            for other in range(sizes[1])
            if sides[0].codes[one] == sides[1].codes[other]
            and lower <= sides[1].stamps[other] - sides[0].stamps[one] <= upper
        ]
        assert sorted(pairs) == wanted


def test_portions_cut_runs() -> None:
    two = np.arange(2)
    ranges = Ranges(two, two, np.array([5, 0]), np.array([4, 3]))
    found = [(places.tolist(), partners.tolist()) for places, partners in ranges.portions(3)]
    assert found == [([0, 0, 0], [5, 6, 7]), ([0, 1, 1], [8, 0, 1]), ([1], [2])]
