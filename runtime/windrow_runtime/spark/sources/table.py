"""Maps each kind of source to the function that begins its scan on Spark."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from windrow.connectors import CustomSource
from windrow.errors import UnsupportedOperationError
from windrow.kafka import TopicSource
from windrow.plan import Step
from windrow.sources import (
    CollectionSource,
    DataFrameSource,
    FileSource,
    ParquetFileSource,
    RateSource,
    SocketSource,
    Source,
)
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.operators.declined import DeclinedError
from windrow_runtime.operators.topology import source_of
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.kafka import scan_topic
from windrow_runtime.spark.sources.collection import scan_collection
from windrow_runtime.spark.sources.custom import scan_custom
from windrow_runtime.spark.sources.dataframe import check_scales, scan_dataframe
from windrow_runtime.spark.sources.files import scan_files
from windrow_runtime.spark.sources.scan import RowReader, Scan, ScanContext

# Any in this module: sources of elements of every type.


@singledispatch
def scan_source(source: Source[Any], context: ScanContext) -> Scan:
    """Begins to read a source.

    Raises:
        SourceError: If there is nothing to read from, or the columns do not fit the record type.
        UnsupportedOperationError: If Spark cannot read the source.
    """
    raise UnsupportedOperationError(
        "Spark cannot read this source",
        given=source.describe(),
        expected="a collection, files, a DataFrame, Kafka, a socket, the rate source or a CustomSource",
        where=context.step.where,
    )


def _scan_rate(source: RateSource, context: ScanContext) -> Scan:
    stream = context.reader.format("rate").option("rowsPerSecond", source.rows_per_second)
    frame = stream.options(**source.options).load()
    return Scan(frame, RowReader(record_type(source.element_type), source.describe()))


def _scan_socket(source: SocketSource, context: ScanContext) -> Scan:
    stream = context.reader.format("socket").option("host", source.host).option("port", source.port)
    return Scan(stream.load(), RowReader(record_type(str), source.describe()))


scan_source.register(CollectionSource, scan_collection)
scan_source.register(CustomSource, scan_custom)
scan_source.register(DataFrameSource, scan_dataframe)
scan_source.register(FileSource, scan_files)
scan_source.register(RateSource, _scan_rate)
scan_source.register(SocketSource, _scan_socket)
scan_source.register(TopicSource, scan_topic)


def check_columns(source: Source[Any]) -> None:
    """Declines a source whose rows are no columns of its elements."""
    if isinstance(source, DataFrameSource):
        check_scales(source)
    elif not isinstance(source, (ParquetFileSource, RateSource)):
        raise DeclinedError(f"{source.describe()} gives records one by one")


def check_resumable(step: Step, checkpoint: Checkpoint) -> None:
    """Refuse a source that cannot go on from a checkpoint.

    Raises:
        UnsupportedOperationError: For a socket, where the checkpoint has batches.
    """
    if isinstance(source_of(step), SocketSource) and checkpoint.last_planned() >= 0:
        raise UnsupportedOperationError(
            "a socket source cannot go on from a checkpoint: nobody sends again what came",
            given=source_of(step).describe(),
            expected="a new checkpoint",
            where=step.where,
        )
