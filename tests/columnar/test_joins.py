"""Joins of two streams on columns, by time and by window, make the pairs that the operators on objects make."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import Times, millis, told
from tests.columnar.joined import (
    NUMBERS,
    TEXTS,
    Build,
    Left,
    NumberedLeft,
    NumberedRight,
    Right,
    TwoBatches,
    batches,
    engine_of,
    join_form,
    run,
)
from tests.columnar.window_steps import TINY, sessions, sliding, tumbling, tumbling_clock
from windrow import DataStream, OutputTag, joins
from windrow.errors import CheckpointError, InvalidArgumentError, UnsupportedOperationError
from windrow.evictors import CountEvictor
from windrow.functions import JoinFunction
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, after_count, after_watermark
from windrow.windows import GlobalWindows
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.result_type import result_type
from windrow_spark.columnar.joins.ranges import Ranges, Side, near_in_time
from windrow_spark.storage.tuning import PortionTuning

# Any in this module: keys, elements, windows and results of every type.


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


class Matched(NamedTuple):
    key: Any
    number: int | None
    text: str | None
    level: float | None
    amount: int | None


EVERYTHING: Any = joins.into(
    Pair,
    joins.key(),
    joins.left(lambda e: e.text),
    joins.left(lambda e: e.number),
    joins.right(lambda e: e.amount),
    joins.right(lambda e: e.level),
    joins.left(lambda e: e.at),
    joins.right(lambda e: e.at),
)
BY_NAME: Any = joins.into(
    Typed, level=joins.right(lambda e: e.level), key=joins.key(), number=joins.left(lambda e: e.number)
)
IN_ORDER: Any = joins.into(Typed, joins.key(), joins.left(lambda e: e.number), joins.right(lambda e: e.level))
MATCHED: Any = joins.into(
    Matched,
    joins.key(),
    joins.left_or_none(lambda e: e.number),
    joins.left_or_none(lambda e: e.text),
    joins.right_or_none(lambda e: e.level),
    joins.right_or_none(lambda e: e.amount),
)


def between(
    lower: int,
    upper: int,
    *,
    exclusive: str = "",
    function: Any = EVERYTHING,
    lateness: int = 0,
    late: bool = False,
    outer: str = "",
) -> Build:
    """A join by time."""

    def build(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        bounds = left.key_by(lambda e: e.key).interval_join(right.key_by(lambda e: e.code))
        found = bounds.between(millis(lower), millis(upper)).allowed_lateness(millis(lateness))
        if "l" in exclusive:
            found = found.lower_bound_exclusive()
        if "u" in exclusive:
            found = found.upper_bound_exclusive()
        if late:
            found = found.side_output_left_late_data(OutputTag[Any]("late"))
        # Any: outer joins have functions of other types.
        stage: Any = getattr(found, outer)() if outer else found
        stream: DataStream[Any] = stage.apply(MATCHED if outer else function)
        return stream

    return build


def in_windows(
    assigner: Any, kind: str = "join", stage: Callable[[Any], Any] = lambda windows: windows, function: Any = MATCHED
) -> Build:
    """A join by window."""

    def build(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        two: Any = getattr(left, kind)(right)
        windows = stage(two.where(lambda e: e.key).equal_to(lambda e: e.code).window(assigner))
        stream: DataStream[Any] = windows.apply(function)
        return stream

    return build


BY_TIME: dict[str, Build] = {
    "around": between(-40, 40),
    "later": between(10, 90),
    "earlier": between(-120, -30),
    "at once": between(0, 0),
    "without bounds": between(-40, 40, exclusive="lu"),
    "without the lower bound": between(0, 60, exclusive="l"),
    "nothing": between(5, 5, exclusive="lu"),
    "far": between(-400, 1000),
    "around, and late": between(-40, 40, lateness=50),
    "later, and late without the lower bound": between(10, 90, exclusive="l", lateness=7),
    "earlier, and very late": between(-120, -30, lateness=40),
    "by name": between(-30, 70, function=BY_NAME),
    **{f"{kind} around": between(-40, 40, outer=kind) for kind in ("left", "right", "full")},
    **{f"{kind} later": between(10, 90, exclusive="l", outer=kind) for kind in ("left", "right", "full")},
    **{f"{kind} earlier, and late": between(-120, -30, lateness=40, outer=kind) for kind in ("left", "full")},
    "full nothing": between(5, 5, exclusive="lu", outer="full"),
    "full far": between(-400, 1000, outer="full"),
    "a plain function": between(
        -20, 20, function=joins.into(lambda *values: values, joins.key(), joins.left(lambda e: e.number))
    ),
}


@pytest.mark.parametrize("keys", ["texts", "numbers"])
@pytest.mark.parametrize("name", BY_TIME)
def test_joins_by_time_give_what_the_operator_on_objects_gives(name: str, keys: str) -> None:
    tuning = replace(TINY, portions=PortionTuning(pairs=17))
    sides: tuple[type[Any], type[Any]] = (Left, Right) if keys == "texts" else (NumberedLeft, NumberedRight)
    inputs = batches(random.Random(len(name)), TEXTS if keys == "texts" else NUMBERS, sides)
    engine, expected, dropped = run(BY_TIME[name], sides, inputs, crash_at=2, tuning=tuning)
    assert len(expected) >= {"nothing": 0, "at once": 1}.get(name, 20)
    assert told(engine.results) == told(expected)
    assert engine.counted["late_records_dropped"] == dropped > 5
    assert set(engine.records.values()) == {None}


ASSIGNERS: dict[str, Any] = {
    "tumbling": tumbling(100, -7),
    "sliding": sliding(90, 30, 3),
    "sliding unevenly": sliding(70, 30),
}


@pytest.mark.parametrize("portion", [1, 1 << 18])
@pytest.mark.parametrize("kind", ["join", "left_join", "right_join", "full_join"])
@pytest.mark.parametrize("name", ASSIGNERS)
def test_joins_by_window_give_what_the_general_operator_gives(name: str, kind: str, portion: int) -> None:
    tuning = replace(TINY, portions=PortionTuning(pairs=13, joined_rows=portion))
    too_late: TwoBatches = [Left("key 1", 0, 1, None)], [Right("key 1", 0, 0.5, 1)]
    inputs = [*batches(random.Random(len(name) + portion), TEXTS, (Left, Right)), too_late]
    engine, expected, dropped = run(in_windows(ASSIGNERS[name], kind), (Left, Right), inputs, crash_at=2, tuning=tuning)
    assert len(expected) > 50
    assert told(engine.results) == told(expected)
    assert engine.counted["late_records_dropped"] == dropped >= 2
    assert set(engine.records.values()) == {None}


def test_windows_fire_one_by_one_over_a_long_time() -> None:
    inputs: list[TwoBatches] = [
        ([Left("k", number * 10**7, number, None) for number in range(5)], []),
        ([], [Right("k", 10**7 * number, 0.5, number) for number in range(4, 9)]),
    ]
    engine, expected, _ = run(in_windows(ASSIGNERS["sliding"], "full_join"), (Left, Right), inputs)
    assert told(engine.results) == told(expected)


def test_elements_at_the_watermark_are_joined_until_it_advances() -> None:
    inputs: list[TwoBatches] = [
        ([Left("k", 100, 1, None)], [Right("k", 100, 0.5, 1)]),
        # The watermark has reached 100.
        ([Left("k", 100, 2, None)], []),
        ([], [Right("k", 100, 0.5, 2)]),
        ([], [Right("k", 101, 0.5, 3)]),
        ([Left("k", 101, 3, None)], []),
    ]
    engine, expected, _ = run(between(0, 0), (Left, Right), inputs, late=0)
    assert told(engine.results) == told(expected)
    assert len(expected) == 2


def test_elements_without_a_partner_come_in_the_batch_that_decides_them() -> None:
    _, engine = engine_of(between(-5, 40, outer="full"), (Left, Right), TINY)
    inputs: list[TwoBatches] = [
        ([Left("k", 100, 1, None), Left("l", 130, 2, None)], [Right("m", 101, 0.5, 1), Right("k", 131, 0.5, 3)]),
        ([], []),
        ([Left("l", 150, 3, None)], [Right("l", 160, 0.5, 2)]),
        ([], []),
        ([], []),
    ]
    counts = []
    time = Times(MIN_TIMESTAMP, 0)
    for number, (elements, watermark) in enumerate(
        zip(inputs, (MIN_TIMESTAMP, 106, 107, 171, MAX_TIMESTAMP), strict=True)
    ):
        following = Times(watermark, number)
        engine.batch(elements, time, following, 1, crash=False)
        time = following
        counts.append(len(engine.results))
    # The pair of k; m at 107; both pairs of l; nothing else.
    assert counts == [1, 1, 4, 4, 4]


def test_a_stream_is_joined_with_itself() -> None:
    def build(stream: DataStream[Any], other: DataStream[Any]) -> DataStream[Any]:
        keyed = stream.key_by(lambda e: e.key)
        both: Any = joins.into(
            lambda one, two: (one, two), joins.left(lambda e: e.number), joins.right(lambda e: e.number)
        )
        return keyed.interval_join(keyed).between(millis(-5), millis(5)).apply(both)

    form = join_form(build)
    assert [route.side for route in form.routes] == [1, 2]
    assert len({route.source for route in form.routes}) == 1


class Method(JoinFunction[Any, Any, int]):
    def join(self, left: Any, right: Any) -> int:
        return 1


def as_of(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    return left.key_by(lambda e: e.key).as_of_join(right.key_by(lambda e: e.code)).apply(EVERYTHING)


def for_ever(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    bounds = left.key_by(lambda e: e.key).interval_join(right.key_by(lambda e: e.code))
    stream: DataStream[Any] = bounds.between(timedelta(0), timedelta.max).apply(EVERYTHING)
    return stream


def by_other_columns(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
    """What annotations tell is known when the plan is built; keys of other kinds of numbers have other columns."""
    bounds = left.key_by(lambda e: e.number).interval_join(right.key_by(lambda e: e.amount > 3))
    stream: DataStream[Any] = bounds.between(millis(0), millis(1)).apply(EVERYTHING)
    return stream


def staged(stage: Callable[[Any], Any]) -> Build:
    return in_windows(ASSIGNERS["tumbling"], stage=stage)


NOT_BY_END = ", not by their end"
DECLINED: dict[str, tuple[Build, str]] = {
    "a function": (between(0, 1, function=lambda left, right: left), "not a join of windrow.joins"),
    "an object": (between(0, 1, function=Method()), "not a join of windrow.joins"),
    "for ever": (for_ever, "its elements stay for ever"),
    "late by time": (between(0, 1, late=True), "late elements leave one by one"),
    "as of": (as_of, "looks versions up one by one"),
    "a selector": (
        between(0, 1, function=joins.into(lambda one: one, joins.left(lambda e: str(e.number)))),
        "the field one uses str",
    ),
    "a whole element": (
        between(0, 1, function=joins.into(lambda one: one, joins.left(lambda e: e))),
        "the field one: takes the whole element",
    ),
    "a timestamp": (lambda left, right: between(0, 1)(left.map(lambda e: e).returns(Left), right), "the map"),
    "other columns": (by_other_columns, "the keys of both streams have other columns"),
    "sessions": (in_windows(sessions(50)), "sessions merge"),
    "the clock": (in_windows(tumbling_clock(50, 0)), "ProcessingTimeTrigger, not by their end"),
    "all time": (
        in_windows(GlobalWindows.create(), stage=lambda windows: windows.trigger(CountTrigger.of(2))),
        NOT_BY_END,
    ),
    "counting": (staged(lambda windows: windows.trigger(CountTrigger.of(2), may_lose_data=True)), NOT_BY_END),
    "panes": (staged(lambda windows: windows.trigger(after_watermark(early=after_count(2)))), NOT_BY_END),
    "an evictor": (staged(lambda windows: windows.evictor(CountEvictor.of(2))), "an evictor sees each element"),
    "lateness": (staged(lambda windows: windows.allowed_lateness(millis(5))), "late elements leave"),
    "late elements": (
        staged(lambda windows: windows.side_output_left_late_data(OutputTag[Any]("late"))),
        "late elements leave",
    ),
    "a function of pairs": (
        in_windows(ASSIGNERS["tumbling"], function=lambda one, other: (one, other)),
        "not a join of windrow.joins",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_joins_that_columns_decline_say_why(name: str) -> None:
    build, reason = DECLINED[name]
    with pytest.raises(DeclinedError) as declined:
        join_form(build)
    assert reason in str(declined.value)


def test_keys_of_other_types_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"keys of both streams(.|\n)*given: +str \| None and int"):
        join_form(between(0, 1), (Left, NumberedRight))


def test_a_purging_trigger_at_the_end_makes_no_difference() -> None:
    form = join_form(staged(lambda windows: windows.trigger(PurgingTrigger.of(EventTimeTrigger()))))
    assert str(form.describe()) == "columns, pairs as windows end"


@pytest.mark.parametrize(
    ("kind", "nullable"), [("left_join", {"key", "text", "level", "amount"}), ("right_join", {"key", "text", "number"})]
)
def test_a_side_that_may_be_missing_gives_fields_that_may_be_none(kind: str, nullable: set[str]) -> None:
    columns = result_type(join_form(in_windows(ASSIGNERS["tumbling"], kind))).columns
    assert {field.name for field in columns if field.type.nullable} == nullable


def test_state_holds_what_the_result_takes_and_no_more() -> None:
    form = join_form(between(0, 1, function=BY_NAME))
    assert str(form.describe()) == "columns, pairs as elements arrive"
    assert form.state_text == "string, int64, int8, int64, double: left .number in 0, right .level in 1"
    assert join_form(between(0, 1, function=IN_ORDER)).state_text == form.state_text
    # A slot is shared by what both sides have of one type.
    assert [str(kind) for kind in join_form(between(0, 1)).slots.types] == ["int64", "int64", "string", "double"]


def test_a_result_that_is_refused_names_the_key() -> None:
    def refuse(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number

    build = between(0, 5, function=joins.into(refuse, joins.left(lambda e: e.number)))
    inputs: list[TwoBatches] = [([Left("k", 0, 7, None)], [Right("k", 1, 0.5, 1)])]
    with pytest.raises(Exception, match="seven") as failed:
        run(build, (Left, Right), inputs)
    assert "key" in str(failed.value)


def test_timestamps_that_are_too_far_away_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="too far away"):
        run(between(0, 5), (Left, Right), [([Left("k", 2**62, 7, None)], [])])


def test_damaged_rows_are_refused() -> None:
    operator = join_form(between(0, 1, function=BY_NAME)).operator
    rows = pa.RecordBatch.from_pylist([{"key": "k", "at": 1, "side": 3}], operator.schema)
    with pytest.raises(CheckpointError, match="of no stream"):
        operator.check(rows)


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
