"""Values by a schema registry from topic to topic, in the interpreter, against a broker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.kafka.topics import Record, Topics
from windrow import OutputTag, Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, MalformedRecordError, PlanError, SinkError, SourceError
from windrow.kafka import AvroFormat, KafkaRecordSource, KafkaSink, KafkaSource, ProtobufFormat
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord
from windrow_runtime.local import LocalRunner

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry.protobuf")

# Any in this module: values of every type.


@dataclass(frozen=True)
class Place:
    name: str
    floor: int | None = None


@dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float
    at: datetime
    place: Place | None = None


@dataclass(frozen=True)
class Renamed:
    """A later form of the same."""

    celsius: float
    sensor: str
    unit: str = "C"


@dataclass(frozen=True)
class Choice:
    name: str
    number: int


READINGS = [
    Reading("roof", 21.5, datetime(2026, 1, 1, 12, tzinfo=UTC), Place("north", 3)),
    Reading("cellar", 12.0, datetime(2026, 1, 1, 13, 0, 0, 5, tzinfo=UTC)),
]


def written(topics: Topics, topic: str, values: list[Any], form: Any) -> None:
    sink = KafkaSink[Any](topics.servers, topic, value_format=form)
    LocalRunner().run(Pipeline("write", from_collection(values).sink_to(sink)))
    topics.committed(topic)  # a broker ends the transaction a moment after it has said so


def read(topics: Topics, topic: str, kind: Any, form: Any, **options: Any) -> KafkaSource[Any]:
    return KafkaSource(topics.servers, topic, kind, value_format=form, starting_offsets="earliest", **options)


def collected(source: Any) -> list[Any]:
    sink = CollectSink[Any]()
    return LocalRunner().run(Pipeline("read", from_source(source).sink_to(sink)), drain=False).collected(sink)


def test_avro_from_topic_to_topic_with_a_later_type(client: None, topics: Topics) -> None:
    topic, form = topics.make("in"), AvroFormat("mock://formats")
    written(topics, topic, READINGS, form)
    assert collected(read(topics, topic, Reading, form)) == READINGS
    assert collected(read(topics, topic, Renamed, form)) == [Renamed(21.5, "roof"), Renamed(12.0, "cellar")]
    (first, _) = collected(
        KafkaRecordSource(topics.servers, topic, Reading, value_format=form, starting_offsets="earliest")
    )  # fmt: skip
    assert (first.value, first.offset) == (READINGS[0], 0)


def test_values_that_do_not_fit_go_where_the_source_says(client: None, topics: Topics) -> None:
    topic, form = topics.make("in"), AvroFormat("mock://formats")
    written(topics, topic, READINGS[:1], form)
    topics.send(topic, [Record(b"{}"), Record(None), Record(b"\0\0\0\x7f\xffa")])
    written(topics, topic, READINGS[1:], form)
    bad = OutputTag("bad", MalformedRecord)
    stream = from_source(read(topics, topic, Reading, form, on_malformed=bad))
    good, malformed = CollectSink[Reading](), CollectSink[MalformedRecord]()
    ends = [stream.sink_to(good), stream.get_side_output(bad).sink_to(malformed)]
    result = LocalRunner().run(Pipeline("p", *ends), drain=False)
    assert result.collected(good) == READINGS
    assert [(each.reason, each.raw) for each in result.collected(malformed)] == [
        ("the value is without a leading zero byte", "b'{}'"),
        ("the record has no value", "null"),
        ("the registry has no schema 32767", "b'\\x00\\x00\\x00\\x7f\\xffa'"),
    ]
    first = result.collected(malformed)[0].origin
    assert first.startswith(f"{topic}, partition 0, offset ")
    with pytest.raises(MalformedRecordError, match=first):
        collected(read(topics, topic, Reading, form))


def test_a_registry_that_is_away_and_a_type_that_does_not_fit_are_told_with_the_step(
    client: None, topics: Topics
) -> None:
    topic = topics.make("in")
    written(topics, topic, READINGS, AvroFormat("mock://formats"))
    away = AvroFormat("http://127.0.0.1:9", options={"max.retries": "0"})
    with pytest.raises(SourceError, match=r"schema \d+ at http://127\.0\.0\.1:9(.|\n)*where: +read\.1\.source"):
        collected(read(topics, topic, Reading, away))
    with pytest.raises(SinkError, match=r"the schema of .*-value at http://127\.0\.0\.1:9(.|\n)*write\.2\.sink"):
        written(topics, topic, READINGS, away)
    with pytest.raises(PlanError, match=r"no form for timedelta: timedelta(.|\n)*write\.2\.sink"):
        written(topics, topic, [timedelta(1)], away)
    registered = AvroFormat("mock://formats", subject=f"{topic}-value", auto_register=False)
    with pytest.raises(
        InvalidArgumentError, match=r"Renamed lacks it\n +given: +Renamed\n(.|\n)*write\.2\.sink.*, Renamed\.at\n"
    ):
        written(topics, topic, [Renamed(1.0, "roof")], registered)
    assert len(topics.read(topic, 2)) == 2


def test_protobuf_from_topic_to_topic(client: None, topics: Topics) -> None:
    from google.protobuf.type_pb2 import EnumValue

    topic, form = topics.make("in"), ProtobufFormat("mock://formats", EnumValue)
    choices = [Choice("a", 1), Choice("", 0)]
    written(topics, topic, choices, form)
    assert collected(read(topics, topic, Choice, form)) == choices
    assert [each.number for each in collected(read(topics, topic, EnumValue, form))] == [1, 0]
