"""Reads and writes DataFrames of a Spark session: their columns are the fields of the elements."""

from __future__ import annotations

import math
from typing import Any

from windrow.sinks import WriterSink
from windrow_runtime.codecs.arrow.decoding import NO_FIELD
from windrow_runtime.codecs.record_type import Kind, record_type
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.codecs.unmatched import unmatched_columns
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.reader import warn_of_header
from windrow_runtime.operators.errors import DeclinedError, errors_at
from windrow_runtime.outputs.writer import SinkWriter
from windrow_spark.checkpoint.storage import unset_elsewhere
from windrow_spark.connectors.frames.reader import DataFrameReader
from windrow_spark.faults import engine_errors
from windrow_spark.paths import as_read_path, as_spark_path
from windrow_spark.session import moved_to
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.unpacking import unpacked
from windrow_spark.sources.scan import ANY_AGE, Scan, ScanContext, scan_rows
from windrow_spark.sources.scanner import SparkScanner
from windrow_spark.spark_schema import check_spark_schema, spark_ddl, spark_names, without_void

# Any in this module: DataFrames, which the language does not know.


class DataFrameScanner(SparkScanner[DataFrameReader]):
    """Scans a DataFrame of the session."""

    def scan(self, context: ScanContext) -> Scan:
        source = self.reader.source
        element_type = record_type(source.record_type).in_timezone(source.timezone)
        dataframe: Any = source.dataframe
        with errors_at(self.step.where):
            check_spark_schema(dataframe.schema, element_type)
        unmatched = unmatched_columns(
            "the DataFrame", element_type.columns, spark_names(dataframe.schema), any_case=False
        )
        if unmatched is not None:
            warn_of_header(unmatched.reason, self.step.where, self.step.node.location)
        with engine_errors(self.step.where, source.secrets):
            frame, names = _columns_of(dataframe, element_type)
            if not frame.isStreaming and context.checkpoint is not None:
                # Spark does not unite static rows with a stream, so they are written to files, and streamed from these.
                folder = context.checkpoint.folder_of(context.step)
                if not (folder / "_SUCCESS").exists():
                    writer = frame.write.options(**unset_elsewhere(context.spark))
                    writer.mode("overwrite").parquet(as_spark_path(folder))
                frame = context.reader.option(*ANY_AGE).schema(frame.schema).parquet(as_read_path(folder))
            else:
                frame = moved_to(context.spark, frame)
            return scan_rows(frame.toDF(*names), element_type, source.describe())

    def check_columns(self) -> None:
        """Declines a column of decimals whose scale differs from the field's, since elements would show that."""
        from pyspark.sql.types import DecimalType

        source = self.reader.source
        decimals = {
            column.column: column.type
            for column in record_type(source.record_type).columns
            if column.type.kind is Kind.DECIMAL
        }
        dataframe: Any = source.dataframe
        for field in dataframe.schema.fields if decimals else ():
            kind, value = field.dataType, decimals.get(field.name)
            if value is not None and isinstance(kind, DecimalType) and kind.scale != value.scale:
                wanted = f"({value.precision},{value.scale})"
                raise DeclinedError(
                    f"{field.name} is a {kind.simpleString()} in the DataFrame, and columns are {wanted}"
                )

    @property
    def known_batches(self) -> float:
        return math.inf if self.is_stream_of_user else 1

    @property
    def is_stream_of_user(self) -> bool:
        return not self.source.is_bounded


class StreamSparkWriter(SparkWriter[SinkWriter[WriterSink[Any]]]):
    """Writes a stream by the ``DataStreamWriter`` that the user configures."""

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.QUERY

    @property
    def takes_columns(self) -> bool:
        return True

    def stream_writer(self, frame: Any, number: int, classes: tuple[UserClass, ...]) -> Any:
        return self.writer.sink.configure(unpacked(frame, number, self.step, classes))


def _columns_of(dataframe: Any, record_type: RecordType) -> tuple[Any, list[str]]:
    """Returns a DataFrame's columns that belong to fields, in types that files can hold, and the columns' names."""
    from pyspark.sql import functions as f

    empty = dataframe.sparkSession.createDataFrame([], spark_ddl(record_type))
    types = {field.name: field.dataType for field in empty.schema.fields}
    indices = [index for index, name in enumerate(dataframe.columns) if name in types]
    names = [dataframe.columns[index] for index in indices]
    are_alike = len({name.lower() for name in names}) < len(names)
    numbered = dataframe.toDF(*(f"c{index}" for index in range(len(dataframe.columns))))
    columns = []
    for index, name in zip(indices, names, strict=True):
        column = f.col(f"c{index}")
        column_type = dataframe.schema.fields[index].dataType
        if "void" in column_type.simpleString():
            column = column.cast(without_void(column_type, types[name]))
        columns.append(column.alias(f"c{index}" if are_alike else name))
    if not columns:
        # If no column belongs to a field, a constant one keeps the number of rows.
        return dataframe.select(f.lit(0).alias("rows")), [NO_FIELD]
    return numbered.select(*columns), names
