"""Lambdas write files of columns on both engines, without a word on the types of what they give."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.spark.timed import timed
from windrow import Pipeline, from_source
from windrow import aggregates as agg
from windrow.sinks import JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

T = TypeVar("T")


class Order(NamedTuple):
    key: str
    amount: int
    price: Decimal
    note: str | None


class Envelope(NamedTuple, Generic[T]):
    at: int
    value: T


ORDERS = [
    Envelope(number * 400, Order("ab"[number % 2], number, Decimal(number) / 4, None if number % 3 else f"n{number}"))
    for number in range(12)
]


def pipeline_of(folder: Path) -> Pipeline:
    envelopes = timed(from_source(CollectionSource(ORDERS, Envelope[Order], batch_size=5)))
    orders = envelopes.map(lambda envelope: envelope.value)
    rows = orders.map(lambda o: (o.key + "-" + o.key, o.amount / 2, o.price * 2, o.note.upper() if o.note else None))
    halves = orders.flat_map(lambda o: [Order(o.key, o.amount // 2, o.price, o.note), o] if o.amount % 2 else [])
    largest = (
        orders.key_by(lambda order: order.key)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
        .aggregate(agg.combine(agg.key(), agg.max(lambda o: o.amount * 10), agg.last(lambda o: o.note or "none")))
    )
    sums = orders.map(lambda order: (order.key, order.amount)).key_by(lambda pair: pair[0]).sum(lambda pair: pair[1])
    return Pipeline(
        "derived",
        rows.sink_to(ParquetFileSink(folder / "rows")),
        halves.sink_to(JsonFileSink(folder / "halves")),
        largest.sink_to(ParquetFileSink(folder / "largest")),
        sums.sink_to(JsonFileSink(folder / "sums")),
    )


def written(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name in ("rows", "largest"):
        files = [pq.read_table(file) for file in sorted((folder / name).rglob("*.parquet"))]
        found[f"schema of {name}"] = sorted({str(file.schema.remove_metadata()) for file in files})
        found[name] = sorted([str(row) for file in files for row in file.to_pylist()])
    for name in ("halves", "sums"):
        lines = [file.read_text().splitlines() for file in (folder / name).rglob("*.json")]
        found[name] = sorted([line for part in lines for line in part])
    return found


def test_lambdas_write_the_same_columns_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    LocalRunner().run(pipeline_of(tmp_path / "local"))
    SparkRunner(spark).run_batch(pipeline_of(tmp_path / "spark"))
    expected = written(tmp_path / "local")
    assert [len(expected[name]) for name in ("rows", "largest", "halves", "sums")] == [12, 10, 12, 12]
    assert "'a-a'" in expected["rows"][0]
    assert written(tmp_path / "spark") == expected
