"""Outer interval joins, by stories and against all pairs that there are.

The moves of a story are those of ``test_timed_joins``.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.budget import seeds
from tests.two_streams.shop import (
    KEYED_ORDERS,
    KEYED_PAYMENTS,
    LATE_ORDERS,
    ORDERS,
    PAYMENTS,
    Order,
    Payment,
    driven,
    feed,
    maybe_pair,
    seconds,
    story,
)
from windrow import DataStream, joins
from windrow.builder.interval_join import IntervalJoined
from windrow.errors import InvalidArgumentError
from windrow.time import MAX_TIMESTAMP

KINDS = ("left", "right", "full")


def within(lower: float, upper: float) -> IntervalJoined[Order, Payment, str]:
    return KEYED_ORDERS.interval_join(KEYED_PAYMENTS).between(seconds(lower), seconds(upper))


# Any: stages of all kinds, whose functions get other types.
STORIES: dict[str, tuple[Any, str, dict[str, str]]] = {
    "a left element is alone when the watermark is past its last partner": (
        within(-1, 3).left(),
        "a1 b2 x2.5/south ^4 ^4.001 ^5.001",
        {"^4.001": "a-@4.001", "^5.001": "b-@5.001"},
    ),
    "a partner at the watermark is in time": (within(-1, 3).left(), "a1 ^4 x4 ^9", {"x4": "ax@4"}),
    "right elements wait for the orders that may come before": (
        within(-1, 3).right(),
        "x1 y9 ^2 ^2.001 a6 ^11",
        {"^2.001": "-x@2.001", "a6": "ay@9"},
    ),
    "a partner that is no longer waited for itself still counts": (
        within(-5, 1).left(),
        "x1 ^5 a5.5 ^6.5 ^6.501",
        {"a5.5": "ax@5.5"},
    ),
    "an allowed lateness is waited for": (
        within(0, 1).left().allowed_lateness(seconds(2)),
        "a1 ^4 ^4.001 b2.5 x2.5 c2 | ^6",
        {"^4.001": "a-@4.001", "x2.5": "bx@2.5", "c2": "dropped"},
    ),
    "late elements leave as before": (
        within(0, 1).allowed_lateness(seconds(0)).side_output_left_late_data(LATE_ORDERS).full(),
        "^3 a2 x2 ^9",
        {"a2": "late a", "x2": "dropped"},
    ),
    "bounds that lie before": (
        within(-3, -1).left(),
        "a5 x3.5 b5/south ^5 ^5.001",
        {"x3.5": "ax@5", "^5.001": "b-@5.001"},
    ),
    "a snapshot keeps what is decided": (
        within(0, 2).left(),
        "a1 x2 b3 | ^3.5 | ^5.001 | ^9",
        {"x2": "ax@2", "^5.001": "b-@5.001"},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_comes_out_when(name: str) -> None:
    stage, moves, expected = STORIES[name]
    assert story(stage.apply(maybe_pair), moves) == expected


def test_elements_of_both_sides_come_by_time() -> None:
    moves = "b1 a3 y3.5 x2.5 z9 w6 c7 ^20"
    assert story(within(0, 1).full().apply(maybe_pair), moves)["^20"] == (
        "b-@2.001, -x@2.501, -w@6.001, c-@8.001, -z@9.001"
    )


def test_the_end_of_the_streams_decides_all_and_leaves_nothing() -> None:
    with driven(within(0, 5).full().apply(maybe_pair)) as harness:
        feed(harness, "a1 x3 b9 y1/south")
        assert harness.take_values() == ["ax"]
        harness.process_watermark(MAX_TIMESTAMP)
        assert sorted(harness.take_values()) == ["-y", "b-"]
        assert harness.event_timers() == []


def joined(kind: str, lower: int, upper: int, lateness: int) -> DataStream[tuple[str | None, str | None]]:
    stage: Any = getattr(within(lower, upper).allowed_lateness(seconds(lateness)), kind)()
    stream: DataStream[tuple[str | None, str | None]] = stage.apply(
        lambda order, payment: (order and order.name, payment and payment.name)
    )
    return stream


@pytest.mark.parametrize("kind", KINDS)
def test_random_elements_give_all_pairs_and_the_others_in_time(kind: str) -> None:
    for seed in seeds(120):
        chance = random.Random(seed)
        lower = chance.randrange(-6, 6)
        upper = lower + chance.randrange(8)
        lateness = chance.choice([0, 0, 3])
        elements: list[tuple[bool, str, str, int]] = []  # those that were not late
        alone: dict[tuple[str | None, str | None], int] = {}  # when each came out, by the watermark
        pairs: list[tuple[str | None, str | None]] = []
        watermark = -100
        with driven(joined(kind, lower, upper, lateness)) as harness:
            for number in range(chance.randrange(4, 25)):
                if chance.random() < 0.3:
                    watermark = max(watermark, chance.randrange(40))
                    harness.process_watermark(watermark * 1000)
                    if chance.random() < 0.2:
                        harness.snapshot_restore()
                else:
                    is_order, shop, second = chance.random() < 0.5, chance.choice("ns"), chance.randrange(40)
                    name = f"{'o' if is_order else 'p'}{number}"
                    # Any: the harness takes one type of elements.
                    pushed: Any = Order(shop, name) if is_order else Payment(shop, name)
                    harness.process_element(pushed, second * 1000, source=ORDERS if is_order else PAYMENTS)
                    if second >= watermark - lateness:
                        elements.append((is_order, shop, name, second))
                for each in harness.take_output():
                    if None in each.value:
                        alone[each.value] = watermark * 1000
                        assert harness.current_watermark >= (each.timestamp or 0)
                    else:
                        pairs.append(each.value)
            harness.process_watermark(MAX_TIMESTAMP)
            rest = [each.value for each in harness.take_output()]
        orders = [each[1:] for each in elements if each[0]]
        payments = [each[1:] for each in elements if not each[0]]
        expected = [
            (order[1], payment[1])
            for order in orders
            for payment in payments
            if order[0] == payment[0] and lower <= payment[2] - order[2] <= upper
        ]
        assert sorted(map(str, pairs)) == sorted(map(str, expected)), seed
        lonely: dict[tuple[str | None, str | None], int] = {}
        if kind != "right":
            with_partner = {order for order, _ in expected}
            delay = max(0, upper) + lateness
            lonely |= {(name, None): at + delay for _, name, at in orders if name not in with_partner}
        if kind != "left":
            with_partner = {payment for _, payment in expected}
            delay = max(0, -lower) + lateness
            lonely |= {(None, name): at + delay for _, name, at in payments if name not in with_partner}
        assert sorted(map(str, [*alone, *rest])) == sorted(map(str, lonely)), seed
        for key, last in lonely.items():
            # It is there as soon as the watermark is past the last partner, and not before.
            assert (key in alone) == (watermark > last), seed
            assert key not in alone or alone[key] > last * 1000


def test_a_plan_shows_the_join_and_refuses_a_field_that_may_be_missing() -> None:
    assert "left outer, -1 s to 3 s" in repr(within(-1, 3).left().apply(maybe_pair)._node.describe())
    both: Any = joins.into(maybe_pair, joins.left(lambda order: order), joins.right(lambda payment: payment))
    with pytest.raises(InvalidArgumentError, match="an outer join may find no right element"):
        within(-1, 3).left().apply(both)
