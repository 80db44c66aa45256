"""A run that begins reads all that was committed before, which brokers show a moment later, on both engines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.topics import Topics
from windrow import Pipeline, from_source
from windrow.kafka import EndingOffsets, KafkaSource
from windrow.sinks import CollectSink
from windrow_kafka import brokers as topic_brokers
from windrow_kafka.reader import TopicReader
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: confluent-kafka has no types.


def pipeline(topics: Topics, topic: str, ending: EndingOffsets | None, sink: CollectSink[int]) -> Pipeline:
    source = KafkaSource(topics.servers, topic, int, starting_offsets="earliest", ending_offsets=ending)
    return Pipeline("read", from_source(source).sink_to(sink))


def begun(topics: Topics, topic: str, value: int) -> Any:
    """A producer that has written a value in a transaction, which is open."""
    producer = topics.producer(**{"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, f"{value}")
    assert producer.flush(30) == 0
    return producer


def test_each_read_behind_a_commit_has_its_record(topics: Topics) -> None:
    topic = topics.make("out")
    producer = begun(topics, topic, 0)
    for count in range(1, 101):
        producer.commit_transaction(30)
        reads = TopicReader(*source_of(topics, topic)).reads()  # as the interpreter and Spark's planner begin
        # A record and the end of its transaction have an offset each.
        assert reads.latest() == {f"{topic}/0": 2 * count}
        producer.begin_transaction()
        producer.produce(topic, f"{count}")
        assert producer.flush(30) == 0
    producer.abort_transaction(30)
    sink = CollectSink[int]()
    assert LocalRunner().run(pipeline(topics, topic, "latest", sink)).collected(sink) == list(range(100))


def source_of(topics: Topics, topic: str) -> tuple[Any, Any]:
    step = pipeline(topics, topic, "latest", CollectSink()).steps[0]
    node: Any = step.node
    return node.source, step


@pytest.mark.parametrize("ending", ["latest", None])
def test_a_run_waits_for_a_transaction_that_is_about_to_end(topics: Topics, ending: EndingOffsets | None) -> None:
    topic, sink = topics.make("out"), CollectSink[int]()
    producer = begun(topics, topic, 7)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(LocalRunner().run, pipeline(topics, topic, ending, sink), drain=False)
        with pytest.raises(TimeoutError):
            read.result(0.5)
        producer.commit_transaction(30)
        assert read.result(30).collected(sink) == [7]


def test_a_run_does_not_wait_for_ever_nor_where_it_reads_what_is_open(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, sink = topics.make("out"), CollectSink[int]()
    begun_by = begun(topics, topic, 7)
    monkeypatch.setattr(topic_brokers, "_SECONDS_TO_SETTLE", 0.2)
    assert LocalRunner().run(pipeline(topics, topic, "latest", sink)).collected(sink) == []
    monkeypatch.setattr(topic_brokers, "_SECONDS_TO_SETTLE", 1e9)
    options = {"isolation.level": "read_uncommitted"}
    source = KafkaSource(
        topics.servers, topic, int, starting_offsets="earliest", ending_offsets="latest", options=options
    )
    everything = Pipeline("read", from_source(source).sink_to(sink := CollectSink[int]()))
    assert LocalRunner().run(everything).collected(sink) == [7]
    begun_by.abort_transaction(30)


def test_spark_reads_what_was_committed_just_before(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make("out")
    producer = begun(topics, topic, 0)
    for count in range(1, 3):
        producer.commit_transaction(30)
        sink = CollectSink[int]()
        assert SparkRunner(spark).run(pipeline(topics, topic, "latest", sink)).collected(sink) == list(range(count))
        producer.begin_transaction()
        producer.produce(topic, f"{count}")
        assert producer.flush(30) == 0
    producer.abort_transaction(30)
