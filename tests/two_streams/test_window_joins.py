"""Joins and groups by window, step by step: what the cases of tests/two_inputs do not have.

Above each test stands its time line, in seconds: ``a``, ``b`` are orders, ``x``, ``y`` payments; ``^`` is the watermark
of both streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.two_streams.shop import (
    LATE_ORDERS,
    LATE_PAYMENTS,
    ORDER_STREAM,
    PAYMENT_STREAM,
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
from windrow import OutputTag
from windrow.builder.window_join import JoinEqualTo, WindowJoin
from windrow.evictors import CountEvictor
from windrow.functions import CoGroupFunction, JoinFunction, RuntimeContext
from windrow.triggers import after_count, after_watermark, repeatedly
from windrow.windows import TimeWindow, TumblingEventTimeWindows

TEN = TumblingEventTimeWindows.of(seconds(10))


def by_shop() -> JoinEqualTo[Order, Payment, Order, Payment, str]:
    return ORDER_STREAM.join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)


def tumbling() -> WindowJoin[Order, Payment, Order, Payment, str, TimeWindow]:
    return by_shop().window(TEN)


# time      0         10        20
#           |---------|---------|
# left       a    x    b      y
def test_outer_joins_give_elements_without_a_partner() -> None:
    left = ORDER_STREAM.left_join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    right = ORDER_STREAM.right_join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    full = ORDER_STREAM.full_join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    for joined, expected in ((left, ["ax", "b-"]), (right, ["ax", "-y"]), (full, ["ax", "b-", "-y"])):
        # Any: the stages differ in what their functions get.
        stage: Any = joined
        with driven(stage.window(TEN).apply(maybe_pair)) as harness:
            order(harness, "a", 1)
            pay(harness, "x", 6)
            order(harness, "b", 11)
            pay(harness, "y", 18, "south")
            harness.process_watermark(20_000)
            assert harness.take_values() == expected


def test_an_outer_join_gives_nothing_where_an_evictor_leaves_no_element() -> None:
    full = ORDER_STREAM.full_join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    with driven(full.window(TEN).evictor(CountEvictor.of(0)).apply(maybe_pair)) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 6)
        harness.process_watermark(20_000)
        assert harness.take_values() == []


# time      0         10
#           |---------|
#                       ^11
# elements     a  x          both late
def test_late_elements_go_to_the_output_of_their_side() -> None:
    both = tumbling().side_output_left_late_data(LATE_ORDERS).side_output_right_late_data(LATE_PAYMENTS)
    stream = both.apply(pair)
    left, right = stream.get_side_output(LATE_ORDERS), stream.get_side_output(LATE_PAYMENTS)
    assert (left.element_type, right.element_type) == (Order, Payment)
    with driven(stream, left, right) as harness:
        harness.process_watermark(11_000)
        order(harness, "a", 3)
        pay(harness, "x", 6)
        assert [(late.value, late.timestamp) for late in harness.take(left)] == [(Order("north", "a"), 3_000)]
        assert [(late.value, late.timestamp) for late in harness.take_side_output(LATE_PAYMENTS)] == [
            (Payment("north", "x"), 6_000)
        ]
        assert harness.counter("late_records_dropped") == 0
        assert harness.explain_element(Order("north", "a")).sentences[-1] == (
            "It went to the side output 'late orders' of late elements."
        )


# As above; payments have no output, and nobody reads that of the orders.
def test_late_elements_of_a_side_without_a_tag_are_counted() -> None:
    with driven(tumbling().side_output_left_late_data(LATE_ORDERS).apply(pair)) as harness:
        harness.process_watermark(11_000)
        order(harness, "a", 3)
        pay(harness, "x", 6)
        pay(harness, "y", 6)
        assert [late.value.name for late in harness.take_side_output(LATE_ORDERS)] == ["a"]
        assert harness.counter("late_records_dropped") == 2
        assert str(harness.explain_element(Payment("north", "y"))).splitlines() == [
            "Payment(shop='north', name='y') at 6,000 came to harness.7.window as element 3, with key 'north', "
            "under watermark 11,000.",
            "It was too late for window 0 to 10,000: its last timestamp 9,999 + lateness 0 <= watermark 11,000 "
            "when it came.",
            "It was dropped, and counted in late_records_dropped.",
        ]


# As above; one output takes the late elements of both.
def test_one_output_for_the_late_elements_of_both_sides() -> None:
    tag: OutputTag[Order | Payment] = OutputTag("late")
    stream = tumbling().side_output_late_data(tag).apply(pair)
    late = stream.get_side_output(tag)
    assert late.element_type is None
    with driven(stream, late) as harness:
        harness.process_watermark(11_000)
        pay(harness, "x", 6)
        order(harness, "a", 3)
        assert [each.value for each in harness.take(late)] == [Payment("north", "x"), Order("north", "a")]


# A tag without a type has that of its side.
def test_the_late_elements_of_a_side_have_its_type() -> None:
    tag = OutputTag[Payment]("late")
    stream = tumbling().side_output_right_late_data(tag).apply(pair)
    assert stream.get_side_output(tag).element_type is Payment


class Sides(CoGroupFunction[Order, Payment, str]):
    """Shows both sides of a window."""

    def __init__(self) -> None:
        self.opened = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened += 1

    def co_group(self, left: Sequence[Order], right: Sequence[Payment]) -> Iterable[str]:
        assert self.opened == 1
        yield "".join(each.name for each in left) + "|" + "".join(each.name for each in right)


# time      0         10        20        30
#           |---------|---------|---------|
# elements   a b x      c           y    ^30
def test_a_group_may_have_one_empty_side() -> None:
    grouped = ORDER_STREAM.co_group(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    with driven(grouped.window(TEN).apply(Sides())) as harness:
        order(harness, "a", 1)
        order(harness, "b", 2)
        pay(harness, "x", 3)
        order(harness, "c", 12)
        pay(harness, "y", 24)
        harness.process_watermark(30_000)
        assert values(harness) == [("ab|x", 9_999), ("c|", 19_999), ("|y", 29_999)]


class Opened(JoinFunction[Order, Payment, str]):
    """Says whether it is open, and counts the pairs."""

    is_open = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_open = True
        self.pairs = runtime_context.metrics.counter("pairs")

    def close(self) -> None:
        self.is_open = False

    def join(self, left: Order, right: Payment) -> str:
        assert self.is_open
        self.pairs.inc()
        return f"{left.name}{right.name}"


# time      0         10
#           |---------|
# elements   a x y    ^10, with a snapshot between any two
def test_functions_are_opened_and_windows_survive_snapshots() -> None:
    with driven(tumbling().apply(Opened())) as harness:
        order(harness, "a", 1)
        harness.snapshot_restore()
        pay(harness, "x", 2)
        harness.snapshot_restore()
        pay(harness, "y", 3)
        harness.process_watermark(10_000)
        assert harness.take_values() == ["ax", "ay"]
        assert harness.counter("pairs") == 2


# time      0         10
#           |---------|
# elements   a x y       every second element fires: early panes, each with all pairs so far
#                 b    ^10
def test_panes_accumulate_pairs() -> None:
    stage = tumbling().trigger(after_watermark(early=repeatedly(after_count(2)))).accumulating()
    with driven(stage.apply(pair)) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 2)
        assert harness.take_values() == ["ax"]
        pay(harness, "y", 3)
        assert harness.take_values() == []
        order(harness, "b", 4)
        assert harness.take_values() == ["ax", "ay", "bx", "by"]
        harness.process_watermark(10_000)
        assert harness.take_values() == ["ax", "ay", "bx", "by"]


# time      0         10
#           |---------|
# left join  a            an early pane without a partner
#              x          withdrawn, as there is one
def test_panes_withdraw_what_a_partner_replaces() -> None:
    left = ORDER_STREAM.left_join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    stage = left.window(TEN).trigger(after_watermark(early=repeatedly(after_count(1)))).retracting()
    with driven(stage.apply(maybe_pair).changelog(lambda kind, result: f"{kind.value} {result}")) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 2)
        harness.process_watermark(10_000)
        assert harness.take_values() == ["+I a-", "-U a-", "+U ax", "-U ax", "+U ax"]
