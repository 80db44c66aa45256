"""Joins of two streams by window on columns make the pairs that the general operator makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tests.columnar.engine import millis, told
from tests.columnar.joined import TwoBatches, run
from tests.columnar.test_interval_joins import TEXTS, Left, Right, batches, form_of
from tests.columnar.test_steps import TINY
from windrow import DataStream, OutputTag, joins
from windrow.evictors import CountEvictor
from windrow.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, after_count, after_watermark
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.forms.result_type import result_type
from windrow_spark.storage.tuning import PortionTuning

# Any in this module: windows and results of every type.

Build = Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]]


class Matched(NamedTuple):
    key: str | None
    number: int | None
    text: str | None
    level: float | None
    amount: int | None


def matched() -> Any:
    return joins.into(
        Matched,
        joins.key(),
        joins.left_or_none(lambda e: e.number),
        joins.left_or_none(lambda e: e.text),
        joins.right_or_none(lambda e: e.level),
        joins.right_or_none(lambda e: e.amount),
    )


def joined(assigner: Any, kind: str = "join", stage: Callable[[Any], Any] = lambda windows: windows) -> Build:
    def build(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        two: Any = getattr(left, kind)(right)
        windows = stage(two.where(lambda e: e.key).equal_to(lambda e: e.code).window(assigner))
        stream: DataStream[Any] = windows.apply(matched())
        return stream

    return build


ASSIGNERS: dict[str, Any] = {
    "tumbling": TumblingEventTimeWindows.of(millis(100), millis(-7)),
    "sliding": SlidingEventTimeWindows.of(millis(90), millis(30), millis(3)),
    "sliding unevenly": SlidingEventTimeWindows.of(millis(70), millis(30)),
}


@pytest.mark.parametrize("portion", [1, 1 << 18])
@pytest.mark.parametrize("kind", ["join", "left_join", "right_join", "full_join"])
@pytest.mark.parametrize("name", ASSIGNERS)
def test_columns_give_what_the_general_operator_gives(name: str, kind: str, portion: int) -> None:
    tuning = replace(TINY, portions=PortionTuning(pairs=13, joined_rows=portion))
    too_late: TwoBatches = [Left("key 1", 0, 1, None)], [Right("key 1", 0, 0.5, 1)]
    inputs = [*batches(random.Random(len(name) + portion), TEXTS, (Left, Right)), too_late]
    engine, expected, dropped = run(joined(ASSIGNERS[name], kind), (Left, Right), inputs, crash_at=2, tuning=tuning)
    assert len(expected) > 100
    assert told(engine.results) == told(expected)
    assert engine.counted["late_records_dropped"] == dropped >= 2
    assert set(engine.records.values()) == {None}


def test_windows_fire_one_by_one_over_a_long_time() -> None:
    inputs: list[TwoBatches] = [
        ([Left("k", number * 10**7, number, None) for number in range(5)], []),
        ([], [Right("k", 10**7 * number, 0.5, number) for number in range(4, 9)]),
    ]
    engine, expected, _ = run(joined(ASSIGNERS["sliding"], "full_join"), (Left, Right), inputs)
    assert told(engine.results) == told(expected)


DECLINED: dict[str, tuple[Build, str]] = {
    "sessions": (joined(EventTimeSessionWindows.with_gap(millis(50))), "sessions merge"),
    "the clock": (joined(TumblingProcessingTimeWindows.of(millis(50))), "ProcessingTimeTrigger, not by their end"),
    "all time": (
        joined(GlobalWindows.create(), stage=lambda windows: windows.trigger(CountTrigger.of(2))),
        ", not by their end",
    ),
    "counting": (
        joined(ASSIGNERS["tumbling"], stage=lambda windows: windows.trigger(CountTrigger.of(2), may_lose_data=True)),
        ", not by their end",
    ),
    "an evictor": (
        joined(ASSIGNERS["tumbling"], stage=lambda windows: windows.evictor(CountEvictor.of(2))),
        "an evictor sees each element",
    ),
    "lateness": (
        joined(ASSIGNERS["tumbling"], stage=lambda windows: windows.allowed_lateness(millis(5))),
        "late elements leave",
    ),
    "late elements": (
        joined(ASSIGNERS["tumbling"], stage=lambda windows: windows.side_output_left_late_data(OutputTag[Any]("late"))),
        "late elements leave",
    ),
    "panes": (
        joined(ASSIGNERS["tumbling"], stage=lambda windows: windows.trigger(after_watermark(early=after_count(2)))),
        ", not by their end",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_joins_that_columns_decline_say_why(name: str) -> None:
    build, reason = DECLINED[name]
    form = form_of(build)
    assert isinstance(form, DeclinedError)
    assert reason in str(form)


def test_a_function_of_pairs_runs_on_objects() -> None:
    def build(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        where = left.join(right).where(lambda e: e.key).equal_to(lambda e: e.code)
        stream: DataStream[Any] = where.window(ASSIGNERS["tumbling"]).apply(lambda one, other: (one, other))
        return stream

    form = form_of(build)
    assert isinstance(form, DeclinedError)
    assert "not a join of windrow.joins" in str(form)


def test_a_purging_trigger_at_the_end_makes_no_difference() -> None:
    build = joined(ASSIGNERS["tumbling"], stage=lambda windows: windows.trigger(PurgingTrigger.of(EventTimeTrigger())))
    form = form_of(build)
    assert isinstance(form, JoinForm)
    assert str(form.describe()) == "columns, pairs as windows end"


def test_a_side_that_may_be_missing_gives_fields_that_may_be_none() -> None:
    form = form_of(joined(ASSIGNERS["tumbling"], "left_join"))
    assert isinstance(form, JoinForm)
    nullable = {field.name: field.type.nullable for field in result_type(form).columns}
    assert nullable == {"key": True, "number": False, "text": True, "level": True, "amount": True}
    form = form_of(joined(ASSIGNERS["tumbling"], "right_join"))
    assert isinstance(form, JoinForm)
    nullable = {field.name: field.type.nullable for field in result_type(form).columns}
    assert nullable["number"]
