"""Answers what engines ask of a source of Kafka topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import UnsupportedOperationError
from windrow.kafka import TopicSource
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.codecs.registry.client import check_libraries
from windrow_runtime.connectors.kafka.client import check_client_library
from windrow_runtime.connectors.kafka.topics import TopicReads
from windrow_runtime.connectors.kafka.values import topic_values
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.reader import Held, SourceReader
from windrow_runtime.operators.errors import errors_at

# Any in this module: records of every type.


class TopicReader(SourceReader[TopicSource[Any]]):
    """Reads the topics of Kafka by confluent-kafka; Spark's connector reads them itself where the source says so."""

    def reads(self, columns: frozenset[str] | None = None) -> TopicReads | None:
        return None if self.source.engine_connector else self.topic_reads(columns)

    def topic_reads(self, columns: frozenset[str] | None = None) -> TopicReads:
        """Returns the batches that confluent-kafka reads; ``columns`` as for :meth:`reads`."""
        with errors_at(self.step.where):
            check_pyarrow("Kafka topics are read")
            check_client_library(self.source)
            if isinstance(self.source.value_format, RegistryFormat):
                check_libraries(self.source.value_format)
            values = topic_values(self.source, columns)
            as_columns = None if isinstance(values, str) else values
            kind = None if as_columns is None else as_columns.kind
            return TopicReads(self.step.where, kind, self.source, as_columns)

    def batches(self, held: Held = tuple) -> Iterator[SourceBatch]:
        if self.source.engine_connector:
            raise UnsupportedOperationError(
                "the interpreter has no connector of Spark's",
                given=self.source.describe(),
                expected="engine_connector=False, by which confluent-kafka reads the topics",
                where=self.step.where,
                hint="or run the pipeline with SparkRunner",
            )
        return super().batches(held)

    @property
    def ending_hint(self) -> str:
        return "" if self.source.engine_connector else '; ending_offsets="latest" gives topics an end'

    @property
    def has_partitions(self) -> bool:
        return not self.source.engine_connector

    @property
    def stored_kind(self) -> str:
        kind = super().stored_kind
        return kind if self.source.engine_connector else f"{kind} by confluent-kafka"

    @property
    def timezone(self) -> object:
        return self.source.timezone
