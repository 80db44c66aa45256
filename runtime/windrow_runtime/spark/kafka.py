"""Reads and writes Kafka through Spark's connector: turns its rows into elements, and elements into rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any

import pyspark
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from windrow.addresses.redaction import redact
from windrow.errors import InvalidArgumentError, SourceError, UnsupportedOperationError, UserFunctionError, WindrowError
from windrow.kafka import KafkaFormat, KafkaRecord, KafkaSink, TopicSource
from windrow.plan import SinkNode, SourceNode, Step
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.malformed import MalformedRecord
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.inputs.batches import SourceBatch, source_batch
from windrow_runtime.operators.errors import shortened
from windrow_runtime.spark.session import lacks_jar
from windrow_runtime.spark.sinks.by_spark import Unpack
from windrow_runtime.spark.sources.scan import Scan, ScanContext

# Any in this module: elements of every type, and pyarrow has no types.

_WRITTEN = "topic string, key binary, value binary"
_JAR = "spark-sql-kafka-0-10"
# Spark 4.3 has a condition of its own, the versions before it the one of all sources or a text without any. Where the
# connector is there, and what it needs is not, Java says which class is missing.
_NOT_THERE = re.compile(
    r"KAFKA_DATA_SOURCE_NOT_ENABLED|Failed to find (?:the )?data source: `?kafka|ClassNotFoundException: kafka"
    r"|(?:NoClassDefFoundError|ClassNotFoundException): org[./]apache[./](?:spark[./]sql[./])?kafka"
)


def scan_topic(source: TopicSource[Any], context: ScanContext) -> Scan:
    """Scans the topics of a Kafka source; refuses a session without Spark's connector, and options of no use to it."""
    columns = ["value", "topic", "partition", "offset"]
    if source.whole_records:
        columns += ["key", "timestamp", "headers"]
    with _spark_errors(context.spark, context.step.where, source):
        frame = context.reader.format("kafka").options(**source.options).load().select(*columns)
        _ = frame.columns  # over Spark Connect this looks the connector up
    return Scan(frame, kafka_decoder(source))


def kafka_decoder(source: TopicSource[Any]) -> Callable[[Any], SourceBatch]:
    """Returns the function that makes elements from the rows of a Kafka source, in a worker."""
    kind = record_type(source.value_type).in_timezone(source.timezone) if source.value_format == "json" else None
    return partial(_decode_rows, kind, source.value_format, source.whole_records)


def _decode_rows(kind: RecordType | None, value_format: KafkaFormat, whole_records: bool, batch: Any) -> SourceBatch:
    decode: Callable[[bytes], object] = _decode_text if value_format == "text" else bytes
    empty: object = MalformedRecord("null", "the record has no value", None)
    if kind is not None:
        decode = JsonDecoder(kind).decode
        # A record without a value reads as null, which fits a type that is Optional.
        empty = decode(b"null")
    found = ((row, empty if row["value"] is None else decode(row["value"])) for row in batch.to_pylist())
    if whole_records:
        found = ((row, _whole_record(row, value)) for row, value in found)
    return source_batch(found, lambda row: f"{row['topic']}, partition {row['partition']}, offset {row['offset']}")


def _decode_text(raw: bytes) -> str | MalformedRecord:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        return MalformedRecord(repr(raw), f"is not UTF-8: {error.reason}", None)


def _whole_record(row: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, MalformedRecord):
        return value
    return KafkaRecord(
        key=row["key"],
        value=value,
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        timestamp=row["timestamp"].astimezone(UTC),
        headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
    )


def check_connector(spark: SparkSession, step: Step) -> None:
    """Refuse a Kafka sink where the session lacks Spark's connector, before anything runs."""
    sink = _sink(step)
    with _spark_errors(spark, step.where, sink):
        # This looks the connector up, and reads nothing without an action.
        _ = spark.read.format("kafka").options(**sink.options, subscribe="windrow").load().columns


def write_kafka(rows: DataFrame, step: Step) -> None:
    """Write the rows that :func:`kafka_rows` made."""
    sink = _sink(step)
    with _spark_errors(rows.sparkSession, step.where, sink):
        rows.write.format("kafka").options(**sink.options).save()


def kafka_rows(rows: DataFrame, step: Step, classes: tuple[UserClass, ...]) -> DataFrame:
    """Makes rows for Spark's Kafka sink from the kinds and payloads of packed rows."""
    sink = _sink(step)
    kind = record_type(step.node.element_type) if sink.value_format == "json" else None
    to_rows = _ToRows(kind, sink.value_format, sink.topic, sink.key)
    return rows.mapInArrow(Unpack(to_rows.encoder, step.where, classes), _WRITTEN)


