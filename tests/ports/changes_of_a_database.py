"""Flink's mysql-cdc tutorial and Kafka Streams' KTable: prices at the time of orders; categories now."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import NamedTuple

from tests.ports.answer import Answer, table
from windrow import DataStream, Pipeline, WatermarkStrategy, from_changes, from_source
from windrow import aggregates as agg
from windrow.panes import Change, ChangeKind, OnTimeBehavior
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.triggers import after_count, repeatedly
from windrow.windows import GlobalWindows


class Product(NamedTuple):
    id: int
    category: str
    price: int


class ProductChange(NamedTuple):
    """The envelope of Debezium: ``op`` is c, u or d."""

    op: str
    before: Product | None
    after: Product | None
    ts_ms: int

    @property
    def row(self) -> Product:
        row = self.after or self.before
        assert row is not None
        return row


class Order(NamedTuple):
    number: int
    product: int
    quantity: int
    at: int


class Enriched(NamedTuple):
    number: int
    cost: int | None


class Category(NamedTuple):
    category: str
    dearest: int
    products: int
    total: int


def changes() -> list[ProductChange]:
    rng = random.Random(3)
    rows: dict[int, Product] = {}
    log = []
    for n in range(60):
        id_ = rng.randrange(6)
        before = rows.get(id_)
        if before is not None and rng.random() < 0.3:
            del rows[id_]
            log.append(ProductChange("d", before, None, n * 1000))
        else:
            after = rows[id_] = Product(id_, rng.choice("xyz"), rng.randrange(1, 100))
            log.append(ProductChange("u" if before else "c", before, after, n * 1000))
    return log


CHANGES = changes()
_rng = random.Random(5)
ORDERS = [Order(n, _rng.randrange(7), _rng.randrange(1, 4), _rng.randrange(60_000)) for n in range(50)]
KINDS = {"c": ChangeKind.INSERT, "u": ChangeKind.UPDATE_AFTER, "d": ChangeKind.DELETE}

products = from_source(CollectionSource(CHANGES, batch_size=20)).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda change: change.ts_ms
)
orders = from_source(CollectionSource(ORDERS, batch_size=20)).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=2)), timestamp=lambda order: order.at
)


def enrich(order: Order, change: ProductChange | None) -> Enriched:
    row = None if change is None else change.after
    return Enriched(order.number, None if row is None else row.price * order.quantity)


enriched: DataStream[Enriched] = (
    orders.key_by(lambda order: order.product)
    .left_as_of_join(products.key_by(lambda change: change.row.id))
    .apply(enrich)
)
rows = from_changes(
    products, op=lambda change: KINDS[change.op], row=lambda change: change.row, key=lambda change: change.row.id
)
categories = (
    rows.key_by(lambda row: row.category)
    .window(GlobalWindows.create())
    .trigger(repeatedly(after_count(1)))
    .retracting()
    .on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
    .aggregate(
        agg.into(Category, agg.key(), agg.max(lambda row: row.price), agg.count(), agg.sum(lambda row: row.price))
    )
)
ENRICHED, CATEGORIES = CollectSink[Enriched]("enriched"), CollectSink[Change[Category]]("categories")
PIPELINE = Pipeline("cdc", enriched.sink_to(ENRICHED), categories.changelog().sink_to(CATEGORIES))


def _table_at(at: int) -> dict[int, Product]:
    held: dict[int, Product] = {}
    for change in CHANGES:
        if change.ts_ms <= at:
            if change.after is None:
                held.pop(change.row.id, None)
            else:
                held[change.row.id] = change.after
    return held


def answers() -> list[Answer]:
    """Keeps the table in a dictionary."""
    costs = []
    for order in ORDERS:
        row = _table_at(order.at).get(order.product)
        costs.append(Enriched(order.number, None if row is None else row.price * order.quantity))
    prices: dict[str, list[int]] = {}
    for product in _table_at(60_000).values():
        prices.setdefault(product.category, []).append(product.price)
    now = [Category(name, max(found), len(found), sum(found)) for name, found in prices.items()]
    return [Answer(ENRICHED, costs), Answer(CATEGORIES, now, table)]
