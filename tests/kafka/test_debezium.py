"""Messages that Debezium 3.6 wrote of a table of PostgreSQL, read from a topic on both engines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.kafka.topics import Record, Topics
from windrow import DataStream, Pipeline
from windrow.debezium import Operation, TableChange, from_debezium
from windrow.errors import InvalidArgumentError, MalformedRecordError
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: JSON has values of every type.


class Order(NamedTuple):
    id: int
    customer: str | None
    amount: Decimal | None
    at: datetime | None


AT = "2026-11-30T11:10:02.261024Z"
ANN = {"id": 1, "customer": "ann", "amount": "10.50", "at": AT}
CHANGES: list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]] = [
    ("r", None, ANN),
    ("c", None, {"id": 2, "customer": "bob", "amount": "20.00", "at": AT}),
    ("u", None, {**ANN, "amount": "11.00"}),
    ("u", {**ANN, "amount": "11.00"}, {**ANN, "amount": "12.00"}),
    ("d", {"id": 2, "customer": None, "amount": None, "at": None}, None),
    ("t", None, None),
]


def messages(*, schemas_enabled: bool) -> list[Record]:
    """Records as Debezium writes them: a deletion has a tombstone behind it."""
    records = []
    for place, (op, before, after) in enumerate(CHANGES):
        source = {
            "version": "3.6.3.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 1796037011325 + place,
            "snapshot": "false",
            "db": "postgres",
            "sequence": "[null,1]",
            "ts_us": 1796037011325152,
            "schema": "public",
            "table": "orders",
            "txId": 756,
            "lsn": 24211424 + place,
            "xmin": None,
        }
        change = {"before": before, "after": after, "source": source, "transaction": None, "op": op, "ts_ms": 1}
        message: object = {"schema": {"type": "struct", "fields": []}, "payload": change} if schemas_enabled else change
        records.append(Record(json.dumps(message).encode(), key=b"{}"))
        if op == "d":
            records.append(Record(None, key=b"{}"))
    return records


def changes_of(topics: Topics, *, schemas_enabled: bool) -> DataStream[TableChange[Order]]:
    topic = topics.make("orders")
    topics.send(topic, messages(schemas_enabled=schemas_enabled))
    return from_debezium(topics.servers, topic, Order, schemas_enabled=schemas_enabled)


def check(changes: list[TableChange[Order]]) -> None:
    ann = Order(1, "ann", Decimal("10.50"), datetime.fromisoformat(AT))
    assert [change.op.value for change in changes] == [op for op, _, _ in CHANGES]
    assert changes[0].after == ann
    assert changes[0].before is None
    assert changes[3].before == ann._replace(amount=Decimal("11.00"))
    assert changes[4].before == Order(2, None, None, None)
    assert changes[4].after is None
    assert changes[5].op is Operation.TRUNCATE
    assert (changes[1].source.db, changes[1].source.schema, changes[1].source.table) == ("postgres", "public", "orders")
    assert changes[1].at == datetime(2026, 11, 30, 11, 10, 11, 326000, tzinfo=UTC)


@pytest.mark.parametrize("schemas_enabled", [True, False])
def test_changes_of_a_table_are_read_in_the_interpreter(topics: Topics, schemas_enabled: bool) -> None:
    sink = CollectSink[TableChange[Order]]()
    pipeline = Pipeline("p", changes_of(topics, schemas_enabled=schemas_enabled).sink_to(sink))
    check(LocalRunner().run(pipeline, drain=False).collected(sink))


@pytest.mark.parametrize("schemas_enabled", [True, False])
def test_changes_of_a_table_are_read_on_spark(
    topics: Topics, spark: SparkSession, tmp_path: Path, schemas_enabled: bool
) -> None:
    sink = CollectSink[TableChange[Order]]()
    pipeline = Pipeline("p", changes_of(topics, schemas_enabled=schemas_enabled).sink_to(sink))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    check(runner.run(pipeline, drain=False).collected(sink))


def test_a_message_that_is_no_change_is_malformed(topics: Topics) -> None:
    topic = topics.make("orders")
    topics.send(topic, messages(schemas_enabled=True))
    sink = CollectSink[TableChange[Order]]()
    plain = from_debezium(topics.servers, topic, Order, schemas_enabled=False)
    with pytest.raises(MalformedRecordError, match="op"):
        LocalRunner().run(Pipeline("p", plain.sink_to(sink)), drain=False)
    skipped = from_debezium(topics.servers, topic, Order, schemas_enabled=False, on_malformed="drop")
    assert LocalRunner().run(Pipeline("p", skipped.sink_to(sink)), drain=False).collected(sink) == []


def test_an_argument_that_is_no_bool_is_refused() -> None:
    wrong: Any = "yes"
    with pytest.raises(InvalidArgumentError, match="messages have a schema or not") as raised:
        from_debezium("broker:9092", "shop.public.orders", Order, schemas_enabled=wrong)
    assert f"{__file__}:" in str(raised.value)