def _sink(step: Step) -> KafkaSink[Any]:
    assert isinstance(step.node, SinkNode)
    assert isinstance(step.node.sink, KafkaSink)
    return step.node.sink


@dataclass(frozen=True)
class _ToRows:
    """Makes rows for Kafka of elements, in a worker."""

    kind: RecordType | None
    format: KafkaFormat
    topic: str | Callable[[Any], str]
    key: Callable[[Any], str | bytes | None] | None

    def encoder(self) -> Callable[[Sequence[Any]], Any]:
        """Returns the function that makes an Arrow batch of elements; its errors do not name the step."""
        import pyarrow as pa

        json = None if self.kind is None else JsonEncoder(self.kind)

        def encode(values: Sequence[Any]) -> Any:
            topics = pa.array(list(map(self._topic_of, values)), pa.string())
            keys = pa.array(list(map(self._key_of, values)), pa.binary())
            texts = [self._raw(value) if json is None else json.encode(value).encode() for value in values]
            return pa.record_batch([topics, keys, pa.array(texts, pa.binary())], names=["topic", "key", "value"])

        return encode

    def _raw(self, value: Any) -> bytes:
        if self.format == "text" and isinstance(value, str):
            return value.encode()
        if self.format == "bytes" and isinstance(value, bytes):
            return value
        raise InvalidArgumentError(
            f"the format {self.format!r} of a Kafka sink writes values of one type",
            given=shortened(value),
            expected="str" if self.format == "text" else "bytes",
            hint='value_format="json" for every other type',
        )

    def _topic_of(self, value: Any) -> str:
        if isinstance(self.topic, str):
            return self.topic
        topic: object = self._called(self.topic, value, "topic")
        if not isinstance(topic, str) or not topic:
            raise InvalidArgumentError("the topic of a record is a name", given=topic, expected="a str")
        return topic

    def _key_of(self, value: Any) -> bytes | None:
        if self.key is None:
            return None
        key: object = self._called(self.key, value, "key")
        if isinstance(key, str):
            return key.encode()
        if key is None or isinstance(key, bytes):
            return key
        raise InvalidArgumentError(
            "the key of a record is text or bytes",
            given=key,
            expected="str, bytes or None",
            hint="key=lambda element: str(element.number)",
        )

    def _called(self, function: Callable[[Any], Any], value: Any, what: str) -> Any:
        try:
            return function(value)
        except Exception as error:
            raise UserFunctionError(
                f"the {what} function of the sink raised {type(error).__name__}: {error}",
                given=f"element {shortened(value)}",
            ) from error


def check_jar(steps: Iterable[Step]) -> None:
    """Refuse Kafka sources and sinks before a session is started, if it is known that it will lack the connector."""
    for step in steps:
        end = step.node.source if isinstance(step.node, SourceNode) else getattr(step.node, "sink", None)
        if isinstance(end, TopicSource | KafkaSink) and lacks_jar(_JAR):
            raise _connector_missing(end, step.where, pyspark.__version__)


def _connector_missing(end: TopicSource[Any] | KafkaSink[Any], where: str, version: str) -> WindrowError:
    package = f"org.apache.spark:{_JAR}_2.13:{version}"
    return UnsupportedOperationError(
        "Spark's connector for Kafka is not there",
        given=end.describe(),
        expected="a session that was started with the connector",
        where=where,
        hint=f"spark-submit --packages {package}; "
        "in a program, .config('spark.jars.packages', ...) where the session is built",
    )


@contextmanager
def _spark_errors(spark: SparkSession, where: str, end: TopicSource[Any] | KafkaSink[Any]) -> Iterator[None]:
    """Turns Spark's errors about the connector and its options into windrow's errors, without secrets."""
    try:
        yield
    except WindrowError:
        raise
    except Exception as error:
        if _NOT_THERE.search(str(error)):
            raise _connector_missing(end, where, spark.version) from None
        if not isinstance(error, AnalysisException | IllegalArgumentException):
            raise
        # The error is not chained: Spark's text may hold the value of an option.
        raise SourceError(
            "Spark refuses the options for Kafka",
            given=end.describe(),
            where=where,
            hint=f"Spark says: {redact(str(error), end.secrets).splitlines()[0]}",
        ) from None
