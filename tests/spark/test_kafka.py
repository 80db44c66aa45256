"""Kafka on Spark, as far as it goes without the connector: what Spark is asked for, and what becomes of rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

from windrow import Pipeline, from_collection, from_source
from windrow.errors import SourceError, UnsupportedOperationError, UserFunctionError, WindrowError
from windrow.kafka import KafkaRecord, KafkaRecordSource, KafkaSink, KafkaSource
from windrow.plan import Step
from windrow.sinks import CollectSink
from windrow_runtime.connectors.kafka.rows_on_spark import kafka_rows, write_kafka
from windrow_runtime.connectors.kafka.spark_connector import connector_errors
from windrow_runtime.connectors.kafka.values import kafka_decoder
from windrow_runtime.spark import SparkRunner
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.exchange.rows import RowKind, dump_values
from windrow_runtime.spark.faults import find_failure
from windrow_runtime.spark.sources.scan import ScanContext
from windrow_runtime.spark.sources.scanner import scanner_of
from windrow_runtime.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: stands for a session, a reader and a writer of Spark, which take anything.

AT = datetime(2024, 1, 1, tzinfo=UTC)
HEADERS = "array<struct<key: string, value: binary>>"
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    f"headers {HEADERS}"
)


class Reading(NamedTuple):
    sensor: str
    celsius: float


class Recorder:
    """Stands for Spark's session, its stream reader, and the DataFrame that it loads; or for a writer."""

    version = "4.2.0"
    columns = ("value",)

    def __init__(self, failure: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self._failure = failure

    @property
    def readStream(self) -> Recorder:  # noqa: N802  Spark's name
        return self

    @property
    def write(self) -> Recorder:
        return self

    @property
    def sparkSession(self) -> Recorder:  # noqa: N802  Spark's name
        return self

    def format(self, name: str) -> Recorder:
        self.calls.append(name)
        return self

    def options(self, **options: str) -> Recorder:
        self.calls.append(options)
        return self

    def select(self, *names: str) -> Recorder:
        self.calls.append(names)
        return self

    def load(self) -> Recorder:
        if self._failure is not None:
            raise self._failure
        return self

    save = load


def context(session: Any, source: Any) -> ScanContext:
    step = Pipeline("kafka", from_source(source).sink_to(CollectSink())).steps[0]
    return ScanContext(session, step, Checkpoint(Path("checkpoint")), StateCodec())


def scan(of: ScanContext) -> None:
    scanner_of(of.step).scan(of)


def sink_step(sink: KafkaSink[Any]) -> Step:
    return Pipeline("kafka", from_collection([Reading("a", 1.0)]).sink_to(sink)).steps[-1]


def test_what_spark_is_asked_to_read_and_write() -> None:
    session: Any = Recorder()
    source = KafkaRecordSource("a:9092", "in", Reading, options={"kafka.client.id": "me"}, engine_connector=True)
    scan(context(session, source))
    wanted: Mapping[str, str] = {
        "kafka.bootstrap.servers": "a:9092",
        "subscribe": "in",
        "startingOffsets": "latest",
        "includeHeaders": "true",
        "kafka.client.id": "me",
    }
    columns = ("value", "topic", "partition", "offset", "key", "timestamp", "headers")
    assert session.calls == ["kafka", wanted, columns]

    rows: Any = Recorder()
    sink = KafkaSink[Reading]("a:9092", "out", options={"kafka.acks": "all"}, engine_connector=True)
    write_kafka(rows, sink_step(sink))
    assert rows.calls == ["kafka", {"kafka.bootstrap.servers": "a:9092", "kafka.acks": "all"}]


def test_what_spark_refuses_is_told_without_secrets() -> None:
    from pyspark.errors import IllegalArgumentException

    failure = IllegalArgumentException("no login with password hunter22\n  at org.apache.kafka")
    session: Any = Recorder(failure)
    options = {"kafka.ssl.key.password": "hunter22"}
    source = KafkaSource("a:9092", "in", Reading, options=options, engine_connector=True)
    with pytest.raises(SourceError) as caught:
        scan(context(session, source))
    assert "hunter22" not in str(caught.value)
    assert "Spark says: no login with password *****" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_rows_become_elements(spark: SparkSession) -> None:
    rows: list[Any] = [
        (b"k", b'{"sensor": "roof", "celsius": 1.5}', "in", 0, 7, AT, 0, [("trace", b"x"), ("none", None)]),
        (None, b'{"sensor": "roof"}', "in", 1, 8, AT, 0, None),
        (None, None, "in", 1, 9, AT, 0, None),
        (None, b"\xff{", "in", 1, 10, AT, 0, None),
    ]
    (batch,) = spark.createDataFrame(rows, COLUMNS).coalesce(1).toArrow().combine_chunks().to_batches()
    decoded = kafka_decoder(KafkaRecordSource("a:1", "in", Reading))(batch)
    assert decoded.values == [
        KafkaRecord(b"k", Reading("roof", 1.5), "in", 0, 7, AT, (("trace", b"x"), ("none", None)))
    ]
    assert [record.origin for record in decoded.malformed] == [
        f"in, partition 1, offset {offset}" for offset in (8, 9, 10)
    ]
    assert "Reading.celsius" in decoded.malformed[0].reason

    values = kafka_decoder(KafkaSource("a:1", "in", Reading))(batch)
    assert list(values.values) == [Reading("roof", 1.5)]
    raw = kafka_decoder(KafkaSource("a:1", "in", bytes, value_format="bytes"))(batch)
    assert list(raw.values) == [rows[0][1], rows[1][1], b"\xff{"]
    assert [record.reason for record in raw.malformed] == ["the record has no value"]
    text = kafka_decoder(KafkaSource("a:1", "in", str, value_format="text"))(batch)
    assert list(text.values) == [rows[0][1].decode(), rows[1][1].decode()]
    assert [record.origin for record in text.malformed] == [f"in, partition 1, offset {offset}" for offset in (9, 10)]


def test_elements_become_rows(spark: SparkSession) -> None:
    elements = [Reading("roof", 1.5), Reading("", 2.0)]
    payloads = spark.createDataFrame([(int(RowKind.OUTPUT), dump_values(elements))], "kind int, payload binary")
    sink = KafkaSink[Reading]("a:1", lambda r: f"to-{r.celsius:.0f}", key=lambda r: r.sensor or None)
    found = [tuple(row) for row in kafka_rows(payloads, sink_step(sink), ()).collect()]
    assert found == [
        ("to-2", b"roof", b'{"sensor":"roof","celsius":1.5}', None, None),
        ("to-2", None, b'{"sensor":"","celsius":2.0}', None, None),
    ]

    failing = KafkaSink[Reading]("a:1", "out", key=lambda r: str(1 / (r.celsius - 2)))
    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        kafka_rows(payloads, sink_step(failing), ()).collect()
    failure = find_failure(caught.value)
    assert isinstance(failure, UserFunctionError)
    assert "the key function of the sink raised ZeroDivisionError" in failure.message
    wrong = KafkaSink[Any]("a:1", "out", value_format="text")
    with pytest.raises(Exception, match="writes values of one type"):
        kafka_rows(payloads, sink_step(wrong), ()).collect()


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (AnalysisException("[KAFKA_DATA_SOURCE_NOT_ENABLED] The data source is not enabled. SQLSTATE: 0A000"), True),
        (AnalysisException("Failed to find data source: kafka. Deploy the application as per the guide"), True),
        (
            AnalysisException("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure it is there"),
            True,
        ),
        (RuntimeError("java.lang.ClassNotFoundException: kafka.DefaultSource"), True),
        (RuntimeError("java.lang.NoClassDefFoundError: org/apache/kafka/common/serialization/Deserializer"), True),
        (AnalysisException("Failed to find data source: kinesis"), False),
        (IllegalArgumentException("Option 'kafka.bootstrap.servers' must be specified"), False),
    ],
)
def test_each_version_of_spark_misses_the_connector_in_its_own_words(error: Exception, missing: bool) -> None:
    end = KafkaSource("a:1", "t", str, value_format="text")
    session: Any = SimpleNamespace(version="4.2.0")
    expected = UnsupportedOperationError if missing else SourceError
    with pytest.raises(expected) as caught, connector_errors(session, "here", end):
        raise error
    assert ("spark-sql-kafka-0-10_2.13:4.2.0" in str(caught.value)) is missing


def test_a_session_without_the_connector(spark: SparkSession) -> None:
    topic = from_source(KafkaSource("a:1", "t", Reading, engine_connector=True))
    reading = Pipeline("in", topic.sink_to(CollectSink[Reading]()))
    sink = KafkaSink[Reading]("a:1", "t", engine_connector=True)
    writing = Pipeline("out", from_collection([Reading("a", 1.0)]).sink_to(sink))
    for pipeline in (reading, writing):
        with pytest.raises(UnsupportedOperationError) as caught:
            SparkRunner(spark).run(pipeline, drain=False)
        text = str(caught.value)
        assert f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}" in text
        assert "test_kafka.py:" in text
    with pytest.raises(WindrowError, match="cannot be drained"):
        SparkRunner(spark).run(reading)
