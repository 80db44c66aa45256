"""Kafka's topics read by confluent-kafka in Spark's workers, against a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest

from tests.kafka.topics import Record, Topics, in_json
from tests.services.registry import running_registry
from tests.spark.streams import stamped
from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError, SourceError, UserFunctionError
from windrow.kafka import AvroFormat, KafkaRecord, KafkaRecordSource, KafkaSink, KafkaSource, ProtobufFormat
from windrow.sinks import CollectSink, FunctionSink, ParquetFileSink
from windrow.sources import MalformedRecord, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_kafka.topics import TopicReads
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.worker import current_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: options of sources of every type.

MALFORMED = OutputTag("malformed", MalformedRecord)
START = 1_700_000_000_000


class Reading(NamedTuple):
    sensor: str
    at: int
    celsius: float


class Choice(NamedTuple):
    name: str
    number: int


class Mean(NamedTuple):
    sensor: str
    end: int
    celsius: float


@pytest.fixture
def topics(kafka: str) -> Topics:
    return Topics(kafka, f"spark-{uuid4().hex[:8]}")


def readings(begin: int, end: int) -> list[Record]:
    return in_json(
        Reading(f"s{number % 3}", START + number * 1_000, number / 2)._asdict() for number in range(begin, end)
    )


def source(topics: Topics, topic: str, **options: Any) -> KafkaSource[Reading]:
    return KafkaSource(topics.servers, topic, Reading, **{"starting_offsets": "earliest", **options})


def means(stream: DataStream[Reading]) -> DataStream[Mean]:
    keyed = stamped(stream, 3_600_000).key_by(lambda each: each.sensor)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    return windows.aggregate(agg.into(Mean, agg.key(), agg.window_end(), agg.mean(lambda each: each.celsius)))


def expected_means(count: int) -> list[Mean]:
    by_window: dict[tuple[str, int], list[float]] = {}
    for number in range(count):
        end = START + (number // 10 + 1) * 10_000
        by_window.setdefault((f"s{number % 3}", end), []).append(number / 2)
    return [Mean(sensor, end, sum(values) / len(values)) for (sensor, end), values in by_window.items()]


def test_windows_of_a_topic_go_on_behind_the_offsets_of_the_checkpoint(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, readings(0, 50))
    topics.send(topic, [*readings(50, 100), Record(b"x")], partition=1)
    stream = from_source(source(topics, topic, max_offsets_per_batch=100, on_malformed=MALFORMED), name="in")
    results, malformed = CollectSink[Mean](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("p", means(stream).sink_to(results), stream.get_side_output(MALFORMED).sink_to(malformed))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert "runs as columns" in pipeline.explain(runner)
    first = runner.run(pipeline, drain=False)
    assert [each.origin for each in first.collected(malformed)] == [f"{topic}, partition 1, offset 50"]

    topics.send(topic, readings(100, 200))
    rest = runner.start(pipeline).drain()
    taken = [*first.collected(results), *rest.collected(results)]
    assert sorted(taken) == sorted(expected_means(200))


def test_whole_records_cross_to_windows_functions_and_files_as_columns(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("in")
    records = [
        record._replace(key=b"k%d" % (number % 2), headers=[("n", b"x")] * (number % 3), timestamp=START + number)
        for number, record in enumerate(readings(0, 60))
    ]
    topics.send(topic, [*records, Record(b"x", timestamp=START), Record(None, timestamp=START)])
    read = KafkaRecordSource(topics.servers, topic, Reading, starting_offsets="earliest", on_malformed="drop")
    stream = stamped(from_source(read, name="in"), at=lambda record: record.timestamp)
    windows = stream.key_by(lambda record: record.value.sensor).window(TumblingEventTimeWindows.of(timedelta(hours=1)))
    totals = CollectSink[tuple[str, float]]()
    lists, files = CollectSink[list[int]](), ParquetFileSink[KafkaRecord[Reading]](tmp_path / "records")
    pipeline = Pipeline(
        "p",
        windows.aggregate(agg.combine(agg.key(), agg.sum(lambda record: record.value.celsius))).sink_to(totals),
        windows.apply(lambda key, window, records: [[len(each.headers) for each in records]])
        .returns(list[int])
        .sink_to(lists),
        stream.sink_to(files),
    )
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert "runs as columns" in pipeline.explain(runner)
    found = runner.start(pipeline).drain()
    assert sorted(found.collected(totals)) == [("s0", 285.0), ("s1", 295.0), ("s2", 305.0)]
    assert sorted(found.collected(lists)) == [[0] * 20, [1] * 20, [2] * 20]
    written = CollectSink[KafkaRecord[Reading]]()
    again = from_source(ParquetFileSource(tmp_path / "records", KafkaRecord[Reading])).sink_to(written)
    expected = CollectSink[KafkaRecord[Reading]]()
    local = LocalRunner().run(Pipeline("e", again, from_source(read).sink_to(expected)), drain=False)
    assert local.collected(written) == local.collected(expected)
    assert len(local.collected(expected)) == 60


@pytest.mark.thorough(reason="the test of branches and tests/kafka/test_records.py have registries on Spark")
def test_avro_and_protobuf_by_a_registry_from_topic_to_topic(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    from google.protobuf.type_pb2 import EnumValue

    first, second, third = (topics.make(name, 2) for name in ("first", "second", "third"))
    values = [Reading(f"s{number % 3}", START + number * 1_000, number / 2) for number in range(60)]
    with running_registry() as registry:
        avro, protobuf = AvroFormat(registry.address), ProtobufFormat(registry.address, EnumValue)
        runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
        LocalRunner().run(
            Pipeline("w", from_collection(values).sink_to(KafkaSink[Reading](topics.servers, first, value_format=avro)))
        )
        topics.send(first, [Record(b"{}")])
        stream = from_source(source(topics, first, value_format=avro, on_malformed=MALFORMED), name="in")
        malformed, found = CollectSink[MalformedRecord](), means(stream)
        pipeline = Pipeline(
            "p",
            found.sink_to(KafkaSink[Mean](topics.servers, second, value_format=avro)),
            found.map(lambda mean: Choice(mean.sensor, int(mean.celsius))).sink_to(
                KafkaSink[Choice](topics.servers, third, key=lambda choice: choice.name, value_format=protobuf)
            ),
            stream.get_side_output(MALFORMED).sink_to(malformed),
        )
        assert "runs as columns" in pipeline.explain(runner)
        (bad,) = runner.start(pipeline).drain().collected(malformed)
        assert bad.reason == "the value is without a leading zero byte"
        assert set(registry.subjects) == {f"{topic}-value" for topic in (first, second, third)}
        written, choices = CollectSink[Any](), CollectSink[Any]()
        back: list[DataStreamSink] = [
            from_source(
                KafkaSource(topics.servers, topic, kind, value_format=form, starting_offsets="earliest")
            ).sink_to(end)
            for topic, kind, form, end in ((second, Mean, avro, written), (third, Choice, protobuf, choices))
        ]  # fmt: skip
        result = LocalRunner().run(Pipeline("r", *back), drain=False)
    expected = expected_means(60)
    assert sorted(result.collected(written)) == sorted(expected)
    assert sorted(result.collected(choices)) == sorted(Choice(mean.sensor, int(mean.celsius)) for mean in expected)


def test_tasks_that_share_a_partition_keep_its_order(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shared_by(read: TopicReads, tasks: int, *, divided: bool) -> TopicReads:
        return replace(read, tasks=tasks, divided=divided, least=5)

    monkeypatch.setattr(TopicReads, "shared_by", shared_by)
    topic, target = topics.make("in"), topics.make("out")
    topics.send(topic, readings(0, 80))
    stream = from_source(source(topics, topic, max_offsets_per_batch=40), name="in")
    windows = (
        stamped(stream, 0).key_by(lambda each: each.sensor).window(TumblingEventTimeWindows.of(timedelta(hours=1)))
    )
    ends = CollectSink[tuple[str, float, float]]()
    lists, tasks = CollectSink[list[int]](), CollectSink[tuple[int, int]]()
    shared = Pipeline(
        "shared",
        windows.aggregate(
            agg.combine(agg.key(), agg.first(lambda each: each.celsius), agg.last(lambda each: each.celsius))
        ).sink_to(ends),
        windows.apply(lambda key, window, found: [[(each.at - START) // 1_000 for each in found]])
        .returns(list[int])
        .sink_to(lists),
        stream.map(lambda each: (current_partition(), (each.at - START) // 1_000)).sink_to(tasks),
    )
    runner = SparkRunner(spark, checkpoint=tmp_path / "shared", partitions=2)
    assert "runs as columns" in shared.explain(runner)
    result = runner.start(shared).drain()
    assert sorted(result.collected(ends)) == [("s0", 0.0, 39.0), ("s1", 0.5, 39.5), ("s2", 1.0, 38.5)]
    assert sorted(result.collected(lists)) == [list(range(first, 80, 3)) for first in range(3)]
    assert result.collected(tasks) == [(number // 20 % 2, number) for number in range(80)]

    # Tasks write a topic side by side: one takes a whole partition, in one transaction a batch.
    copy = Pipeline("copy", stream.sink_to(KafkaSink[Reading](topics.servers, target)))
    SparkRunner(spark, checkpoint=tmp_path / "copy", partitions=2).run(copy, drain=False)
    assert topics.offsets_of(target) == [80 + 2]


def test_records_that_expired_between_runs_are_told(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make("in")
    topics.send(topic, readings(0, 10))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")

    def run(on_lost: str) -> list[Reading]:
        sink = CollectSink[Reading]()
        stream = from_source(source(topics, topic, on_lost_offsets=on_lost), name="in")
        return runner.run(Pipeline("p", stream.sink_to(sink)), drain=False).collected(sink)

    assert len(run("fail")) == 10
    topics.send(topic, readings(10, 20))
    topics.expire(topic, 15)
    with pytest.raises(SourceError, match=rf"{topic}, partition 0, offsets 10 to 14\n(.|\n)*where: +p\.1\.in, "):
        run("fail")
    assert [each.celsius for each in run("earliest")] == [7.5, 8.0, 8.5, 9.0, 9.5]
    # An earlier version let Spark's connector read, whose offsets have another form.
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    stored = checkpoint.description()
    assert stored is not None
    checkpoint.plan.write(replace(stored, sources=[replace(stored.sources[0], kind="KafkaSource")]))
    message = "the sources were KafkaSource and are KafkaSource by confluent-kafka"
    with pytest.raises(IncompatibleStateError, match=message):
        run("earliest")


def test_a_topic_with_an_end(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, readings(0, 50))
    topics.send(topic, readings(50, 100), partition=1)
    bounded = source(topics, topic, ending_offsets="latest", max_offsets_per_batch=60)
    sink = CollectSink[Mean]()
    pipeline = Pipeline("p", means(from_source(bounded, name="in")).sink_to(sink))
    runner = SparkRunner(spark)
    for run in (runner.run, runner.run_batch):
        assert sorted(run(pipeline).collected(sink)) == sorted(expected_means(100))

    # A stream that goes on has read all that there was when it began, and a later run goes on from there.
    taken: list[int] = []
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    stream = from_source(bounded, name="in").map(lambda each: (each.at - START) // 1_000)
    copy = Pipeline("c", stream.sink_to(FunctionSink(lambda batch, values: taken.extend(values))))
    running = runner.start(copy)
    running.process_available()
    assert sorted(taken) == list(range(100))
    topics.send(topic, readings(100, 110))
    running.process_available()
    running.stop()
    assert len(taken) == 100
    runner.run(copy, drain=False)
    assert sorted(taken) == list(range(110))


@pytest.mark.thorough(reason="the test below has one made anew; tests/kafka/test_client.py has one that is deleted")
def test_a_topic_that_was_made_anew_or_is_deleted_is_told(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make("in")
    topics.send(topic, readings(0, 10))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    taken: list[Reading] = []

    def pipeline(on_lost: str) -> Pipeline:
        stream = from_source(source(topics, topic, on_lost_offsets=on_lost), name="in")
        return Pipeline("p", stream.sink_to(FunctionSink(lambda batch, values: taken.extend(values))))

    runner.run(pipeline("fail"), drain=False)
    assert len(taken) == 10
    topics.delete(topic)
    topics.make("in")
    topics.send(topic, readings(100, 120))  # it reaches further than the one before
    with pytest.raises(
        SourceError, match=rf"made anew after it was read\n +given: +{topic}, partition 0, (.|\n)*p\.1\.in"
    ):
        runner.run(pipeline("fail"), drain=False)
    running = runner.start(pipeline("earliest"))
    running.process_available()
    assert [each.at for each in taken[10:]] == [START + number * 1_000 for number in range(100, 120)]
    topics.delete(topic)
    with pytest.raises(SourceError, match=rf"deleted after it was found\n +given: .*{topic}(/0)?: (.|\n)*p\.1\.in"):
        running.process_available()


def test_a_batch_that_runs_again_reads_no_other_topic(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make("in")
    topics.send(topic, readings(0, 10))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    taken: list[Reading] = []

    def failing(batch: int, values: Sequence[Reading]) -> None:
        raise RuntimeError("as if the driver were killed")

    def pipeline(on_lost: str, take: Callable[[int, Sequence[Reading]], object]) -> Pipeline:
        stream = from_source(source(topics, topic, on_lost_offsets=on_lost), name="in")
        return Pipeline("p", stream.sink_to(FunctionSink(take)))

    with pytest.raises(UserFunctionError, match="as if the driver were killed"):
        runner.run(pipeline("fail", failing), drain=False)
    topics.delete(topic)
    topics.make("in")
    topics.send(topic, readings(100, 120))  # it has all offsets of the batch
    given = rf"{topic}, partition 0, offsets 0 to 10 are read: its id was "
    with pytest.raises(SourceError, match=rf"made anew after it was read\n +given: +{given}(.|\n)*p\.1\.in"):
        runner.run(pipeline("fail", lambda batch, values: taken.extend(values)), drain=False)
    assert taken == []
    runner.run(pipeline("earliest", lambda batch, values: taken.extend(values)), drain=False)
    assert [each.at for each in taken] == [START + number * 1_000 for number in range(100, 120)]


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
    fastavro = pytest.importorskip("fastavro")
    pytest.importorskip("confluent_kafka.schema_registry")
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
