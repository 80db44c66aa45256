"""Maps each class of sources to the function that scans it on Spark."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import partial, singledispatch
from re import Pattern
from typing import Any, Final

from windrow.connectors import CustomSource
from windrow.connectors.custom_source import reads_arrow
from windrow.connectors.hybrid import HybridSource
from windrow.errors import UnsupportedOperationError
from windrow.kafka import TopicSource
from windrow.plan import Step
from windrow.sources import (
    ArrowSource,
    CollectionSource,
    DataFrameSource,
    FileSource,
    ParquetFileSource,
    RateSource,
    SocketSource,
    Source,
)
from windrow_runtime.codecs.arrow.decoding import NO_FIELD
from windrow_runtime.codecs.record_type import Kind, record_type
from windrow_runtime.codecs.spark_schema import check_spark_schema, spark_ddl, spark_names, without_void
from windrow_runtime.codecs.unmatched import unmatched_columns
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.checks import warn_of_header
from windrow_runtime.inputs.custom import CustomReads
from windrow_runtime.inputs.files import elements_of
from windrow_runtime.inputs.text_blocks import text_block_reader
from windrow_runtime.inputs.topic_values import topic_values
from windrow_runtime.inputs.topics import TopicReads
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import DeclinedError, errors_at
from windrow_runtime.operators.topology import source_of
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.checkpoint.storage import set_time, write_whole
from windrow_runtime.spark.checkpoint.stored_file import checkpoint_errors
from windrow_runtime.spark.faults import engine_errors
from windrow_runtime.spark.paths import as_read_path, as_spark_path
from windrow_runtime.spark.session import moved_to
from windrow_runtime.spark.sources.custom import scan_custom
from windrow_runtime.spark.sources.files import scan_files
from windrow_runtime.spark.sources.hybrid import scan_hybrid
from windrow_runtime.spark.sources.kafka_scan import scan_topic
from windrow_runtime.spark.sources.scan import ANY_AGE, Scan, ScanContext, scan_rows
from windrow_runtime.storage.values import StateCodec

# Any in this module: sources of elements of every type, DataFrames, which the language does not know, and pyarrow.

_FIRST_TIME: Final = 1_000_000_000


@singledispatch
def scan_source(source: Source[Any], context: ScanContext) -> Scan:
    """Returns the scan of a source."""
    raise UnsupportedOperationError(
        "Spark cannot read this source",
        given=source.describe(),
        expected="a collection, files, a DataFrame, Kafka, a socket, the rate source or a CustomSource",
        where=context.step.where,
    )


def _scan_rate(source: RateSource, context: ScanContext) -> Scan:
    stream = context.reader.format("rate").option("rowsPerSecond", source.rows_per_second)
    frame = stream.options(**source.options).load()
    return scan_rows(frame, record_type(source.element_type), source.describe())


def _scan_socket(source: SocketSource, context: ScanContext) -> Scan:
    stream = context.reader.format("socket").option("host", source.host).option("port", source.port)
    return scan_rows(stream.load(), record_type(str), source.describe())


def _scan_collection(source: CollectionSource[Any], context: ScanContext) -> Scan:
    frame = _stored_batches(source, context, len(source.elements), partial(_stored, source, context))
    return Scan(frame, partial(_decode_stored, context.codec))


def _scan_arrow(source: ArrowSource[Any], context: ScanContext) -> Scan:
    from windrow_runtime.codecs.arrow.exchanged import read_stored, stored_rows

    kind, table = _arrow_table(source, context.step)
    frame = _stored_batches(source, context, table.num_rows, partial(stored_rows, table))
    return Scan(frame, elements_of, partial(read_stored, kind, source.describe()), kind)


def _arrow_table(source: ArrowSource[Any], step: Step) -> tuple[RecordType, Any]:
    from windrow_runtime.codecs.arrow.exchanged import rows_of_source

    with errors_at(step.where):
        return rows_of_source(source)


def _stored_batches(
    source: CollectionSource[Any] | ArrowSource[Any],
    context: ScanContext,
    count: int,
    stored: Callable[[int, int], list[bytes]],
) -> Any:
    """Returns a DataFrame of a file for each batch, so that Spark's checkpoint says which were read.

    ``stored`` returns elements, from one number to another, as bytes.
    """
    if context.checkpoint is None:
        return context.spark.createDataFrame([(bytearray(each),) for each in stored(0, count)], "payload binary")
    folder = context.checkpoint.folder_of(context.step)
    size = source.batch_size or max(count, 1)
    with checkpoint_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number, start in enumerate(range(0, count, size)):
            file = folder / f"batch-{number:06d}.parquet"
            if not file.exists():
                write_whole(file, _parquet(stored(start, start + size)))
            # Spark reads files in the order of their modification, and a copy of a checkpoint may have other times.
            # Elsewhere they have the times, or at least the order, in which they were written.
            set_time(file, _FIRST_TIME + number)
    stream = context.reader.schema("payload binary").option("maxFilesPerTrigger", 1).option(*ANY_AGE)
    return stream.option("pathGlobFilter", "batch-*.parquet").parquet(as_read_path(folder))


def _stored(source: CollectionSource[Any], context: ScanContext, start: int, end: int) -> list[bytes]:
    with errors_at(context.step.where):
        return [context.codec.dumps(source.elements[start:end])]


def _parquet(payloads: list[bytes]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = io.BytesIO()
    # More than 2 GiB of bytes do not fit the usual type.
    pq.write_table(pa.table({"payload": pa.array(payloads, pa.large_binary())}), table)
    return table.getvalue()


def _decode_stored(codec: StateCodec, batch: Any) -> SourceBatch:
    values = [value for payload in batch.column(0).to_pylist() for value in codec.loads(payload)]
    # Each element becomes a separate copy: a collection may have one object twice, which is decoded as one.
    return SourceBatch(own_all(values))


def _scan_dataframe(source: DataFrameSource[Any], context: ScanContext) -> Scan:
    """Scans a DataFrame of the session: its columns are the fields of the elements."""
    kind = record_type(source.record_type).in_timezone(source.timezone)
    dataframe: Any = source.dataframe
    with errors_at(context.step.where):
        check_spark_schema(dataframe.schema, kind)
    unmatched = unmatched_columns("the DataFrame", kind.columns, spark_names(dataframe.schema), any_case=False)
    if unmatched is not None:
        warn_of_header(unmatched.reason, context.step.where, context.step.node.location)
    with engine_errors(context.step.where, source.secrets):
        frame, names = _columns_of(dataframe, kind)
        if not frame.isStreaming and context.checkpoint is not None:
            # Spark does not unite static rows with a stream, so they are written to files, and streamed from these.
            folder = context.checkpoint.folder_of(context.step)
            if not (folder / "_SUCCESS").exists():
                frame.write.mode("overwrite").parquet(as_spark_path(folder))
            frame = context.reader.option(*ANY_AGE).schema(frame.schema).parquet(as_read_path(folder))
        else:
            frame = moved_to(context.spark, frame)
        return scan_rows(frame.toDF(*names), kind, source.describe())


def _columns_of(dataframe: Any, kind: RecordType) -> tuple[Any, list[str]]:
    """Returns a DataFrame's columns that belong to fields, in types that files can hold, and the columns' names."""
    from pyspark.sql import functions as f

    empty = dataframe.sparkSession.createDataFrame([], spark_ddl(kind))
    types = {field.name: field.dataType for field in empty.schema.fields}
    indices = [index for index, name in enumerate(dataframe.columns) if name in types]
    names = [dataframe.columns[index] for index in indices]
    are_alike = len({name.lower() for name in names}) < len(names)
    numbered = dataframe.toDF(*(f"c{index}" for index in range(len(dataframe.columns))))
    columns = []
    for index, name in zip(indices, names, strict=True):
        column = f.col(f"c{index}")
        there = dataframe.schema.fields[index].dataType
        if "void" in there.simpleString():
            column = column.cast(without_void(there, types[name]))
        columns.append(column.alias(f"c{index}" if are_alike else name))
    if not columns:
        # If no column belongs to a field, a constant one keeps the number of rows.
        return dataframe.select(f.lit(0).alias("rows")), [NO_FIELD]
    return numbered.select(*columns), names


scan_source.register(ArrowSource, _scan_arrow)
scan_source.register(CollectionSource, _scan_collection)
scan_source.register(CustomSource, scan_custom)
scan_source.register(DataFrameSource, _scan_dataframe)
scan_source.register(FileSource, scan_files)
scan_source.register(HybridSource, scan_hybrid)
scan_source.register(RateSource, _scan_rate)
scan_source.register(SocketSource, _scan_socket)
scan_source.register(TopicSource, scan_topic)


def batches_of(source: Source[Any]) -> float:
    """Returns in how many batches Spark reads all that a source has at the start; infinity: that is not known."""
    match source:
        case CollectionSource():
            return _count_batches(len(source.elements), source.batch_size)
        case ArrowSource():
            return math.inf if source.table is None else _count_batches(source.table.num_rows, source.batch_size)
        case FileSource(files_per_batch=None):
            return 1
        case DataFrameSource() if not source.dataframe.isStreaming:
            return 1
        case TopicSource(engine_connector=True) if not any("trigger" in name.lower() for name in source.options):
            return 1
        case _:
            return math.inf


def _count_batches(count: int, size: int | None) -> int:
    return max(1, -(-count // (size or count or 1)))


def has_several_partitions(step: Step) -> bool:
    """Returns whether a source has several partitions at the begin of a query, or may find some later."""
    source = source_of(step)
    if isinstance(source, TopicSource):
        return isinstance(source.topics, Pattern) or len(TopicReads.of(source, step).partitions()) > 1
    return not isinstance(source, CustomSource) or len(CustomReads.of(source, step).partitions()) > 1


def check_columns(source: Source[Any]) -> None:
    """Declines a source that does not give its elements as columns."""
    if isinstance(source, DataFrameSource):
        _check_scales(source)
    elif isinstance(source, FileSource) and not isinstance(source, ParquetFileSource):
        reader = text_block_reader(source)
        if isinstance(reader, str):
            raise DeclinedError(f"{source.describe()} is read row by row: {reader}")
    elif isinstance(source, TopicSource):
        values = topic_values(source)
        if isinstance(values, str):
            raise DeclinedError(f"{source.describe()} is read record by record: {values}")
    elif isinstance(source, HybridSource):
        for part in source.sources:
            check_columns(part)
        if len(source.sources) < len(source.parts):
            raise DeclinedError(f"{source.describe()}: a function makes a part of it")
        if len(source.timezones) > 1:
            raise DeclinedError(f"{source.describe()}: its parts have different timezone=")
    elif isinstance(source, CustomSource):
        if not reads_arrow(source):
            raise DeclinedError(f"{source.describe()} gives records one by one: it has no read_arrow")
    elif not isinstance(source, (ArrowSource, ParquetFileSource, RateSource)):
        raise DeclinedError(f"{source.describe()} gives records one by one")


def _check_scales(source: DataFrameSource[Any]) -> None:
    """Declines a column of decimals whose scale differs from the field's, since elements would show that."""
    from pyspark.sql.types import DecimalType

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
            raise DeclinedError(f"{field.name} is a {kind.simpleString()} in the DataFrame, and columns are {wanted}")


def check_resumable(step: Step, checkpoint: Checkpoint) -> None:
    """Refuse a socket source if the checkpoint has batches."""
    if isinstance(source_of(step), SocketSource) and checkpoint.last_planned() >= 0:
        raise UnsupportedOperationError(
            "a socket source cannot go on from a checkpoint: nobody sends again what came",
            given=source_of(step).describe(),
            expected="a new checkpoint",
            where=step.where,
        )
