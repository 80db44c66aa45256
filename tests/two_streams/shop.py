"""What the tests of two streams share: orders, payments, and short ways to feed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from windrow import DataStream, OutputTag, from_source
from windrow_runtime.testing import PushSource, StreamHarness

__all__ = [
    "LATE_ORDERS",
    "LATE_PAYMENTS",
    "ORDERS",
    "ORDER_STREAM",
    "PAYMENTS",
    "PAYMENT_STREAM",
    "Order",
    "Payment",
    "driven",
    "maybe_pair",
    "order",
    "order_key",
    "pair",
    "pay",
    "payment_key",
    "seconds",
    "values",
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


ORDERS, PAYMENTS = PushSource(Order), PushSource(Payment)
ORDER_STREAM, PAYMENT_STREAM = from_source(ORDERS), from_source(PAYMENTS)
LATE_ORDERS, LATE_PAYMENTS = OutputTag("late orders", Order), OutputTag("late payments", Payment)


def order_key(order: Order) -> str:
    return order.shop


def payment_key(payment: Payment) -> str:
    return payment.shop


def pair(order: Order, payment: Payment) -> str:
    return f"{order.name}{payment.name}"


def maybe_pair(order: Order | None, payment: Payment | None) -> str:
    return f"{order.name if order else '-'}{payment.name if payment else '-'}"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


# Any: results of every type; with two sources the harness knows no type of what is pushed.
def driven(stream: DataStream[T], *also: DataStream[Any]) -> StreamHarness[Any, T]:
    return StreamHarness(stream, ORDERS, also=also)


def order(harness: StreamHarness[Any, Any], name: str, second: float, shop: str = "north") -> None:
    harness.process_element(Order(shop, name), round(second * 1000), source=ORDERS)


def pay(harness: StreamHarness[Any, Any], name: str, second: float, shop: str = "north") -> None:
    harness.process_element(Payment(shop, name), round(second * 1000), source=PAYMENTS)


def values(harness: StreamHarness[Any, T]) -> list[tuple[T, int | None]]:
    """The results since it was last asked, with timestamps."""
    return [(found.value, found.timestamp) for found in harness.take_output()]
