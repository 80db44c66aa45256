"""Tombstones, and records with keys, headers, timestamps and partitions, from and to topics, on both engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.topics import Record, Topics
from tests.services.registry import running_registry
from windrow import DataStream, Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError, PlanError, SinkError
from windrow.kafka import (
    AvroFormat,
    KafkaRecord,
    KafkaRecordSource,
    KafkaSink,
    KafkaSource,
    ProducerRecord,
    ProtobufFormat,
)
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("fastavro")
enum_value = pytest.importorskip("google.protobuf.type_pb2").EnumValue
pytest.importorskip("confluent_kafka.schema_registry.protobuf")

# Any in this module: values of every type, and generated messages.

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Choice:
    name: str
    number: int


def read(topics: Topics, topic: str, kind: Any, value_format: Any) -> list[Any]:
    source: Any = KafkaSource(
        topics.servers, topic, kind, value_format=value_format, starting_offsets="earliest", ending_offsets="latest"
    )
    sink = CollectSink[Any]()
    return LocalRunner().run(Pipeline("read", from_source(source).sink_to(sink))).collected(sink)


def run(stream: DataStream[Any], sink: KafkaSink[Any]) -> None:
    LocalRunner().run(Pipeline("p", stream.sink_to(sink)))


FORMATS: dict[str, tuple[Any, Any, Any]] = {
    "json": (Choice | None, "json", Choice("a", 1)),
    "json of an int": (int | None, "json", 7),
    "text": (str | None, "text", "a"),
    "bytes": (bytes | None, "bytes", b"\xff"),
    "avro": (Choice | None, AvroFormat("mock://tombstones"), Choice("a", 1)),
    "protobuf": (Choice | None, ProtobufFormat("mock://tombstones", enum_value), Choice("a", 1)),
    "messages": (enum_value | None, ProtobufFormat("mock://tombstones", enum_value), enum_value(name="a", number=1)),
}


@pytest.mark.parametrize(("kind", "value_format", "value"), FORMATS.values(), ids=FORMATS)
def test_none_is_a_tombstone_in_every_format(topics: Topics, kind: Any, value_format: Any, value: Any) -> None:
    topic = topics.make("out")
    values = [None, value, None]
    stream = from_source(CollectionSource(values, kind))
    run(stream, KafkaSink[Any](topics.servers, topic, value_format=value_format))
    records = stream.map(lambda each: ProducerRecord(each, key="k")).returns(ProducerRecord[kind])
    run(records, KafkaSink[Any](topics.servers, topic, value_format=value_format))
    first, second, *_ = written = topics.read(topic, 6)
    assert first.value is None
    assert second.value
    assert [(each.key, each.value) for each in written] == [
        (key, second.value if each is value else None) for key in (None, b"k") for each in values
    ]
    assert read(topics, topic, kind, value_format) == values * 2
    plain: Any = type(value)
    with pytest.raises(MalformedRecordError, match=r"no value|null|None"):
        read(topics, topic, plain, value_format)
    with pytest.raises(InvalidArgumentError, match="None"):
        run(
            from_source(CollectionSource([None], plain)),
            KafkaSink[Any](topics.servers, topic, value_format=value_format),
        )


def test_a_record_has_a_key_headers_a_timestamp_and_a_partition(topics: Topics) -> None:
    topic, copied = topics.make("out", 3), topics.make("copied")
    headers = (("a", b"x"), ("b", None), ("a", b""))
    records = [
        ProducerRecord(1, key="é", headers=headers, timestamp=AT, partition=2),
        ProducerRecord(2, key=b"\xff", timestamp=1_500, partition=2),
        ProducerRecord(3, partition=2),
    ]
    before = datetime.now(UTC)
    stream = from_source(CollectionSource(records, ProducerRecord[int]))
    run(stream, KafkaSink[ProducerRecord[int]](topics.servers, topic))
    first, second, third = topics.read(topic, 3, partition=2)
    millis = int(AT.timestamp() * 1000)
    assert (first.key, first.value, tuple(first.headers), first.timestamp) == ("é".encode(), b"1", headers, millis)
    assert (second.key, second.value, tuple(second.headers), second.timestamp) == (b"\xff", b"2", (), 1_500)
    assert abs(third.timestamp - before.timestamp() * 1000) < 60_000

    # What a source reads is written with its key, headers and timestamp, to another topic.
    source = KafkaRecordSource(topics.servers, topic, int, starting_offsets="earliest", ending_offsets="latest")
    doubled = from_source(source).map(lambda each: replace(each, value=each.value * 2)).returns(KafkaRecord[int])
    run(doubled, KafkaSink[KafkaRecord[int]](topics.servers, copied))
    assert topics.read(copied, 3) == [
        replace_value(each, value) for each, value in zip((first, second, third), (2, 4, 6), strict=True)
    ]


def replace_value(record: Record, value: int) -> Record:
    return record._replace(value=f"{value}".encode())


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (ProducerRecord("x", key=7), "the key of a record is text or bytes"),  # type: ignore[arg-type]  # what is tried
        (ProducerRecord("x", headers=(("a", "b"),)), "a header of a record is a pair"),  # type: ignore[arg-type]
        (ProducerRecord("x", headers=("ab",)), "a header of a record is a pair"),  # type: ignore[arg-type]
        (ProducerRecord("x", headers=(("\ud800", None),)), "the name of a header of a record is text in UTF-8"),
        (ProducerRecord("x", timestamp=datetime(2026, 1, 1)), "does not take the timestamp"),
        (ProducerRecord("x", timestamp=-1), "does not take the timestamp"),
        (ProducerRecord("x", timestamp=datetime(1969, 1, 1, tzinfo=UTC)), "does not take the timestamp"),
        (ProducerRecord("x", timestamp=True), "does not take the timestamp"),
        (ProducerRecord("x", timestamp=1.5), "does not take the timestamp"),  # type: ignore[arg-type]
        (ProducerRecord("x", partition=-1), "the partition of a record is a number"),
        (ProducerRecord("x", partition=True), "the partition of a record is a number"),
        (ProducerRecord("x", partition=1 << 31), "the partition of a record is a number"),
        (ProducerRecord(7), "writes values of one type"),
        ("x", "an element of a Kafka sink is no record"),
    ],
)
def test_what_no_record_can_have_is_refused_with_its_step(topics: Topics, record: Any, message: str) -> None:
    topic = topics.make("out")
    stream = from_source(CollectionSource([record], ProducerRecord[str]))
    with pytest.raises(InvalidArgumentError, match=rf"{message}(.|\n)*p\.2\.sink"):
        run(stream, KafkaSink[Any](topics.servers, topic, value_format="text"))


def test_records_that_a_plan_or_a_broker_refuses(topics: Topics) -> None:
    topic = topics.make("out")
    stream = from_source(CollectionSource([ProducerRecord("x", partition=7)], ProducerRecord[str]))
    with pytest.raises(SinkError, match=r"partition(.|\n)*p\.2\.sink"):
        run(stream, KafkaSink[Any](topics.servers, topic))
    with pytest.raises(PlanError, match=r"has a key function, and its elements are records(.|\n)*p\.2\.sink"):
        run(stream, KafkaSink[Any](topics.servers, topic, key=lambda record: record.value))
    with pytest.raises(PlanError, match=r"whose type is not known(.|\n)*ProducerRecord\[Type\]"):
        run(stream.returns(ProducerRecord), KafkaSink[Any](topics.servers, topic))
    either = stream.map(lambda record: ProducerRecord(1 if record.key else "a"))
    with pytest.raises(PlanError, match="the elements are of several: int and str"):
        run(either, KafkaSink[Any](topics.servers, topic))
    with pytest.raises(PlanError, match=r"no form for timedelta"):
        run(
            stream.returns(ProducerRecord[timedelta]),
            KafkaSink[Any](topics.servers, topic, value_format=AvroFormat("mock://x")),
        )
    # Of a lambda the type is known, too.
    maybe = from_collection([1, 0], int).map(lambda n: ProducerRecord(n or None, key=b"k" if n else b"none"))
    run(maybe.union(maybe), KafkaSink[Any](topics.servers, mapped := topics.make("mapped")))
    assert [(each.key, each.value) for each in topics.read(mapped, 4)] == [(b"k", b"1"), (b"none", None)] * 2
    # Of a type that nobody knows, each element says what it is.
    mixed = from_collection(["a", ProducerRecord("b", key="k"), None])
    run(mixed, KafkaSink[Any](topics.servers, topic, value_format="text"))
    assert [(each.key, each.value) for each in topics.read(topic, 3)] == [(None, b"a"), (b"k", b"b"), (None, None)]


def test_records_and_tombstones_on_spark(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    choices: Sequence[Choice | None] = [Choice("a", 1), None]
    stream = from_source(CollectionSource(choices, Choice | None))
    headers = (("h", b"x"), ("n", None))

    def record(choice: Choice | None) -> ProducerRecord[Choice | None]:
        return ProducerRecord(choice, key="k", headers=headers, timestamp=AT, partition=1)

    json, avro, records = (topics.make(name, 2) for name in ("json", "avro", "records"))
    with running_registry() as registry:
        form = AvroFormat(registry.address)
        pipeline = Pipeline(
            "spark",
            stream.sink_to(KafkaSink(topics.servers, json)),
            stream.sink_to(KafkaSink(topics.servers, avro, value_format=form)),
            stream.map(record).sink_to(KafkaSink(topics.servers, records, value_format=form)),
        )
        SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(pipeline, drain=False)
        # The interpreter reads all values; Spark reads them, and whole records.
        assert sorted(read(topics, json, Choice | None, "json"), key=str) == sorted(choices, key=str)
        assert sorted(read(topics, avro, Choice | None, form), key=str) == sorted(choices, key=str)
        whole = CollectSink[Any]()
        source: Any = KafkaRecordSource(
            topics.servers, records, Choice | None, value_format=form, starting_offsets="earliest"
        )
        plain = CollectSink[Any]()
        values: Any = KafkaSource(topics.servers, json, Choice | None, starting_offsets="earliest")
        reading = Pipeline("read", from_source(source).sink_to(whole), from_source(values).sink_to(plain))
        result = SparkRunner(spark, checkpoint=tmp_path / "read").run(reading, drain=False)
    assert sorted(result.collected(plain), key=str) == sorted(choices, key=str)
    assert sorted(
        ((each.value, each.key, each.headers, each.timestamp, each.partition) for each in result.collected(whole)),
        key=str,
    ) == sorted(((choice, b"k", headers, AT, 1) for choice in choices), key=str)
