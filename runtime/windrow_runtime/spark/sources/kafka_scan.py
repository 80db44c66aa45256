"""Reads Kafka topics on Spark, by Spark's connector or by confluent-kafka in workers."""

from __future__ import annotations

from typing import Any

from windrow.kafka import TopicSource
from windrow_runtime.inputs.files import elements_of
from windrow_runtime.inputs.topic_values import kafka_decoder, topic_columns, topic_values
from windrow_runtime.inputs.topics import TopicReads
from windrow_runtime.spark.kafka import connector_errors
from windrow_runtime.spark.sources.custom import scan_reads
from windrow_runtime.spark.sources.scan import Scan, ScanContext

# Any in this module: elements of every type.


def scan_topic(source: TopicSource[Any], context: ScanContext) -> Scan:
    """Scans the topics of a Kafka source.

    Refuses a session without Spark's connector, and options that it refuses, if the connector reads the topics.
    """
    if not source.engine_connector:
        return scan_reads(TopicReads.of(source, context.step, context.columns), context)
    with connector_errors(context.spark, context.step.where, source):
        frame = context.reader.format("kafka").options(**source.options).load().select(*topic_columns(source))
        _ = frame.columns  # over Spark Connect this looks up the connector
    values = topic_values(source, context.columns)
    if isinstance(values, str):
        return Scan(frame, kafka_decoder(source))
    return Scan(frame, elements_of, values, values.kind)
