"""Orders with the payments that come within ten minutes, and what comes too late.

python examples/orders_and_payments.py
"""

import argparse
from dataclasses import dataclass
from datetime import timedelta

from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.sinks import ConsoleSink
from windrow.sources import CollectionSource

MINUTE = 60_000


@dataclass(frozen=True)
class Order:
    number: int
    at: int  # in milliseconds
    amount: float


@dataclass(frozen=True)
class Payment:
    order: int
    at: int  # in milliseconds
    amount: float


@dataclass(frozen=True)
class Paid:
    order: int
    missing: float


ORDERS = [Order(1, 0, 20.0), Order(2, 1 * MINUTE, 5.0), Order(3, 30 * MINUTE, 8.0), Order(4, 2 * MINUTE, 9.0)]
PAYMENTS = [Payment(1, 3 * MINUTE, 20.0), Payment(2, 20 * MINUTE, 5.0), Payment(3, 31 * MINUTE, 7.5)]
LATE = OutputTag("late orders", Order)


def paid(order: Order, payment: Payment) -> Paid:
    return Paid(order.number, order.amount - payment.amount)


def build(orders: DataStream[Order], payments: DataStream[Payment]) -> DataStream[Paid]:
    """Joins each order with the payments from its time to ten minutes later."""
    return (
        orders.key_by(lambda order: order.number)
        .interval_join(payments.key_by(lambda payment: payment.order))
        .between(timedelta(0), timedelta(minutes=10))
        .side_output_left_late_data(LATE)
        .apply(paid)
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    from windrow_runtime.local import LocalRunner

    orders = from_source(CollectionSource(ORDERS, batch_size=3)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda order: order.at
    )
    payments = from_source(CollectionSource(PAYMENTS, batch_size=3)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda payment: payment.at
    )
    joined = build(orders, payments)
    late = joined.get_side_output(LATE)
    LocalRunner().run(Pipeline("orders", joined.sink_to(ConsoleSink("paid ")), late.sink_to(ConsoleSink("too late "))))


if __name__ == "__main__":
    main()
