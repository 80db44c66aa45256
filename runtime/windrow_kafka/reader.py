"""Answers what engines ask of a source of Kafka topics."""

from __future__ import annotations

from typing import Any

from windrow.connectors.registry_formats import RegistryFormat
from windrow.kafka import TopicSource
from windrow_kafka.client import check_client_library
from windrow_kafka.registry.client import check_libraries
from windrow_kafka.topics import TopicReads
from windrow_kafka.values import topic_values
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.inputs.reader import SourceReader
from windrow_runtime.operators.errors import errors_at

# Any in this module: records of every type.


class TopicReader(SourceReader[TopicSource[Any]]):
    """Reads the topics of Kafka by confluent-kafka."""

    def reads(self, columns: frozenset[str] | None = None) -> TopicReads:
        with errors_at(self.step.where):
            check_pyarrow("Kafka topics are read")
            check_client_library(self.source)
            if isinstance(self.source.value_format, RegistryFormat):
                check_libraries(self.source.value_format)
            values = topic_values(self.source, columns)
            as_columns = None if isinstance(values, str) else values
            record_type = None if as_columns is None else as_columns.record_type
            return TopicReads(self.step.where, record_type, self.source, as_columns)

    @property
    def ending_hint(self) -> str:
        return '; ending_offsets="latest" gives topics an end'

    @property
    def has_partitions(self) -> bool:
        return True

    @property
    def stored_kind(self) -> str:
        # Spark's connector, which an earlier version took as well, has other offsets under the name of the class.
        return f"{super().stored_kind} by confluent-kafka"

    @property
    def timezone(self) -> object:
        return self.source.timezone
