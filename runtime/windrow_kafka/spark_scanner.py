"""Reads Kafka topics on Spark, by confluent-kafka in workers."""

from __future__ import annotations

from re import Pattern

from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import UnsupportedOperationError
from windrow_kafka.reader import TopicReader
from windrow_kafka.values import topic_values
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.sources.scanner import SparkScanner


class TopicScanner(SparkScanner[TopicReader]):
    """Scans the topics of a Kafka source."""

    is_divided = False

    def check_columns(self) -> None:
        values = topic_values(self.reader.source)
        if isinstance(values, str):
            raise DeclinedError(f"{self.source.describe()} is read record by record: {values}")

    def check_plan(self) -> None:
        check_registry(self.reader.source.value_format, self.step.where)

    @property
    def has_several_partitions(self) -> bool:
        return isinstance(self.reader.source.topics, Pattern) or len(self.reader.reads().partitions()) > 1


def check_registry(value_format: object, where: str) -> None:
    """Refuse a schema registry within the process, since each worker would have its own."""
    if isinstance(value_format, RegistryFormat) and value_format.registry.startswith("mock://"):
        raise UnsupportedOperationError(
            "a schema registry within the process is not that of Spark's workers",
            given=f"{value_format!r}",
            expected='the address of a server, such as "http://localhost:8081"',
            where=where,
            hint="LocalRunner takes mock:// in tests",
        )
