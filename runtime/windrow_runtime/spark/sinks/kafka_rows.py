"""Writes elements to Kafka topics by Spark's connector, as rows of the format that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.kafka import KafkaFormat, KafkaSink
from windrow.plan import SinkNode, Step
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.errors import shortened
from windrow_runtime.spark.kafka import connector_errors
from windrow_runtime.spark.sinks.by_spark import Unpack

# Any in this module: elements of every type, and pyarrow has no types.


_WRITTEN: Final = "topic string, key binary, value binary"


def check_connector(spark: SparkSession, step: Step) -> None:
    """Refuse a Kafka sink, before anything runs, if the session lacks Spark's connector."""
    sink = _sink(step)
    with connector_errors(spark, step.where, sink):
        # This looks up the connector, and reads nothing.
        _ = spark.read.format("kafka").options(**sink.options, subscribe="windrow").load().columns


def write_kafka(rows: DataFrame, step: Step) -> None:
    """Write rows from :func:`kafka_rows` to Kafka."""
    sink = _sink(step)
    with connector_errors(rows.sparkSession, step.where, sink):
        rows.write.format("kafka").options(**sink.options).save()


def kafka_rows(rows: DataFrame, step: Step, classes: tuple[UserClass, ...]) -> DataFrame:
    """Turns the kinds and payloads of packed rows into rows for Spark's Kafka sink."""
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
    """Turns elements into rows for Kafka, in a worker."""

    kind: RecordType | None
    format: KafkaFormat
    topic: str | Callable[[Any], str]
    key: Callable[[Any], str | bytes | None] | None

    def encoder(self) -> Callable[[Sequence[Any]], Any]:
        """Returns the function that turns elements into an Arrow batch; its errors do not name the step."""
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
