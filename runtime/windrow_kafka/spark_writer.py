"""Writes Kafka topics on Spark, by confluent-kafka in workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.connectors.registry_formats import AvroFormat
from windrow.kafka import KafkaSink, values_of_sink
from windrow.plan import Step
from windrow_kafka.spark_scanner import check_registry
from windrow_kafka.writer import TopicWriter
from windrow_kafka.writes import TopicTask, check_marks, check_topic
from windrow_runtime.outputs.output import Identity
from windrow_spark.exchange.picklable import check_picklable
from windrow_spark.session import is_connect
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.json_columns import are_json_columns
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask
from windrow_spark.worker import current_partition, division_told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: elements of every type, and pyarrow has no types.


class TopicSparkWriter(SparkWriter[TopicWriter]):
    """Writes topics of Kafka."""

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.WORKERS

    @property
    def takes_columns(self) -> bool:
        """Whether columns are written: not where functions give topics and keys, or where values may be None."""
        sink, values = self.writer.sink, values_of_sink(self.step.node.element_type)
        has_more = callable(sink.topic) or sink.key is not None or values.of_records or values.takes_none
        if has_more:
            return False
        if sink.value_format != "json":
            return isinstance(sink.value_format, AvroFormat)
        return are_json_columns(self.step)

    def check_plan(self) -> None:
        check_registry(self.writer.sink.value_format, self.step.where)

    def check_target(self, spark: SparkSession) -> None:
        if not is_connect(spark):
            check_topic(self.step, self.writer.sink)

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        assert identity is not None, "it has a target"
        sink = self.writer.sink
        check_picklable(self.step, [sink.topic, sink.key], "a function of the sink")
        return TopicWorkerSink(sink_alone(self.step), sink, identity)


@dataclass(frozen=True, slots=True)
class TopicWorkerSink(WorkerSink):
    """A topic of Kafka that workers write, each task by a transaction."""

    step: Step
    sink: KafkaSink[Any]
    identity: Identity
    needs_division = True
    keeps_order = True

    def task(self, batch: int) -> WorkerTask:
        partition, division = current_partition(), division_told()
        return _TransactionTask(self.step, self.sink, self.identity, batch, partition, division)

    def check(self, batch: int, division: str, *, again: bool) -> None:
        check_marks(self.step, self.sink, self.identity, batch, division, again=again)


class _TransactionTask(TopicTask, WorkerTask):
    """Writes the records of one task in a transaction."""
