"""Joins by interval and as of a time, step by step: what the cases of tests/two_inputs do not have.

``a``, ``b`` are orders, ``x``, ``y`` payments, each with its second; ``^`` is the watermark of both streams.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from tests.budget import seeds
from tests.two_streams.shop import (
    KEYED_ORDERS,
    KEYED_PAYMENTS,
    LATE_ORDERS,
    LATE_PAYMENTS,
    ORDERS,
    PAYMENTS,
    Order,
    Payment,
    driven,
    feed,
    maybe_pair,
    pair,
    seconds,
    story,
)
from windrow import OutputTag, Pipeline
from windrow.builder.interval_join import AsOfJoin, IntervalJoined, LeftAsOfJoin
from windrow.errors import InvalidArgumentError
from windrow.functions import ProcessJoinContext, ProcessJoinFunction
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.testing import StreamHarness


def within(lower: float, upper: float) -> IntervalJoined[Order, Payment, str]:
    return KEYED_ORDERS.interval_join(KEYED_PAYMENTS).between(seconds(lower), seconds(upper))


AS_OF: AsOfJoin[Order, Payment, str] = KEYED_ORDERS.as_of_join(KEYED_PAYMENTS)
OUTER: LeftAsOfJoin[Order, Payment, str] = KEYED_ORDERS.left_as_of_join(KEYED_PAYMENTS)


# Any: stages of all kinds.
def with_tags(stage: Any) -> Any:
    return stage.side_output_left_late_data(LATE_ORDERS).side_output_right_late_data(LATE_PAYMENTS)


STORIES: dict[str, tuple[Any, str, dict[str, str]]] = {
    "late elements join nothing, though a is held until 7": (
        within(-1, 5),
        "a2 ^4 x3 b3",
        {"x3": "dropped", "b3": "dropped"},
    ),
    "late elements of the left have an output": (
        within(-1, 5).side_output_left_late_data(LATE_ORDERS),
        "a2 ^4 x3 b3",
        {"x3": "dropped", "b3": "late b"},
    ),
    "late elements of the right have an output": (
        within(-1, 5).side_output_right_late_data(LATE_PAYMENTS),
        "a2 ^4 x3 b3",
        {"x3": "late x", "b3": "dropped"},
    ),
    "late elements of both have outputs": (with_tags(within(-1, 5)), "a2 ^4 x3 b3", {"x3": "late x", "b3": "late b"}),
    "late elements join within the allowed lateness, up to the bound of a": (
        within(-1, 1).allowed_lateness(seconds(3)),
        "a2 ^4 x1 y3 z0.9 ^6 u3",
        {"x1": "ax@2", "y3": "ay@3", "z0.9": "dropped", "u3": "au@3"},
    ),
    "each left element takes the version that held": (
        AS_OF,
        "c5 a1 b3 x4 v0 w2 u2/south ^4.999 ^5",
        {"^4.999": "av@1, bw@3", "^5": "cx@5"},
    ),
    "of versions with one timestamp the last counts, behind the order too": (AS_OF, "x2 a2 y2 ^2", {"^2": "ay@2"}),
    "a left element without a version": (AS_OF, "a1 x2 b3 ^3", {"^3": "bx@3"}),
    "a left element without a version, outer": (OUTER, "a1 x2 b3 ^3", {"^3": "a-@1, bx@3"}),
    "late elements": (AS_OF, "^2 a1 x1", {"a1": "dropped", "x1": "dropped"}),
    "late elements have outputs": (with_tags(AS_OF), "^2 a1 x1", {"a1": "late a", "x1": "late x"}),
    "late elements have outputs, outer": (with_tags(OUTER), "^2 a1 x1", {"a1": "late a", "x1": "late x"}),
    "an outer join drops no late left element: they get the versions that are kept": (
        OUTER,
        "u0 w2 y3.5 a3 ^3 c2 b1 | ^4",
        {"^3": "aw@3", "^4": "b-@1, cw@2"},
    ),
    "versions are kept for the allowed lateness": (
        AS_OF.allowed_lateness(seconds(2)),
        "y0 w2 ^3 b1 c2 e1.7 x1.5 ^4 d1 ^5",
        {"^4": "by@1, ex@1.7, cw@2", "d1": "dropped"},
    ),
    "versions are kept for the allowed lateness, outer": (
        OUTER.allowed_lateness(seconds(2)),
        "y0 w2 ^3 b1 c2 e1.7 x1.5 ^4 d1 ^5",
        {"^4": "by@1, ex@1.7, cw@2", "^5": "d-@1"},
    ),
    "versions survive snapshots": (OUTER, "a0 b3 | x1 ^2 | ^4", {"^2": "a-@0", "^4": "bx@3"}),
    "orders wait for versions": (AS_OF, "a3 orders^4 x0 payments^2 y2 payments^4", {"payments^4": "ay@3"}),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_comes_out_when(name: str) -> None:
    stage, moves, expected = STORIES[name]
    assert story(stage.apply(maybe_pair), moves) == expected


def test_elements_go_when_no_partner_can_come() -> None:
    def timers(harness: StreamHarness[Any, Any], moves: str) -> tuple[list[str], list[int]]:
        feed(harness, moves)
        return harness.take_values(), [timer.time for timer in harness.event_timers()]

    with driven(within(-1, 3).apply(pair)) as harness:
        assert timers(harness, "a1") == ([], [4_000])
        assert timers(harness, "x2") == (["ax"], [3_000])
        assert timers(harness, "^2.999") == ([], [3_000])
        assert timers(harness, "^3") == ([], [4_000])
        feed(harness, "b3 y3")
        assert harness.take_values() == ["ay", "by"]
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.event_timers() == []
    with driven(within(-1, 1).allowed_lateness(seconds(3)).apply(pair)) as harness:
        assert timers(harness, "a2") == ([], [6_001])
        assert timers(harness, "^4 x1 y3 ^6 u3 ^7.001") == (["ax", "ay", "au"], [])


def test_versions_go_when_a_later_one_holds() -> None:
    with driven(AS_OF.apply(pair)) as harness:
        feed(harness, "u0 v1 w2 ^3 x1 a4 ^4")
        assert harness.take_values() == ["aw"]
        assert harness.counter("late_records_dropped") == 1
        # Any: the state of the operator, which has no public view.
        operators: Any = harness._execution.operators
        (operator,) = operators.values()
        (state,) = operator.state.keys.values()
        assert state.state == {"right": [[2_000], [Payment("north", "w")]]}


@pytest.mark.parametrize("stage", [within(0, 1), AS_OF], ids=["interval", "as of"])
def test_the_late_elements_of_a_side_have_its_type(stage: Any) -> None:
    tag = OutputTag[Payment]("late")
    assert stage.side_output_right_late_data(tag).apply(pair).get_side_output(tag).element_type is Payment


class Delays(ProcessJoinFunction[Order, Payment, str]):
    """Says how long a payment took, and puts out those that were fast."""

    fast = OutputTag("fast", str)

    def process_element(self, left: Order, right: Payment, context: ProcessJoinContext) -> Iterable[str] | None:
        delay = context.right_timestamp - context.left_timestamp
        assert context.timestamp == max(context.left_timestamp, context.right_timestamp)
        if delay < 1_000:
            context.output(self.fast, left.name)
            return None
        return [f"{left.name} {delay}", f"{right.name} {delay}"]


def test_a_process_function_sees_both_timestamps() -> None:
    stream = within(-1, 5).process(Delays())
    assert story(stream, "a0 x2 y2.5 b2") == {"x2": "a 2000@2, x 2000@2", "y2.5": "a 2500@2.5, y 2500@2.5"}
    with driven(stream) as harness:
        feed(harness, "a0 x2 y2.5 b2")
        fast = [(each.value, each.timestamp) for each in harness.take_side_output(Delays.fast)]
        assert fast == [("b", 2_000), ("b", 2_500)]


@pytest.mark.parametrize("stage", [within(0, 1), AS_OF, OUTER], ids=lambda stage: type(stage).__name__)
def test_the_allowed_lateness_is_one_duration(stage: Any) -> None:
    for wrong in (seconds(-1), 5):
        with pytest.raises(InvalidArgumentError, match="the allowed lateness must"):
            stage.allowed_lateness(wrong)
    with pytest.raises(InvalidArgumentError, match=r"set twice(.|\n)*2 s, then 1 s"):
        stage.allowed_lateness(seconds(2)).allowed_lateness(seconds(1))
    for_ever = stage.allowed_lateness(timedelta.max).apply(maybe_pair)
    (result,) = story(for_ever, "x1 ^9000 a1 ^9000.001").values()
    assert result == "ax@1"
    assert "allowed lateness for ever" in Pipeline("p", for_ever.sink_to(CollectSink())).explain()


@pytest.mark.parametrize("lateness", [0, 3, 9])
@pytest.mark.parametrize("outer", [False, True])
def test_as_of_joins_give_what_a_search_through_all_versions_gives(lateness: int, outer: bool) -> None:
    chance = random.Random(lateness)
    for _ in seeds(12):
        stage: Any = OUTER if outer else AS_OF
        versions: list[int] = []
        waiting: dict[str, int] = {}
        too_late: dict[str, int] = {}
        expected: dict[str, int | None] = {}
        watermark = -1
        with driven(stage.allowed_lateness(timedelta(milliseconds=lateness)).apply(version_of)) as harness:
            for number in range(90):
                kind, at = chance.choice(["left", "right", "time"]), chance.randrange(20) + number // 2
                if number == 89:
                    kind, at = "time", 200
                if kind == "time" and at > watermark:
                    watermark = at
                    harness.process_watermark(watermark)
                    for name in [name for name, left in waiting.items() if left <= watermark]:
                        left = waiting.pop(name)
                        expected[name] = max((version for version in versions if version <= left), default=None)
                elif kind == "left":
                    (too_late if at < watermark - lateness else waiting)[str(number)] = at
                    harness.process_element(Order("north", str(number)), at, source=ORDERS)
                elif kind == "right":
                    versions += [] if at < watermark - lateness else [at]
                    harness.process_element(Payment("north", str(at)), at, source=PAYMENTS)
            found = dict(harness.take_values())
        for name, left in too_late.items() if outer else ():
            version = found.pop(name)  # of the versions that are still there
            assert version is None or (version in versions and version <= left)
        assert found == {name: version for name, version in expected.items() if outer or version is not None}


def version_of(order: Order, payment: Payment | None) -> tuple[str, int | None]:
    return order.name, None if payment is None else int(payment.name)
