"""Kafka on Spark, through Spark's connector, against a broker.

The bodies run in a process of their own, which `conftest.py` here starts.
"""

from __future__ import annotations

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.kafka.topics import Record, Topics, in_json
from tests.services.server import LOOPBACK, free_ports
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import MalformedRecordError, SinkError, SourceError
from windrow.kafka import KafkaRecord, KafkaRecordSource, KafkaSink, KafkaSource
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner, kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="the session of these tests has the connector, and is embedded")

START = 1_700_000_000_000
SECOND = timedelta(seconds=1)


class Reading(NamedTuple):
    sensor: str
    at: int
    celsius: float


class Total(NamedTuple):
    sensor: str
    celsius: float


def reading(sensor: str, second: float, celsius: float) -> dict[str, object]:
    return Reading(sensor, START + int(second * 1000), celsius)._asdict()


def add(one: Reading, other: Reading) -> Reading:
    return Reading(one.sensor, max(one.at, other.at), one.celsius + other.celsius)


def tenfold(number: int) -> int:
    return number * 10


def total_of(each: Reading) -> Total:
    return Total(each.sensor, each.celsius)


def copying(topics: Topics, source: str | re.Pattern[str], target: str, most: int | None = None) -> Pipeline:
    """Numbers of a topic, ten times as large, to another."""
    read = KafkaSource(
        topics.servers, source, int, starting_offsets="earliest", max_offsets_per_batch=most, engine_connector=True
    )
    return Pipeline("copy", from_source(read).map(tenfold).sink_to(sink(topics, target)))


def sink(topics: Topics, target: str) -> KafkaSink[int]:
    return KafkaSink[int](topics.servers, target, engine_connector=True)


def test_from_a_topic_to_windows_to_a_topic(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.make("in", 2), topics.make("out")
    read = KafkaSource(topics.servers, source, Reading, starting_offsets="earliest", engine_connector=True)
    stamped = from_source(read).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(SECOND), timestamp=lambda each: each.at
    )
    totals = stamped.key_by(lambda each: each.sensor).window(TumblingEventTimeWindows.of(10 * SECOND)).reduce(add)
    written = totals.map(total_of)
    pipeline = Pipeline(
        "totals",
        written.sink_to(
            KafkaSink[Total](topics.servers, target, key=lambda total: total.sensor, engine_connector=True)
        ),
    )
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)

    topics.send(source, in_json([reading("a", 1, 1), reading("b", 2, 10), reading("a", 12, 2)]))
    topics.send(source, in_json([reading("a", 3, 4)]), partition=1)
    runner.run(pipeline, drain=False)
    first = topics.read(target, 2)
    assert sorted((record.key, json.loads(record.value or b"")) for record in first) == [
        (b"a", {"sensor": "a", "celsius": 5.0}),
        (b"b", {"sensor": "b", "celsius": 10.0}),
    ]

    topics.send(source, in_json([reading("a", 15, 8), reading("a", 25, 16)]), partition=1)
    runner.run(pipeline, drain=False)
    assert topics.values(target, 3)[2:] == [{"sensor": "a", "celsius": 10.0}]

    # The end of the stream fires the window that is open.
    runner.start(pipeline).drain()
    assert topics.values(target, 4)[3:] == [{"sensor": "a", "celsius": 16.0}]


