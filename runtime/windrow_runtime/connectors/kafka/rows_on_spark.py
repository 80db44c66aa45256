"""Writes elements to Kafka topics by Spark's connector, as rows of the format that it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from windrow.errors import SinkError, UnsupportedOperationError
from windrow.kafka import KafkaSink
from windrow.plan import Step
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.connectors.kafka.records import TopicRecords
from windrow_runtime.connectors.kafka.spark_connector import connector_errors
from windrow_runtime.operators.errors import shortened
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.spark.faults import causes_of
from windrow_runtime.spark.sinks.unpacking import Unpack

# Any in this module: elements of every type, and pyarrow has no types.


_HEADERS: Final = "array<struct<key: string, value: binary>>"
_WRITTEN: Final = f"topic string, key binary, value binary, headers {_HEADERS}, partition int"
_SHOWN: Final = 200


def check_connector(spark: SparkSession, step: Step) -> None:
    """Refuse a Kafka sink, before anything runs, if the session lacks Spark's connector."""
    sink = sink_of(step)
    assert isinstance(sink, KafkaSink)
    with connector_errors(spark, step.where, sink):
        # This looks up the connector, and reads nothing.
        _ = spark.read.format("kafka").options(**sink.options, subscribe="windrow").load().columns


def write_kafka(rows: DataFrame, step: Step) -> None:
    """Write rows from :func:`kafka_rows` to Kafka."""
    sink = sink_of(step)
    assert isinstance(sink, KafkaSink)
    with connector_errors(rows.sparkSession, step.where, sink):
        try:
            rows.write.format("kafka").options(**sink.options).save()
        except Exception as error:
            failure = _unwritten(f"{error}", rows, sink)
            if failure is None:
                raise
            raise failure.at(step.where) from causes_of(error, sink.secrets)


def _unwritten(said: str, rows: DataFrame, sink: KafkaSink[Any]) -> SinkError | None:
    """Returns the error for a record that is too large, and for a topic that is not there; None: it is another one."""
    too_large = re.search(r"RecordTooLargeException: ([^\n]*)", said)
    if too_large is not None:
        size = "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)"
        parts = ["topic", "key", f"substring(value, 1, {_SHOWN}) AS value", f"{size} AS size"]
        # The rows are made again, since Kafka does not say which it was.
        row = rows.selectExpr(*parts).orderBy("size", ascending=False).head()
        assert row is not None, "Kafka refused one of them"
        key = None if row.key is None else bytes(row.key)
        return SinkError(
            "Kafka refuses a record of a sink, as it is too large",
            given=f"the largest of the batch: {row.size} bytes for {row.topic}, key {key!r}, "
            f"value {shortened(bytes(row.value))}",
            expected="records within max.message.bytes of the topic and kafka.max.request.size of the sink",
            hint=f"raise these limits, or write smaller elements; Kafka says: {too_large[1]}",
        )
    absent = re.search(r"Topic (\S+) not present in metadata after (\d+) ms", said)
    if absent is None:
        return None
    answered = "UnknownTopicOrPartitionException" in said
    return SinkError(
        "the topic of a sink is not there" if answered else "no broker of Kafka answers to a sink",
        given=f"{absent[1]} of {sink.describe()}, after {int(absent[2]) / 1000:g} s",
        expected="a topic that was made before" if answered else "a server that workers reach",
        hint="make it, or correct its name; brokers with auto.create.topics.enable=true make it when it is written"
        if answered
        else "look whether the brokers run, at the port, and at "
        "options={'kafka.security.protocol': ...}; 'kafka.max.block.ms' says how long to wait",
    )


def kafka_rows(rows: DataFrame, step: Step, classes: tuple[UserClass, ...]) -> DataFrame:
    """Turns the kinds and payloads of packed rows into rows for Spark's Kafka sink."""
    sink = sink_of(step)
    assert isinstance(sink, KafkaSink)
    return rows.mapInArrow(Unpack(partial(_encoder, TopicRecords.of(step, sink)), step.where, classes), _WRITTEN)


def _encoder(records: TopicRecords) -> Callable[[Sequence[Any]], Any]:
    """Returns the function that turns elements into an Arrow batch; its errors do not name the step."""
    import pyarrow as pa

    types = {
        "topic": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        "partition": pa.int32(),
    }

    def rows_of(values: Sequence[Any]) -> Any:
        topics, keys, texts, others = records.of_elements(values)
        if any("timestamp" in each for each in others):
            raise UnsupportedOperationError(
                "Spark's connector writes no timestamps of records",
                given="a record with a timestamp",
                expected="records without one",
                hint="confluent-kafka, which writes topics by default, takes them",
            )
        headers = [each.get("headers") for each in others]
        columns = [topics, keys, texts, headers, [each.get("partition") for each in others]]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
        return pa.record_batch(arrays, names=[*types])

    return rows_of
