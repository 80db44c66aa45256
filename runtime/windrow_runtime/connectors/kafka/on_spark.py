"""Reads Kafka topics on Spark, by Spark's connector or by confluent-kafka in workers."""

from __future__ import annotations

from collections.abc import Sequence
from re import Pattern

from windrow.errors import WindrowError
from windrow.plan import Step
from windrow_runtime.connectors.kafka.reader import TopicReader
from windrow_runtime.connectors.kafka.spark_connector import (
    check_brokers,
    check_session,
    connector_errors,
    kafka_failure,
)
from windrow_runtime.connectors.kafka.values import kafka_decoder, topic_columns, topic_values
from windrow_runtime.inputs.batches import elements_of
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.spark.sources.scan import Scan, ScanContext
from windrow_runtime.spark.sources.scanner import SparkScanner


class TopicScanner(SparkScanner[TopicReader]):
    """Scans the topics of a Kafka source.

    Refuses a session without Spark's connector, and options that it refuses, if the connector reads the topics.
    """

    def scan(self, context: ScanContext) -> Scan:
        source = self.reader.source
        if not source.engine_connector:
            return super().scan(context)
        with connector_errors(context.spark, self.step.where, source):
            frame = context.reader.format("kafka").options(**source.options).load().select(*topic_columns(source))
            _ = frame.columns  # over Spark Connect this looks up the connector
        values = topic_values(source, context.columns)
        if isinstance(values, str):
            return Scan(frame, kafka_decoder(source))
        return Scan(frame, elements_of, values, values.kind)

    def check_columns(self) -> None:
        values = topic_values(self.reader.source)
        if isinstance(values, str):
            raise DeclinedError(f"{self.source.describe()} is read record by record: {values}")

    def check_session(self, *, starts: bool) -> None:
        check_session(self.reader.source, self.step.where, starts=starts)

    def check_service(self) -> None:
        if self.reader.source.engine_connector:
            check_brokers(self.reader.source, self.step.where)

    @property
    def known_batches(self) -> float:
        source = self.reader.source
        if source.engine_connector and not any("trigger" in name.lower() for name in source.options):
            return 1
        return super().known_batches

    @property
    def has_several_partitions(self) -> bool:
        reads = self.reader.reads()
        return isinstance(self.reader.source.topics, Pattern) or reads is None or len(reads.partitions()) > 1

    @property
    def is_divided(self) -> bool:
        return False

    def failure(self, failure: WindrowError, sources: Sequence[Step]) -> WindrowError | None:
        return kafka_failure(failure, sources)
