"""Maps each class of sinks to the part of the Spark engine that writes it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from windrow.addresses.paths import local_path
from windrow.connectors import CustomSink
from windrow.connectors.custom_sink import takes_arrow
from windrow.errors import UnsupportedOperationError
from windrow.kafka import AvroFormat, KafkaSink, values_of_sink
from windrow.plan import Step
from windrow.sinks import (
    CollectSink,
    CsvFileSink,
    FileSink,
    JsonFileSink,
    ParquetFileSink,
    Sink,
    TextFileSink,
    WriterSink,
)
from windrow_runtime.codecs.record_type import Kind, record_type
from windrow_runtime.codecs.value_type import ANY_JSON
from windrow_runtime.connectors.files.partition_columns import partitions_of
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.registry import has_output, is_on_workers

# Any in this module: sinks of elements of every type.


class ColumnsSink(Sink[Any]):
    """The sink of a plan for ``to_dataframe``, whose elements become a DataFrame."""

    @property
    def needs_schema(self) -> bool:
        return True

    def describe(self) -> str:
        return "DataFrame"


class SinkWriter(Enum):
    """Who writes the elements of a sink."""

    RESULTS = "the driver keeps them for the result of the run"
    OUTPUT = "an output writes them, on the driver"
    WORKERS = "the last stage of the query writes them as they come"
    SPARK_FILES = "Spark writes them to another file system, after the query's batch"
    KAFKA = "Spark writes them to a topic, after the query's batch"
    QUERY = "Spark's own query writes them"


def writer_of(step: Step) -> SinkWriter:
    """Returns who writes the sink of a step; refuses a sink that Spark cannot write to."""
    sink = sink_of(step)
    for kind, writer in _WRITERS.items():
        if isinstance(sink, kind):
            return writer if isinstance(writer, SinkWriter) else writer(sink, step)
    if has_output(sink):
        return SinkWriter.OUTPUT
    raise UnsupportedOperationError(
        "Spark cannot write to this sink",
        given=sink.describe(),
        expected="memory, the console, files, Kafka, a database, a Delta table, a function, a DataStreamWriter or a "
        "CustomSink",
        where=step.where,
    )


def takes_columns(step: Step) -> bool:
    """Returns whether the elements of a sink are written as columns, whoever writes them.

    JSON is, unless its texts would differ or take longer: a column of decimals does not know how many digits each value
    has, and one of any JSON would have to be parsed. Functions that give topics and keys take elements, and
    so do records with keys of their own, and values that may be None.
    """
    sink = sink_of(step)
    if isinstance(sink, KafkaSink):
        values = values_of_sink(step.node.element_type)
        has_more = callable(sink.topic) or sink.key is not None or values.of_records or values.takes_none
        if sink.engine_connector or has_more:
            return False
        if sink.value_format != "json":
            return isinstance(sink.value_format, AvroFormat)
    if isinstance(sink, (JsonFileSink, KafkaSink)):
        root = record_type(step.node.element_type).root
        return root.kind is Kind.RECORD and not root.may_lack_keys and not root.contains(Kind.DECIMAL, *ANY_JSON)
    if isinstance(sink, CustomSink):
        return takes_arrow(sink)
    return isinstance(sink, (ParquetFileSink, WriterSink, ColumnsSink))


def _file(sink: FileSink[Any], step: Step) -> SinkWriter:
    if local_path(sink.path) is not None:
        return SinkWriter.WORKERS
    _check_elsewhere(sink, step)
    return SinkWriter.SPARK_FILES


def _check_elsewhere(sink: FileSink[Any], step: Step) -> None:
    """Refuse sinks that Spark's writers cannot write in file systems that are not mounted."""
    partitions = partitions_of(step)
    if partitions is not None and isinstance(sink, CsvFileSink) and sink.header:
        raise UnsupportedOperationError(
            "files with a header cannot be partitioned in another file system",
            given=sink.describe(),
            expected="a mounted file system, or files without a header",
            where=step.where,
            hint="header=False, or a ParquetFileSink",
        )


_WRITERS: Final[dict[type[Any], SinkWriter | Callable[[Any, Step], SinkWriter]]] = {
    CollectSink: SinkWriter.RESULTS,
    ColumnsSink: SinkWriter.QUERY,
    CsvFileSink: _file,
    CustomSink: lambda sink, step: SinkWriter.WORKERS if is_on_workers(sink, step) else SinkWriter.OUTPUT,
    JsonFileSink: _file,
    KafkaSink: lambda sink, _: SinkWriter.KAFKA if sink.engine_connector else SinkWriter.WORKERS,
    ParquetFileSink: _file,
    TextFileSink: _file,
    WriterSink: SinkWriter.QUERY,
}
