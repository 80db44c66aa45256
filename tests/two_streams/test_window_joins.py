"""Joins and groups by window, step by step.

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
from windrow import OutputTag
from windrow.builder.window_join import JoinEqualTo, MergingWindowJoin, WindowJoin
from windrow.evictors import CountEvictor
from windrow.functions import CoGroupFunction, JoinFunction, RuntimeContext
from windrow.triggers import CountTrigger, PurgingTrigger, after_count, after_watermark, repeatedly
from windrow.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

TEN = TumblingEventTimeWindows.of(seconds(10))


def by_shop() -> JoinEqualTo[Order, Payment, Order, Payment, str]:
    return ORDER_STREAM.join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)


def tumbling() -> WindowJoin[Order, Payment, Order, Payment, str, TimeWindow]:
    return by_shop().window(TEN)


def in_sessions() -> MergingWindowJoin[Order, Payment, Order, Payment, str, TimeWindow]:
    return by_shop().window(EventTimeSessionWindows.with_gap(seconds(3)))


# time      0         10        20
#           |---------|---------|
# north      a b    x   c      ^20
# south       d          y
def test_every_pair_of_a_key_and_a_window() -> None:
    with driven(tumbling().apply(pair)) as harness:
        order(harness, "a", 1)
        order(harness, "b", 3)
        order(harness, "d", 2, "south")
        pay(harness, "x", 8)
        order(harness, "c", 12)
        pay(harness, "y", 13, "south")
        assert values(harness) == []
        harness.process_watermark(20_000)
        assert values(harness) == [("ax", 9_999), ("bx", 9_999)]
        assert harness.open_windows() == []


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


# time      0    5    10   15
#           |---------|
#                |---------|
# elements     a    x
def test_a_pair_of_several_windows_comes_out_of_each() -> None:
    stream = by_shop().window(SlidingEventTimeWindows.of(seconds(10), seconds(5))).apply(pair)
    with driven(stream) as harness:
        order(harness, "a", 6)
        pay(harness, "x", 8)
        harness.process_watermark(20_000)
        assert values(harness) == [("ax", 9_999), ("ax", 14_999)]


# time      0  1  2  3  4  5  6  7
# elements  a        .        b        one session each
#                 x                    from 2 on, between them: one session of both sides
def test_a_session_is_bridged_by_the_other_side() -> None:
    with driven(in_sessions().apply(pair)) as harness:
        order(harness, "a", 0)
        order(harness, "b", 5)
        assert len(harness.open_windows()) == 2
        pay(harness, "x", 2.5)
        (window,) = harness.open_windows()
        assert window.window == TimeWindow(0, 8_000)
        harness.process_watermark(8_000)
        assert values(harness) == [("ax", 7_999), ("bx", 7_999)]


# time      0         10
#           |---------|          lateness 5
# elements    a  x      ^11
#               y          (behind the watermark)
#                            ^15
#              b               (too late)
def test_a_late_element_fires_all_pairs_again() -> None:
    with driven(tumbling().allowed_lateness(seconds(5)).apply(pair)) as harness:
        order(harness, "a", 2)
        pay(harness, "x", 5)
        harness.process_watermark(11_000)
        assert values(harness) == [("ax", 9_999)]
        pay(harness, "y", 4)
        assert values(harness) == [("ax", 9_999), ("ay", 9_999)]
        harness.process_watermark(15_000)
        order(harness, "b", 3)
        assert values(harness) == []
        assert harness.counter("late_records_dropped") == 1


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


# time      0         10
#           |---------|
# elements   a x b y   ^10
def test_an_evictor_counts_elements_of_both_sides() -> None:
    with driven(tumbling().evictor(CountEvictor.of(3)).apply(pair)) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 2)
        order(harness, "b", 3)
        pay(harness, "y", 4)
        harness.process_watermark(10_000)
        assert harness.take_values() == ["bx", "by"]


# time      0         10
#           |---------|
# elements   a x b          the second element fires, and all pairs of then are gone behind a purge
def test_a_trigger_counts_elements_of_both_sides() -> None:
    for purges, expected in ((False, [["ax"], ["ax", "bx", "ay", "by"]]), (True, [["ax"], ["by"]])):
        trigger = CountTrigger.of(2)
        stage = tumbling().trigger(PurgingTrigger.of(trigger) if purges else trigger)
        with driven(stage.apply(pair)) as harness:
            order(harness, "a", 1)
            pay(harness, "x", 2)
            assert harness.take_values() == expected[0]
            order(harness, "b", 3)
            pay(harness, "y", 4)
            assert sorted(harness.take_values()) == sorted(expected[1])


# time      0         10
#           |---------|
# clock      a x      ^10 of the clock: no element is late, and timestamps do not matter
def test_windows_of_the_clock() -> None:
    with driven(by_shop().window(TumblingProcessingTimeWindows.of(seconds(10))).apply(pair)) as harness:
        harness.set_processing_time(1_000)
        harness.process_element(Order("north", "a"), None, source=ORDERS)
        harness.process_element(Payment("north", "x"), None, source=PAYMENTS)
        harness.set_processing_time(10_000)
        assert values(harness) == [("ax", 9_999)]


# The window counts, so the watermark of both streams is the lower one, and a stream that is idle holds nothing back.
#
# time       0         10        20
#            |---------|---------|
# orders      a          ^12            ^20
# payments     x               ^15 idle
def test_the_watermark_is_the_lower_one_of_both() -> None:
    with driven(tumbling().apply(pair)) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 2)
        harness.process_watermark(12_000, source=ORDERS)
        assert harness.take_values() == []
        harness.process_watermark(9_998, source=PAYMENTS)
        assert harness.take_values() == []
        harness.set_idle(PAYMENTS)
        assert harness.take_values() == ["ax"]


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


# time      0         10
#           |---------|
# elements   a x      ^10
def test_a_group_may_be_empty_behind_an_evictor() -> None:
    grouped = ORDER_STREAM.co_group(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
    with driven(grouped.window(TEN).evictor(CountEvictor.of(0)).apply(Sides())) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 2)
        harness.process_watermark(10_000)
        assert harness.take_values() == ["|"]


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
