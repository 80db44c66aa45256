"""Topics whose values other writers wrote by schemas of their own: Spark, as columns, and the interpreter agree."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest

from tests.kafka.topics import Record, Topics
from tests.services.registry import running_registry
from windrow import OutputTag, Pipeline, from_source
from windrow.kafka import AvroFormat, KafkaSource
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry")

# Any in this module: schemas are JSON, and data are of every type.

MALFORMED = OutputTag("malformed", MalformedRecord)


class Opened(NamedTuple):
    door: int | None


class Event(NamedTuple):
    n: int
    what: Opened | None
    number: int | None
    at: datetime | None


SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "what", "type": [
            {"type": "record", "name": "Closed", "fields": [{"name": "reason", "type": "string"}]},
            "null",
            {"type": "record", "name": "Opened", "fields": [{"name": "door", "type": ["long", "null"]}]},
        ]},
        {"name": "number", "type": ["double", "long", "null"]},
        {"name": "at", "type": [{"type": "long", "logicalType": "timestamp-nanos"}, "int", "null"]},
        {"name": "unread", "type": {"type": "array", "items": "null"}},
    ],
}  # fmt: skip
NOON = 1_767_268_800 * 10**9


def event(n: int, what: Any = None, number: Any = None, at: Any = None) -> dict[str, Any]:
    return {"n": n, "what": what, "number": number, "at": at, "unread": []}


def test_branches_nulls_and_limits_on_both_engines(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topics = Topics(kafka, f"branches-{uuid4().hex[:8]}")
    topic = topics.make("in")
    data = [
        event(0, ("Opened", {"door": 7}), ("long", 5), ("long", NOON)), event(1), event(2, ("Opened", {"door": None})),
        event(3, ("Closed", {"reason": "wind"})), event(4, None, ("double", 2.5)), event(5, None, None, ("int", 5)),
        event(6, None, None, ("long", NOON + 1)), event(7, None, ("double", 2.0)), event(8),
    ]  # fmt: skip
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    with running_registry() as registry:
        first = b"\0" + registry.register("in-value", {"schema": json.dumps(SCHEMA)}).to_bytes(4)
        values = []
        for each in data:
            out = BytesIO()
            fastavro.schemaless_writer(out, parsed, each)
            values.append(first + out.getvalue())
        endless = values[8][:-1] + b"\x80\x80\x80\x80\x80\x01\0"  # 2**34 nulls in the field that nothing reads
        topics.send(topic, [Record(value) for value in (*values, endless)])
        source = KafkaSource(
            topics.servers, topic, Event, value_format=AvroFormat(registry.address), starting_offsets="earliest",
            ending_offsets="latest", on_malformed=MALFORMED,
        )  # fmt: skip
        stream = from_source(source)
        good, bad = CollectSink[Event](), CollectSink[MalformedRecord]()
        pipeline = Pipeline("p", stream.sink_to(good), stream.get_side_output(MALFORMED).sink_to(bad))
        results = [LocalRunner().run(pipeline), SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(pipeline)]
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for result in results:
        assert sorted(result.collected(good)) == [
            Event(0, Opened(7), 5, noon), Event(1, None, None, None), Event(2, Opened(None), None, None),
            Event(8, None, None, None),
        ]  # fmt: skip
        reasons = {int(each.origin.rpartition(" ")[2]): each.reason for each in result.collected(bad)}
        assert {offset: reason.partition(": by schema 1: ")[2] for offset, reason in reasons.items()} == {
            3: "the value is of another branch: the schema has record Closed, not Opened | None",
            4: "the value is of another branch: the schema has double, not int | None",
            5: "the value is of another branch: the schema has int, not datetime | None",
            6: f"{NOON + 1} of 1,000,000,000 a second is finer than a microsecond of datetime",
            7: "the value is of another branch: the schema has double, not int | None",
            9: "arrays have 17179869184 items without bytes, more than 1048576",
        }
