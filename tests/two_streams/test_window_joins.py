"""Joins and groups by window, step by step: what the cases of tests/two_inputs do not have.

``a``, ``b`` are orders, ``x``, ``y`` payments, each with its second; ``^`` is the watermark of both streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.two_streams.shop import (
    LATE_ORDERS,
    LATE_PAYMENTS,
    ORDER_STREAM,
    PAYMENT_STREAM,
    Order,
    Payment,
    driven,
    feed,
    maybe_pair,
    order_key,
    pair,
    payment_key,
    seconds,
    story,
)
from windrow import OutputTag
from windrow.evictors import CountEvictor
from windrow.functions import CoGroupFunction, JoinFunction, RuntimeContext
from windrow.triggers import after_count, after_watermark, repeatedly
from windrow.windows import TumblingEventTimeWindows


# Any: the stages differ in what their functions get.
def tens(kind: str) -> Any:
    """Windows of ten seconds of a join of a kind."""
    joined: Any = getattr(ORDER_STREAM, kind)(PAYMENT_STREAM)
    return joined.where(order_key).equal_to(payment_key).window(TumblingEventTimeWindows.of(seconds(10)))


def early(kind: str, count: int) -> Any:
    return tens(kind).trigger(after_watermark(early=repeatedly(after_count(count))))


class Sides(CoGroupFunction[Order, Payment, str]):
    """Shows both sides of a window."""

    def __init__(self) -> None:
        self.opened = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened += 1

    def co_group(self, left: Sequence[Order], right: Sequence[Payment]) -> Iterable[str]:
        assert self.opened == 1
        yield "".join(each.name for each in left) + "|" + "".join(each.name for each in right)


BOTH_SECONDS = "a1 x6 b11 y18/south ^20"
PAIRED = "ax@9.999"
ALL_PAIRS = "ax@9.999, ay@9.999, bx@9.999, by@9.999"
STORIES: dict[str, tuple[Any, str, dict[str, str]]] = {
    "left join": (tens("left_join").apply(maybe_pair), BOTH_SECONDS, {"^20": f"{PAIRED}, b-@19.999"}),
    "right join": (tens("right_join").apply(maybe_pair), BOTH_SECONDS, {"^20": f"{PAIRED}, -y@19.999"}),
    "full join": (tens("full_join").apply(maybe_pair), BOTH_SECONDS, {"^20": f"{PAIRED}, b-@19.999, -y@19.999"}),
    "an outer join of what an evictor leaves": (
        tens("full_join").evictor(CountEvictor.of(0)).apply(maybe_pair),
        "a1 x6 ^20",
        {},
    ),
    "a group may have one empty side": (
        tens("co_group").apply(Sides()),
        "a1 b2 x3 c12 y24 ^30",
        {"^30": "ab|x@9.999, c|@19.999, |y@29.999"},
    ),
    "early panes have all pairs so far": (
        early("join", 2).accumulating().apply(pair),
        "a1 x2 y3 b4 ^10",
        {"x2": PAIRED, "b4": ALL_PAIRS, "^10": ALL_PAIRS},
    ),
    "panes withdraw what a partner replaces": (
        early("left_join", 1).retracting().apply(maybe_pair).changelog(lambda kind, result: f"{kind.value} {result}"),
        "a1 x2 ^10",
        {"a1": "+I a-@9.999", "x2": "-U a-@9.999, +U ax@9.999", "^10": "-U ax@9.999, +U ax@9.999"},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_comes_out_when(name: str) -> None:
    stream, moves, expected = STORIES[name]
    assert story(stream, moves) == expected


def test_late_elements_go_to_the_output_of_their_side() -> None:
    stream = tens("join").side_output_left_late_data(LATE_ORDERS).side_output_right_late_data(LATE_PAYMENTS).apply(pair)
    left, right = stream.get_side_output(LATE_ORDERS), stream.get_side_output(LATE_PAYMENTS)
    assert (left.element_type, right.element_type) == (Order, Payment)
    with driven(stream, left, right) as harness:
        feed(harness, "^11 a3 x6")
        assert [(late.value, late.timestamp) for late in harness.take(left)] == [(Order("north", "a"), 3_000)]
        late_payments = [(late.value, late.timestamp) for late in harness.take_side_output(LATE_PAYMENTS)]
        assert late_payments == [(Payment("north", "x"), 6_000)]
        assert harness.counter("late_records_dropped") == 0
        assert harness.explain_element(Order("north", "a")).sentences[-1] == (
            "It went to the side output 'late orders' of late elements."
        )


def test_late_elements_of_a_side_without_a_tag_are_counted() -> None:
    """Nobody reads the output of the orders."""
    with driven(tens("join").side_output_left_late_data(LATE_ORDERS).apply(pair)) as harness:
        feed(harness, "^11 a3 x6 y6")
        assert [late.value.name for late in harness.take_side_output(LATE_ORDERS)] == ["a"]
        assert harness.counter("late_records_dropped") == 2
        assert str(harness.explain_element(Payment("north", "y"))).splitlines() == [
            "Payment(shop='north', name='y') at 6,000 came to harness.7.window as element 3, with key 'north', "
            "under watermark 11,000.",
            "It was too late for window 0 to 10,000: its last timestamp 9,999 + lateness 0 <= watermark 11,000 "
            "when it came.",
            "It was dropped, and counted in late_records_dropped.",
        ]


def test_one_output_for_the_late_elements_of_both_sides() -> None:
    tag: OutputTag[Order | Payment] = OutputTag("late")
    stream = tens("join").side_output_late_data(tag).apply(pair)
    late = stream.get_side_output(tag)
    assert late.element_type is None
    with driven(stream, late) as harness:
        feed(harness, "^11 x6 a3")
        assert [each.value for each in harness.take(late)] == [Payment("north", "x"), Order("north", "a")]


def test_a_tag_without_a_type_has_that_of_its_side() -> None:
    tag = OutputTag[Payment]("late")
    stream = tens("join").side_output_right_late_data(tag).apply(pair)
    assert stream.get_side_output(tag).element_type is Payment


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


def test_functions_are_opened_and_windows_survive_snapshots() -> None:
    with driven(tens("join").apply(Opened())) as harness:
        feed(harness, "a1 | x2 | y3 ^10")  # with a snapshot between any two
        assert harness.take_values() == ["ax", "ay"]
        assert harness.counter("pairs") == 2
