"""Reads and writes Kafka through Spark's connector: turns its rows into elements, and elements into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from windrow.addresses.redaction import redact
from windrow.errors import InvalidArgumentError, SourceError, UnsupportedOperationError, UserFunctionError, WindrowError
from windrow.kafka import KafkaFormat, KafkaRecord, KafkaSink, TopicSource
from windrow.plan import SinkNode, Step
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.malformed import MalformedRecord
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.inputs.batch import SourceBatch, source_batch
from windrow_runtime.operators.errors import shortened, with_field
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.payload import load_values
from windrow_runtime.spark.faults.marked import failures_marked
from windrow_runtime.spark.sources.scan import Scan, ScanContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any in this module: elements of every type, and pyarrow has no types.

_WRITTEN = "topic string, key binary, value binary"
_NOT_THERE = "KAFKA_DATA_SOURCE_NOT_ENABLED"


# Reading


def scan_topic(source: TopicSource[Any], context: ScanContext) -> Scan:
    """Scans the topics of a Kafka source.

    Raises:
        UnsupportedOperationError: If the session lacks Spark's connector.
        SourceError: If Spark refuses the options.
    """
    with _spark_errors(context.spark, context.step.where, source):
        frame = context.reader.format("kafka").options(**source.options).load().select(*_columns(source))
        _ = frame.columns  # over Spark Connect this looks the connector up
    return Scan(frame, kafka_reader(source).decode)


def kafka_reader(source: TopicSource[Any]) -> KafkaReader:
    """Returns the reader that makes elements of the rows of a Kafka source."""
    json_type = record_type(source.value_type) if source.value_format == "json" else None
    kind = None if json_type is None else json_type.in_timezone(source.timezone)
    return KafkaReader(kind, source.value_format, source.whole_records)


def _columns(source: TopicSource[Any]) -> list[str]:
    place = ["value", "topic", "partition", "offset"]
    return [*place, "key", "timestamp", "headers"] if source.whole_records else place


@dataclass(frozen=True)
class KafkaReader:
    """Makes elements from the rows of Spark's Kafka source, in a worker.

    Attributes:
        kind: The type of the values, for JSON.
        format: The format of the values.
        whole_records: Whether the elements are :class:`~windrow.kafka.KafkaRecord`.
    """

    kind: RecordType | None
    format: KafkaFormat
    whole_records: bool

    def decode(self, batch: Any) -> SourceBatch:
        """Returns the elements of an Arrow batch."""
        decode = self._decoder()
        found = ((row, decode(row["value"])) for row in batch.to_pylist())
        if self.whole_records:
            found = ((row, self._record(row, value)) for row, value in found)
        return source_batch(found, lambda row: f"{row['topic']}, partition {row['partition']}, offset {row['offset']}")

    def _decoder(self) -> Callable[[bytes | None], Any]:
        if self.kind is not None:
            decode = JsonDecoder(self.kind).decode
            # A record without a value reads as null, which fits a type that is Optional.
            return lambda raw: decode(b"null" if raw is None else raw)
        return _decode_text if self.format == "text" else _decode_bytes

    def _record(self, row: Mapping[str, Any], value: Any) -> Any:
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


def _decode_text(raw: bytes | None) -> str | MalformedRecord:
    if raw is None:
        return _no_value()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        return MalformedRecord(repr(raw), f"is not UTF-8: {error.reason}", None)


def _decode_bytes(raw: bytes | None) -> bytes | MalformedRecord:
    return _no_value() if raw is None else raw


def _no_value() -> MalformedRecord:
    return MalformedRecord("null", "the record has no value", None)


# Writing


def check_connector(spark: SparkSession, step: Step) -> None:
    """Refuse a Kafka sink where the session lacks Spark's connector, before anything runs.

    Raises:
        UnsupportedOperationError: With the package that holds the connector.
    """
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
    """Makes rows for Spark's Kafka sink from packed rows."""
    sink = _sink(step)
    kind = record_type(step.node.element_type) if sink.value_format == "json" else None
    to_rows = _ToRows(kind, sink.value_format, sink.topic, sink.key, step.where, classes)
    return rows.mapInArrow(to_rows, _WRITTEN)


def _sink(step: Step) -> KafkaSink[Any]:
    assert isinstance(step.node, SinkNode)
    assert isinstance(step.node.sink, KafkaSink)
    return step.node.sink


@dataclass(frozen=True)
class _ToRows:
    """Makes rows for Kafka from packed rows, in a worker."""

    kind: RecordType | None
    format: KafkaFormat
    topic: str | Callable[[Any], str]
    key: Callable[[Any], str | bytes | None] | None
    where: str
    classes: tuple[UserClass, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        register_classes(self.classes)
        encode = self._encoder()
        with failures_marked():
            for batch in batches:
                for payload in batch.column("payload").to_pylist():
                    values = load_values(payload)
                    topics = [self._topic_of(value) for value in values]
                    keys = [self._key_of(value) for value in values]
                    columns = [
                        pa.array(topics, pa.string()),
                        pa.array(keys, pa.binary()),
                        pa.array(list(map(encode, values)), pa.binary()),
                    ]
                    yield pa.record_batch(columns, names=["topic", "key", "value"])

    def _encoder(self) -> Callable[[Any], bytes]:
        if self.kind is None:
            return self._raw
        encode = JsonEncoder(self.kind).encode

        def to_json(value: Any) -> bytes:
            try:
                return encode(value).encode()
            except WindrowError as error:
                raise with_field(self.where, error) from error.__cause__

        return to_json

    def _raw(self, value: Any) -> bytes:
        if self.format == "text" and isinstance(value, str):
            return value.encode()
        if self.format == "bytes" and isinstance(value, bytes):
            return value
        raise InvalidArgumentError(
            f"the format {self.format!r} of a Kafka sink writes values of one type",
            given=shortened(value),
            expected="str" if self.format == "text" else "bytes",
            where=self.where,
            hint='value_format="json" for every other type',
        )

    def _topic_of(self, value: Any) -> str:
        if isinstance(self.topic, str):
            return self.topic
        topic: object = self._called(self.topic, value, "topic")
        if not isinstance(topic, str) or not topic:
            raise InvalidArgumentError(
                "the topic of a record is a name", given=topic, expected="a str", where=self.where
            )
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
            where=self.where,
            hint="key=lambda element: str(element.number)",
        )

    def _called(self, function: Callable[[Any], Any], value: Any, what: str) -> Any:
        try:
            return function(value)
        except Exception as error:
            raise UserFunctionError(
                f"the {what} function of the sink raised {type(error).__name__}: {error}",
                given=f"element {shortened(value)}",
                where=self.where,
            ) from error


# Both


@contextmanager
def _spark_errors(spark: SparkSession, where: str, end: TopicSource[Any] | KafkaSink[Any]) -> Iterator[None]:
    """Turns Spark's errors about the connector and its options into windrow's errors, without secrets."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    try:
        yield
    except (AnalysisException, IllegalArgumentException) as error:
        if _NOT_THERE in str(error):
            raise UnsupportedOperationError(
                "Spark's connector for Kafka is not there",
                given=end.describe(),
                expected="a session that was started with the connector",
                where=where,
                hint=f"spark-submit --packages {_package(spark.version)}; "
                "in a program, .config('spark.jars.packages', ...) where the session is built",
            ) from None
        # The error is not chained: Spark's text may hold the value of an option.
        raise SourceError(
            "Spark refuses the options for Kafka",
            given=end.describe(),
            where=where,
            hint=f"Spark says: {redact(str(error), end.secrets).splitlines()[0]}",
        ) from None


def _package(version: str) -> str:
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
