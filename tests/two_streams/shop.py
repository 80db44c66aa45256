"""What the tests of two streams share: orders, payments, and short ways to feed them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from windrow import DataStream, OutputTag, from_source
from windrow_runtime.testing import PushSource, StreamHarness

__all__ = [
    "KEYED_ORDERS",
    "KEYED_PAYMENTS",
    "LATE_ORDERS",
    "LATE_PAYMENTS",
    "ORDERS",
    "ORDER_STREAM",
    "PAYMENTS",
    "PAYMENT_STREAM",
    "Order",
    "Payment",
    "driven",
    "feed",
    "maybe_pair",
    "order_key",
    "pair",
    "payment_key",
    "seconds",
    "story",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    shop: str
    name: str


@dataclass(frozen=True)
class Payment:
    shop: str
    name: str


def order_key(order: Order) -> str:
    return order.shop


def payment_key(payment: Payment) -> str:
    return payment.shop


ORDERS, PAYMENTS = PushSource(Order), PushSource(Payment)
ORDER_STREAM, PAYMENT_STREAM = from_source(ORDERS), from_source(PAYMENTS)
KEYED_ORDERS, KEYED_PAYMENTS = ORDER_STREAM.key_by(order_key), PAYMENT_STREAM.key_by(payment_key)
LATE_ORDERS, LATE_PAYMENTS = OutputTag("late orders", Order), OutputTag("late payments", Payment)
_LATE: Final[tuple[OutputTag[Any], ...]] = (LATE_ORDERS, LATE_PAYMENTS)


def pair(order: Order, payment: Payment) -> str:
    return f"{order.name}{payment.name}"


def maybe_pair(order: Order | None, payment: Payment | None) -> str:
    return f"{order.name if order else '-'}{payment.name if payment else '-'}"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


# Any: results of every type; with two sources the harness knows no type of what is pushed.
def driven(stream: DataStream[T], *also: DataStream[Any]) -> StreamHarness[Any, T]:
    return StreamHarness(stream, ORDERS, also=also)


_MOVE: Final = re.compile(r"(?P<name>[A-Za-z]*)(?P<kind>[@^]?)(?P<second>[\d.]+)(/(?P<shop>\w+))?")


def feed(harness: StreamHarness[Any, Any], moves: str) -> None:
    """Makes some moves.

    ``a1`` is an order of second 1, and ``x2.5/south`` a payment to another shop; names of orders begin with letters up
    to ``m``. ``^3`` is the watermark of both streams, ``orders^3`` that of one. ``@3`` is the clock. ``|`` is a
    snapshot that is restored.
    """
    for move in moves.split():
        parts = _MOVE.fullmatch(move)
        if parts is None:
            assert move == "|"
            harness.snapshot_restore()
            continue
        name, millis = parts["name"], round(float(parts["second"]) * 1000)
        if parts["kind"] == "@":
            harness.set_processing_time(millis)
        elif parts["kind"] == "^":
            harness.process_watermark(millis, source={"": None, "orders": ORDERS, "payments": PAYMENTS}[name])
        elif name[0].lower() <= "m":
            harness.process_element(Order(parts["shop"] or "north", name), millis, source=ORDERS)
        else:
            harness.process_element(Payment(parts["shop"] or "north", name), millis, source=PAYMENTS)


def story(stream: DataStream[Any], moves: str) -> dict[str, str]:
    """What comes out at which move: results with their seconds, elements in the outputs of late ones, and drops."""
    told: dict[str, str] = {}
    dropped = 0
    tags = [tag for tag in _LATE if tag in stream.node.side_outputs]
    with driven(stream) as harness:
        for move in moves.split():
            feed(harness, move)
            events = [f"{each.value}@{(each.timestamp or 0) / 1000:g}" for each in harness.take_output()]
            for tag in tags:
                events += [f"late {each.value.name}" for each in harness.take_side_output(tag)]
            count = harness.counter("late_records_dropped")
            events += ["dropped"] * (count - dropped)
            dropped = count
            if events:
                told[move] = ", ".join(events)
    return told
