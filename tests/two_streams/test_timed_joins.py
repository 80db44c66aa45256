"""Joins by interval and as of a time, step by step: what the cases of tests/two_inputs do not have.

Above each test stands its time line, in seconds: ``a``, ``b`` are orders, ``x``, ``y`` payments; ``^`` is the watermark
of both streams.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from tests.two_streams.shop import (
    LATE_ORDERS,
    LATE_PAYMENTS,
    ORDER_STREAM,
    ORDERS,
    PAYMENT_STREAM,
    PAYMENTS,
    Order,
    Payment,
    driven,
    maybe_pair,
    order,
    order_key,
    pair,
    pay,
    payment_key,
    seconds,
    values,
)
from windrow import OutputTag, Pipeline
from windrow.builder.interval_join import AsOfJoin, IntervalJoined, LeftAsOfJoin
from windrow.errors import InvalidArgumentError
from windrow.functions import ProcessJoinContext, ProcessJoinFunction
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.testing import StreamHarness

KEYED_ORDERS, KEYED_PAYMENTS = ORDER_STREAM.key_by(order_key), PAYMENT_STREAM.key_by(payment_key)


def within(lower: float, upper: float) -> IntervalJoined[Order, Payment, str]:
    return KEYED_ORDERS.interval_join(KEYED_PAYMENTS).between(seconds(lower), seconds(upper))


def as_of() -> AsOfJoin[Order, Payment, str]:
    return KEYED_ORDERS.as_of_join(KEYED_PAYMENTS)


def left_as_of() -> LeftAsOfJoin[Order, Payment, str]:
    return KEYED_ORDERS.left_as_of_join(KEYED_PAYMENTS)


def timers(harness: StreamHarness[Any, Any]) -> list[int]:
    return [timer.time for timer in harness.event_timers()]


# time       0  1  2  3  4  5
# orders        a              held until 1 + 3
# payments         x           held until 2 + 1
#                     ^3       x is gone
#                        ^4    a is gone
def test_elements_go_when_no_partner_can_come() -> None:
    with driven(within(-1, 3).apply(pair)) as harness:
        order(harness, "a", 1)
        assert timers(harness) == [4_000]
        pay(harness, "x", 2)
        assert (harness.take_values(), timers(harness)) == (["ax"], [3_000])
        harness.process_watermark(2_999)
        assert timers(harness) == [3_000]
        harness.process_watermark(3_000)
        assert timers(harness) == [4_000]
        order(harness, "b", 3)
        pay(harness, "y", 3)
        assert harness.take_values() == ["ay", "by"]
        harness.process_watermark(MAX_TIMESTAMP)
        assert timers(harness) == []


# time       0  1  2  3  4  5
# orders           a     ^4
# payments            x          late, though a is held until 7
def test_late_elements_join_nothing() -> None:
    stage = within(-1, 5)
    for left, right in ((False, False), (True, False), (False, True), (True, True)):
        found = stage.side_output_left_late_data(LATE_ORDERS) if left else stage
        found = found.side_output_right_late_data(LATE_PAYMENTS) if right else found
        with driven(found.apply(pair)) as harness:
            order(harness, "a", 2)
            harness.process_watermark(4_000)
            pay(harness, "x", 3)
            order(harness, "b", 3)
            assert harness.take_values() == []
            late_orders = [late.value.name for late in harness.take_side_output(LATE_ORDERS)]
            late_payments = [late.value.name for late in harness.take_side_output(LATE_PAYMENTS)]
            assert (late_orders, late_payments) == (["b"] * left, ["x"] * right)
            assert harness.counter("late_records_dropped") == 2 - left - right


def test_the_late_elements_of_a_side_have_its_type() -> None:
    tag = OutputTag[Payment]("late")
    assert within(0, 1).side_output_right_late_data(tag).apply(pair).get_side_output(tag).element_type is Payment
    assert as_of().side_output_right_late_data(tag).apply(pair).get_side_output(tag).element_type is Payment


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


# time       0  1  2  3
# orders     a     b
# payments         x y(2.5)
def test_a_process_function_sees_both_timestamps() -> None:
    with driven(within(-1, 5).process(Delays())) as harness:
        order(harness, "a", 0)
        pay(harness, "x", 2)
        pay(harness, "y", 2.5)
        order(harness, "b", 2)
        assert values(harness) == [("a 2000", 2_000), ("x 2000", 2_000), ("a 2500", 2_500), ("y 2500", 2_500)]
        assert [(fast.value, fast.timestamp) for fast in harness.take_side_output(Delays.fast)] == [
            ("b", 2_000),
            ("b", 2_500),
        ]


# As of a time


# time       0  1  2  3  4  5
# orders        a     b     c
# payments   v     w     x           the version that held
#                           ^5
def test_each_left_element_takes_the_version_that_held() -> None:
    with driven(as_of().apply(pair)) as harness:
        order(harness, "c", 5)
        order(harness, "a", 1)
        order(harness, "b", 3)
        pay(harness, "x", 4)
        pay(harness, "v", 0)
        pay(harness, "w", 2)
        pay(harness, "u", 2, "south")
        harness.process_watermark(4_999)
        assert values(harness) == [("av", 1_000), ("bw", 3_000)]
        harness.process_watermark(5_000)
        assert values(harness) == [("cx", 5_000)]


# time       0  1  2
# orders           a
# payments         x y         the one that came last counts, also where it came behind the order
#                  ^2
def test_of_versions_with_one_timestamp_the_last_counts() -> None:
    with driven(as_of().apply(pair)) as harness:
        pay(harness, "x", 2)
        order(harness, "a", 2)
        pay(harness, "y", 2)
        harness.process_watermark(2_000)
        assert harness.take_values() == ["ay"]


# time       0  1  2  3
# orders        a     b
# payments         x           a has no version
#                     ^3
def test_left_elements_without_a_version() -> None:
    for stage, expected in ((as_of().apply(maybe_pair), ["bx"]), (left_as_of().apply(maybe_pair), ["a-", "bx"])):
        with driven(stage) as harness:
            order(harness, "a", 1)
            pay(harness, "x", 2)
            order(harness, "b", 3)
            harness.process_watermark(3_000)
            assert harness.take_values() == expected


# time       0  1  2  3  4  5
# payments   u  v  w           the watermark passes w: u and v hold for no order to come
#                     ^3
#               late x
# orders                 a
def test_versions_go_when_a_later_one_holds() -> None:
    with driven(as_of().apply(pair)) as harness:
        for name, second in (("u", 0), ("v", 1), ("w", 2)):
            pay(harness, name, second)
        harness.process_watermark(3_000)
        pay(harness, "x", 1)
        assert harness.counter("late_records_dropped") == 1
        order(harness, "a", 4)
        harness.process_watermark(4_000)
        assert harness.take_values() == ["aw"]
        # Any: the state of the operator, which has no public view.
        operators: Any = harness._execution.operators
        (operator,) = operators.values()
        (state,) = operator.state.keys.values()
        assert state.state == {"right": [[2_000], [Payment("north", "w")]]}


# time       0  1  2
# orders        a  ^2     late
# payments      x         late
def test_late_elements_of_an_as_of_join() -> None:
    for stage in (as_of(), left_as_of()):
        late = stage.side_output_left_late_data(LATE_ORDERS).side_output_right_late_data(LATE_PAYMENTS)
        with driven(late.apply(maybe_pair)) as harness:
            harness.process_watermark(2_000)
            order(harness, "a", 1)
            pay(harness, "x", 1)
            assert [each.value.name for each in harness.take_side_output(LATE_ORDERS)] == ["a"]
            assert [each.value.name for each in harness.take_side_output(LATE_PAYMENTS)] == ["x"]
            assert harness.counter("late_records_dropped") == 0
    with driven(as_of().apply(pair)) as harness:
        harness.process_watermark(2_000)
        order(harness, "a", 1)
        pay(harness, "x", 1)
        assert harness.counter("late_records_dropped") == 2


# time       0  1  2  3  4  5
# payments   u     w  ^3          u holds for no order to come
# orders        b  c              late: they come out when the watermark advances, with what is kept
#                     ^4
def test_an_outer_as_of_join_drops_no_late_left_element() -> None:
    with driven(left_as_of().apply(maybe_pair)) as harness:
        pay(harness, "u", 0)
        pay(harness, "w", 2)
        pay(harness, "y", 3.5)
        order(harness, "a", 3)
        harness.process_watermark(3_000)
        assert harness.take_values() == ["aw"]
        order(harness, "c", 2)
        order(harness, "b", 1)
        harness.snapshot_restore()
        assert harness.take_values() == []
        harness.process_watermark(4_000)
        assert values(harness) == [("b-", 1_000), ("cw", 2_000)]
        assert harness.counter("late_records_dropped") == 0


# time       0  1  2  3  4  5
# payments   y     w              y is kept until 4: an order of 1 may come until then
# orders              ^3  b(1) c(2)
# payments                x(1.5)  late, and taken
#                         ^4  d(1) is too late
def test_versions_are_kept_for_the_allowed_lateness() -> None:
    for stage, after in ((as_of(), []), (left_as_of(), ["d-"])):
        with driven(stage.allowed_lateness(seconds(2)).apply(maybe_pair)) as harness:
            pay(harness, "y", 0)
            pay(harness, "w", 2)
            harness.process_watermark(3_000)
            order(harness, "b", 1)
            order(harness, "c", 2)
            order(harness, "e", 1.7)
            pay(harness, "x", 1.5)
            harness.process_watermark(4_000)
            assert values(harness) == [("by", 1_000), ("ex", 1_700), ("cw", 2_000)]
            order(harness, "d", 1)
            harness.process_watermark(5_000)
            assert harness.take_values() == after
            assert harness.counter("late_records_dropped") == 1 - len(after)


# time       0  1  2  3  4  5  6
# orders           a              held until the watermark passes 2 + 1 + 3
#                        ^4
# payments         x  y           late by no more than 3
#            z     late by 4
def test_late_elements_join_within_the_allowed_lateness() -> None:
    with driven(within(-1, 1).allowed_lateness(seconds(3)).apply(pair)) as harness:
        order(harness, "a", 2)
        assert timers(harness) == [6_001]
        harness.process_watermark(4_000)
        pay(harness, "x", 1)
        pay(harness, "y", 3)
        pay(harness, "z", 0.9)
        assert values(harness) == [("ax", 2_000), ("ay", 3_000)]
        assert harness.counter("late_records_dropped") == 1
        harness.process_watermark(6_000)
        pay(harness, "u", 3)
        assert values(harness) == [("au", 3_000)]  # late by all of 3, at the bound of a
        harness.process_watermark(7_001)
        assert timers(harness) == []


@pytest.mark.parametrize("stage", [within(0, 1), as_of(), left_as_of()], ids=lambda stage: type(stage).__name__)
def test_the_allowed_lateness_is_one_duration(stage: Any) -> None:
    for wrong in (seconds(-1), 5):
        with pytest.raises(InvalidArgumentError, match="the allowed lateness must"):
            stage.allowed_lateness(wrong)
    with pytest.raises(InvalidArgumentError, match=r"set twice(.|\n)*2 s, then 1 s"):
        stage.allowed_lateness(seconds(2)).allowed_lateness(seconds(1))
    for_ever = stage.allowed_lateness(timedelta.max).apply(maybe_pair)
    with driven(for_ever) as harness:
        pay(harness, "x", 1)
        harness.process_watermark(9_000_000)
        order(harness, "a", 1)
        harness.process_watermark(9_000_001)
        assert harness.take_values() == ["ax"]
    assert "allowed lateness for ever" in Pipeline("p", for_ever.sink_to(CollectSink())).explain()


@pytest.mark.parametrize("lateness", [0, 3, 9])
@pytest.mark.parametrize("outer", [False, True])
def test_as_of_joins_give_what_a_search_through_all_versions_gives(lateness: int, outer: bool) -> None:
    chance = random.Random(lateness)
    for _ in range(40):
        stage: Any = left_as_of() if outer else as_of()
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


# time       0  1  2  3  4
# orders     a        b
# payments      x            with a snapshot between any two
def test_versions_survive_snapshots() -> None:
    with driven(left_as_of().apply(maybe_pair)) as harness:
        order(harness, "a", 0)
        order(harness, "b", 3)
        harness.snapshot_restore()
        pay(harness, "x", 1)
        harness.process_watermark(2_000)
        harness.snapshot_restore()
        harness.process_watermark(4_000)
        assert harness.take_values() == ["a-", "bx"]


# The watermark is the lower one of both streams: an order waits for the versions that may still come.
#
# time       0  1  2  3  4
# orders        a        ^4
# payments    x    ^2       ^4
def test_orders_wait_for_versions() -> None:
    with driven(as_of().apply(pair)) as harness:
        order(harness, "a", 3)
        harness.process_watermark(4_000, source=ORDERS)
        pay(harness, "x", 0)
        harness.process_watermark(2_000, source=PAYMENTS)
        assert harness.take_values() == []
        pay(harness, "y", 2)
        harness.process_watermark(4_000, source=PAYMENTS)
        assert harness.take_values() == ["ay"]
