"""Gives the elements of a stream as a DataFrame, for ``to_dataframe``."""

from __future__ import annotations

from typing import Any

from windrow import DataStream, DataStreamSink, Pipeline
from windrow.errors import InvalidArgumentError
from windrow.plan import SinkNode
from windrow.plan.pipeline import PartialPipeline
from windrow.sinks import Sink
from windrow_runtime.outputs.writer import SinkWriter
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy

# Any in this module: elements of every type.


class ColumnsSink(Sink[Any]):
    """The sink of a plan for ``to_dataframe``, whose elements become a DataFrame."""

    connector_name = "columns"

    @property
    def needs_schema(self) -> bool:
        return True

    def describe(self) -> str:
        return "DataFrame"


class ColumnsWriter(SparkWriter[SinkWriter[ColumnsSink]]):
    """Leaves the columns to the DataFrame."""

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.QUERY

    @property
    def takes_columns(self) -> bool:
        return True


def pipeline_of(stream: DataStream[Any], name: str) -> Pipeline:
    """Returns the pipeline for ``to_dataframe``, whose sink takes a stream's elements as columns."""
    if not isinstance(stream, DataStream):
        raise InvalidArgumentError("a DataFrame is made of a stream", given=type(stream), expected="a DataStream")
    node = stream.node
    end = SinkNode(input=node, sink=ColumnsSink(), element_type=node.element_type, location=node.location)
    return PartialPipeline(name, DataStreamSink(end))
