"""Reads Spark's DataFrames as sources: their columns are the fields of the elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow.sources import DataFrameSource
from windrow_runtime.codecs.record_type import Kind, record_type
from windrow_runtime.codecs.spark_schema import check_spark_schema
from windrow_runtime.codecs.value_type import DECIMAL_PRECISION, DECIMAL_SCALE
from windrow_runtime.operators.declined import DeclinedError
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.spark.paths import as_read_path, as_spark_path
from windrow_runtime.spark.session import moved_to
from windrow_runtime.spark.sources.scan import RowReader, Scan, ScanContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def scan_dataframe(source: DataFrameSource[Any], context: ScanContext) -> Scan:
    """Scans a DataFrame of the session.

    Raises:
        SourceError: If its columns do not fit the record type.
    """
    kind = record_type(source.record_type).in_timezone(source.timezone)
    # Any: the language knows no Spark.
    given: Any = source.dataframe
    with errors_at(context.step.where):
        check_spark_schema(given.schema, kind)
    wanted = {column.column for column in kind.columns}
    frame: DataFrame = given.select(*(name for name in given.columns if name in wanted))
    if not frame.isStreaming and context.checkpoint is not None:
        # Spark does not join static rows to a stream; so they are written once, and streamed from there.
        folder = context.checkpoint.folder_of(context.step)
        if not (folder / "_SUCCESS").exists():
            frame.write.mode("overwrite").parquet(as_spark_path(folder))
        frame = context.reader.schema(frame.schema).parquet(as_read_path(folder))
    else:
        frame = moved_to(context.spark, frame)
    return Scan(frame, RowReader(kind, source.describe()))


def check_scales(source: DataFrameSource[Any]) -> None:
    """Declines a column of decimals with another number of digits behind the point, which elements would show."""
    from pyspark.sql.types import DecimalType

    decimals = {column.column for column in record_type(source.record_type).columns if column.type.kind is Kind.DECIMAL}
    # Any: the language knows no Spark.
    dataframe: Any = source.dataframe
    for field in dataframe.schema.fields if decimals else ():
        kind = field.dataType
        if field.name in decimals and isinstance(kind, DecimalType) and kind.scale != DECIMAL_SCALE:
            wanted = f"({DECIMAL_PRECISION},{DECIMAL_SCALE})"
            raise DeclinedError(f"{field.name} is a {kind.simpleString()} in the DataFrame, and columns are {wanted}")