def test_a_pipeline_goes_on_where_it_was_stopped(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.make("in"), topics.make("out")
    pipeline = copying(topics, source, target, most=4)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    topics.send(source, in_json(range(10)))
    running = runner.start(pipeline)
    topics.read(target, 10)
    topics.send(source, in_json(range(10, 15)))
    topics.read(target, 15)
    running.stop()
    topics.send(source, in_json(range(15, 20)))
    running = runner.start(pipeline)
    topics.read(target, 20)
    running.stop()
    assert topics.values(target, 20) == [number * 10 for number in range(20)]


def test_records_with_all_that_kafka_knows(spark: SparkSession, topics: Topics) -> None:
    source = topics.make("in")
    headers = [("trace", b"\x01"), ("trace", b""), ("none", None)]
    texts = [b'{"sensor": "a", "at": 1, "celsius": 1.5}', b"{", b'{"sensor": "a"}']
    topics.send(source, [Record(texts[0], b"k", headers, START), *map(Record, texts[1:])])
    topics.send(source, [Record(None, b"gone", (), START + 1)])
    bad = OutputTag("bad", MalformedRecord)
    malformed, whole = CollectSink[MalformedRecord](), CollectSink[KafkaRecord[Reading | None]]()
    records: DataStream[KafkaRecord[Reading | None]] = from_source(
        KafkaRecordSource(
            topics.servers, source, Reading | None, starting_offsets="earliest", on_malformed=bad, engine_connector=True
        )
    )
    side = records.get_side_output(bad)
    result = SparkRunner(spark).run(Pipeline("all", records.sink_to(whole), side.sink_to(malformed)), drain=False)
    at = datetime.fromtimestamp(START / 1000, UTC)
    assert result.collected(whole) == [
        KafkaRecord(b"k", Reading("a", 1, 1.5), source, 0, 0, at, tuple(headers)),
        KafkaRecord(b"gone", None, source, 0, 3, at + timedelta(milliseconds=1)),
    ]
    assert [(each.raw, each.origin) for each in result.collected(malformed)] == [
        (text.decode(), f"{source}, partition 0, offset {offset}") for offset, text in enumerate(texts) if offset
    ]


def test_a_malformed_record_fails_the_run_and_is_named(spark: SparkSession, topics: Topics) -> None:
    source = topics.make("in")
    topics.send(source, [Record(b"1"), Record(None), Record(b"2")])
    read = KafkaSource(topics.servers, source, int, starting_offsets="earliest", engine_connector=True)
    with pytest.raises(MalformedRecordError) as caught:
        SparkRunner(spark).run(Pipeline("bad", from_source(read).sink_to(CollectSink[int]())), drain=False)
    assert f"{source}, partition 0, offset 1" in str(caught.value)
    assert "test_broker.py:" in str(caught.value)


def test_topics_of_a_pattern(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    target = topics.make("out")
    pattern = re.compile(rf"{topics.prefix}-in-\d+")
    for number in range(2):
        topics.send(topics.make(f"in-{number}"), in_json([number]))
    topics.send(topics.make("in-other"), in_json([100]))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    runner.run(copying(topics, pattern, target), drain=False)
    assert sorted(topics.values(target, 2)) == [0, 10]
    topics.send(topics.make("in-2"), in_json([2]))
    runner.run(copying(topics, pattern, target), drain=False)
    assert topics.values(target, 3)[2:] == [20]


def test_transactions(spark: SparkSession, topics: Topics) -> None:
    source = topics.make("in")
    producer = topics.producer(**{"transactional.id": topics.prefix})
    producer.init_transactions()
    for number, is_kept in enumerate([True, False, True]):
        producer.begin_transaction()
        topics.produce(producer, source, Record(str(number).encode()))
        assert producer.flush(30) == 0
        (producer.commit_transaction if is_kept else producer.abort_transaction)()
    committed, every = CollectSink[int](), CollectSink[int]()
    options = {"kafka.isolation.level": "read_committed"}
    reads = [
        from_source(
            KafkaSource(topics.servers, source, int, starting_offsets="earliest", options=each, engine_connector=True)
        ).sink_to(end)
        for each, end in ((options, committed), ({}, every))
    ]
    result = SparkRunner(spark).run(Pipeline("transactions", *reads), drain=False)
    assert result.collected(committed) == [0, 2]
    # The default is that of Kafka, Spark and Flink.
    assert result.collected(every) == [0, 1, 2]


def test_each_element_goes_to_its_topic_with_its_key(spark: SparkSession, topics: Topics) -> None:
    targets = [topics.make(f"out-{number}") for number in range(2)]
    prefix = topics.prefix
    words = from_collection(["a", "bb", "ccc", ""])
    texts = KafkaSink[str](
        topics.servers, lambda word: f"{prefix}-out-{len(word) % 2}", key=lambda word: word[:1] or None,
        value_format="text", engine_connector=True,
    )  # fmt: skip
    SparkRunner(spark).run(Pipeline("words", words.sink_to(texts)))
    found = [[(record.key, record.value) for record in topics.read(target, 2)] for target in targets]
    assert found == [[(b"b", b"bb"), (None, b"")], [(b"a", b"a"), (b"c", b"ccc")]]


def numbers(topics: Topics, topic: str, **options: str) -> tuple[Pipeline, CollectSink[int]]:
    end = CollectSink[int]()
    read = KafkaSource(topics.servers, topic, int, starting_offsets="earliest", options=options, engine_connector=True)
    return Pipeline("numbers", from_source(read).sink_to(end)), end


def test_expired_records_are_named_and_lost_on_purpose(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source = topics.make("in")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    topics.send(source, in_json(range(3)))
    runner.run(numbers(topics, source)[0], drain=False)
    topics.send(source, in_json(range(3, 9)))
    topics.expire(source, before=6)
    with pytest.raises(SourceError, match="a topic no longer has records that were not read yet") as caught:
        runner.run(numbers(topics, source)[0], drain=False)
    assert caught.value.given == f"Could not read records in offset [3, 9) for topic partition {source}-0"
    assert str(caught.value.where).startswith("numbers.1.source, ")
    assert "options={'failOnDataLoss': 'false'}" in str(caught.value)
    pipeline, end = numbers(topics, source, failOnDataLoss="false")
    assert runner.run(pipeline, drain=False).collected(end) == [6, 7, 8]


def test_a_topic_that_was_deleted_and_made_again(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source = topics.make("in")
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    topics.send(source, in_json(range(3)))
    runner.run(numbers(topics, source)[0], drain=False)
    topics.delete(source)
    topics.make("in")
    topics.send(source, in_json([100, 101]))
    with pytest.raises(SourceError, match="a topic no longer has records that were not read yet") as caught:
        runner.run(numbers(topics, source)[0], drain=False)
    assert caught.value.given == f"Partition {source}-0 offset was changed from 3 to 2"
    assert "test_broker.py:" in str(caught.value.where)


def test_topics_that_are_not_there(spark: SparkSession, topics: Topics) -> None:
    absent = f"{topics.prefix}-absent"
    with pytest.raises(SourceError, match="a topic of a source is not there") as caught:
        SparkRunner(spark).run(numbers(topics, absent)[0], drain=False)
    assert caught.value.given == f"kafka {absent} at {topics.servers}"
    assert "test_broker.py:" in str(caught.value.where)

    patient = KafkaSink[int](topics.servers, absent, options={"kafka.max.block.ms": "500"}, engine_connector=True)
    with pytest.raises(SinkError, match="the topic of a sink is not there") as refused:
        SparkRunner(spark).run(Pipeline("out", from_collection([1]).sink_to(patient)))
    assert refused.value.given == f"{absent} of kafka {absent} at {topics.servers}, after 0.5 s"
    assert "test_broker.py:" in str(refused.value.where)


def test_brokers_that_do_not_answer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_ANSWER_SECONDS", 0.2)
    closed = free_ports(1)[0]
    with socket.create_server((LOOPBACK, 0)) as silent:
        servers = [f"{LOOPBACK}:{closed}", f"{LOOPBACK}:{silent.getsockname()[1]}"]
        read = from_source(KafkaSource(servers, "in", int, engine_connector=True))
        with pytest.raises(SourceError, match="no broker of Kafka answers") as caught:
            SparkRunner(spark).run(Pipeline("in", read.sink_to(CollectSink[int]())), drain=False)
    assert f"({servers[0]}: Connection refused; {servers[1]}: timed out)" in str(caught.value)
    assert "test_broker.py:" in str(caught.value.where)

    patient = KafkaSink[int](servers[0], "out", options={"kafka.max.block.ms": "500"}, engine_connector=True)
    with pytest.raises(SinkError, match="no broker of Kafka answers to a sink") as refused:
        SparkRunner(spark).run(Pipeline("out", from_collection([1]).sink_to(patient)))
    assert "out at 127.0.0.1" in str(refused.value.given)


@pytest.mark.parametrize(("limit", "size"), [("20000", 50_000), ("5000000", 2_000_000)])
def test_a_record_that_is_too_large_is_named(spark: SparkSession, topics: Topics, limit: str, size: int) -> None:
    target = topics.make("out", settings={"max.message.bytes": limit})
    large = KafkaSink[str](topics.servers, target, key=lambda text: text[0], value_format="text", engine_connector=True)
    pipeline = Pipeline("large", from_collection(["a", "b" * size]).sink_to(large))
    with pytest.raises(SinkError, match="Kafka refuses a record of a sink, as it is too large") as caught:
        SparkRunner(spark).run(pipeline)
    assert f"the largest of the batch: {size + 1} bytes for {target}, key b'b', value b'bbbb" in str(caught.value)
    assert str(caught.value.where).startswith("large.2.sink, ")
    assert len(str(caught.value)) < 2000
