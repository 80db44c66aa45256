"""Sources on Spark: the DataFrame to scan, and how the rows of an Arrow batch become elements."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from windrow.addresses.paths import check_visible, local_path
from windrow.addresses.patterns import split_pattern
from windrow.addresses.redaction import redact_address
from windrow.custom_source import CustomSource
from windrow.errors import UnsupportedOperationError, WindrowError
from windrow.kafka import TopicSource
from windrow.plan import SourceNode, Step
from windrow.sources import (
    CollectionSource,
    DataFrameSource,
    FileSource,
    ParquetFileSource,
    RateSource,
    SocketSource,
    Source,
)
from windrow_runtime.codecs import malformed as codec_malformed
from windrow_runtime.codecs.arrow.batches import decode_batch
from windrow_runtime.codecs.arrow.parquet import ParquetRows
from windrow_runtime.codecs.arrow.types import DECIMAL_PRECISION, DECIMAL_SCALE
from windrow_runtime.codecs.record_files import LineRecords, text_records
from windrow_runtime.codecs.record_type import Kind, RecordType, record_type
from windrow_runtime.codecs.spark_schema import check_spark_schema, spark_schema
from windrow_runtime.columnar.rows.cleaning import clean_columns
from windrow_runtime.inputs.batch import SourceBatch
from windrow_runtime.inputs.custom import CustomReads
from windrow_runtime.operators.copies import own_all
from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.checkpoint.small_files import checkpoint_errors
from windrow_runtime.spark.faults.spark_errors import engine_failure
from windrow_runtime.spark.kafka import kafka_frame, kafka_reader
from windrow_runtime.spark.paths import (
    FILE_COLUMN,
    FILE_SCHEMA,
    LINE_SCHEMA,
    as_read_path,
    as_spark_path,
    source_path,
)
from windrow_runtime.spark.session_settings import moved_to
from windrow_runtime.spark.sources.custom import ReadRanges, ranges_of
from windrow_runtime.spark.sources.named_files import ParquetFiles, TextFiles, file_names
from windrow_runtime.spark.sources.remote_files import AsRead, RemoteFiles, RemoteLines
from windrow_runtime.storage.values import StateCodec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ColumnReader", "Reader", "Scan", "check_resumable", "gives_columns", "scan_source"]

# Any in this module: elements of every type, and pyarrow has no types.


class Reader(Protocol):
    """Makes elements from the rows of an Arrow batch, in a worker."""

    def decode(self, batch: Any) -> SourceBatch:
        """The elements of a batch."""
        ...


@runtime_checkable
class ColumnReader(Reader, Protocol):
    """A reader of rows whose columns are those of the elements."""

    @property
    def kind(self) -> RecordType:
        """The type of the elements."""
        ...

    def columns(self, batch: Any) -> Any | None:
        """The columns of the elements; None where a record may be malformed."""
        ...


@dataclass(frozen=True)
class Scan:
    """A source as Spark reads it.

    Attributes:
        frame: The streaming DataFrame.
        reader: Makes elements of its rows.
        open: Makes the Arrow batches that the reader takes, where rows only name files; None: rows are the input.
    """

    frame: DataFrame
    reader: Reader
    open: Callable[[Iterator[Any]], Iterator[Any]] | None = None


def gives_columns(source: Source[Any]) -> str | None:
    """Whether the rows of a source are columns of its elements: None, or why they are not."""
    if isinstance(source, DataFrameSource):
        return _other_scale(source)
    if isinstance(source, (ParquetFileSource, RateSource)):
        return None
    return f"{source.describe()} gives records one by one"


def _other_scale(source: DataFrameSource[Any]) -> str | None:
    """Decimals of a DataFrame have as many digits behind the point as their column; elements show them."""
    from pyspark.sql.types import DecimalType

    decimals = {
        column.column
        for column in record_type(source.record_type).columns
        if column.type.kind is Kind.DECIMAL
    }
    # Any: the language knows no Spark.
    dataframe: Any = source.dataframe
    for field in dataframe.schema.fields if decimals else ():
        kind = field.dataType
        if field.name in decimals and isinstance(kind, DecimalType) and kind.scale != DECIMAL_SCALE:
            wanted = f"({DECIMAL_PRECISION},{DECIMAL_SCALE})"
            return f"{field.name} is a {kind.simpleString()} in the DataFrame, and columns are {wanted}"
    return None


def check_resumable(step: Step, checkpoint: Checkpoint) -> None:
    """Refuse a source that cannot go on from a checkpoint.

    Raises:
        UnsupportedOperationError: For a socket, where the checkpoint has batches.
    """
    assert isinstance(step.node, SourceNode)
    if isinstance(step.node.source, SocketSource) and checkpoint.last_planned() >= 0:
        raise UnsupportedOperationError(
            "a socket source cannot go on from a checkpoint: nobody sends again what came",
            given=step.node.source.describe(),
            expected="a new checkpoint",
            where=step.where,
        )


def scan_source(
    spark: SparkSession,
    step: Step,
    checkpoint: Checkpoint | None,
    codec: StateCodec,
) -> Scan:
    """Begin to read a source.

    Args:
        spark: The session.
        step: The source.
        checkpoint: Where collections are kept; None: the source is read once, by a batch job.
        codec: Writes and reads collections.

    Raises:
        SourceError: If there is nothing to read from, or the columns do not fit the record type.
        UnsupportedOperationError: If Spark cannot read the source.
    """
    assert isinstance(step.node, SourceNode)
    source: Source[Any] = step.node.source
    if isinstance(source, CollectionSource):
        if checkpoint is None:
            chunk = bytearray(_chunk(step, source.elements, codec))
            return Scan(spark.createDataFrame([(chunk,)], "payload binary"), _ChunkReader(codec))
        return _scan_collection(spark, step, source, checkpoint, codec)
    if isinstance(source, FileSource):
        with _spark_errors(step, source):
            return _scan_files(spark, step, source, once=checkpoint is None)
    if isinstance(source, RateSource):
        stream = spark.readStream.format("rate").option("rowsPerSecond", source.rows_per_second)
        frame = stream.options(**source.options).load()
        return Scan(frame, _RowReader(record_type(source.element_type), source.describe()))
    if isinstance(source, SocketSource):
        stream = spark.readStream.format("socket").option("host", source.host).option("port", source.port)
        return Scan(stream.load(), _RowReader(record_type(str), source.describe()))
    if isinstance(source, DataFrameSource):
        return _scan_dataframe(spark, step, source, checkpoint)
    if isinstance(source, CustomSource):
        ranges = ranges_of(spark, step, source, once=checkpoint is None)
        return Scan(ranges, AsRead(), ReadRanges(CustomReads(source, step.where)))
    if isinstance(source, TopicSource):
        return Scan(kafka_frame(spark, step), kafka_reader(step))
    raise UnsupportedOperationError(
        "Spark cannot read this source",
        given=source.describe(),
        expected="a collection, files, a DataFrame, Kafka, a socket, the rate source or a CustomSource",
        where=step.where,
    )


# Collections: written into files of the checkpoint, a file a batch, so that a restart knows which were read.


def _scan_collection(
    spark: SparkSession, step: Step, source: CollectionSource[Any], checkpoint: Checkpoint, codec: StateCodec
) -> Scan:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = checkpoint.folder_of(step)
    size = source.batch_size or max(len(source.elements), 1)
    with checkpoint_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number, start in enumerate(range(0, len(source.elements), size)):
            file = folder / f"chunk-{number:06d}.parquet"
            if not file.exists():
                payload = _chunk(step, source.elements[start : start + size], codec)
                table = io.BytesIO()
                pq.write_table(pa.table({"payload": pa.array([payload], pa.binary())}), table)
                write_whole(file, table.getvalue())
                _order(file, number)
    frame = (
        spark.readStream.schema("payload binary")
        .option("maxFilesPerTrigger", 1)
        .option("pathGlobFilter", "chunk-*.parquet")
        .parquet(as_read_path(folder))
    )
    return Scan(frame, _ChunkReader(codec))


def _chunk(step: Step, elements: Sequence[Any], codec: StateCodec) -> bytes:
    try:
        return codec.dumps(codec.pack(elements))
    except WindrowError as error:
        raise error.at(step.where) from error.__cause__


def _order(file: Path, number: int) -> None:
    """Spark takes files by their time of modification, so that of a chunk tells its place."""
    os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))


@dataclass(frozen=True)
class _ChunkReader:
    codec: StateCodec

    def decode(self, batch: Any) -> SourceBatch:
        values: list[Any] = []
        for payload in batch.column(0).to_pylist():
            values.extend(self.codec.unpack(self.codec.loads(payload)))
        # A collection may hold one object twice, which is read as one object.
        return SourceBatch(own_all(values))


# Files

# Spark passes over a file that is older by more than this than the newest one that it has read, and forgets the names
# of those; by default after a week. A file that is copied with its time may be of any age.
_ANY_AGE: Final = "1000000d"


@contextmanager
def _spark_errors(step: Step, source: FileSource[Any]) -> Iterator[None]:
    try:
        yield
    except WindrowError:
        raise
    except Exception as error:
        failure = engine_failure(error, step.where, source.secrets)
        raise failure from failure.__cause__


def _scan_files(spark: SparkSession, step: Step, source: FileSource[Any], *, once: bool) -> Scan:
    # Any: Spark's two readers have the same methods and no common type.
    stream: Any = spark.read if once else spark.readStream
    # All folders below, and none whose name is taken for the value of a column, as ``day=7``.
    stream = stream.option(*_ALL_BELOW)
    if not once:
        stream = stream.option("maxFileAge", _ANY_AGE)
        if source.files_per_batch is not None:
            stream = stream.option("maxFilesPerTrigger", source.files_per_batch)
    records = text_records(source)
    if records is None and not isinstance(source, ParquetFileSource):
        raise UnsupportedOperationError(
            "Spark cannot read this format",
            given=source.describe(),
            expected="text, json, csv or parquet",
            where=step.where,
        )
    path, local = source_path(spark, step, source.path), local_path(source.path)
    if local is not None:
        # A worker may run in another folder than the driver.
        given = os.path.abspath(local)
        try:
            check_visible(given)
        except WindrowError as error:
            raise error.at(step.where) from None
        names = file_names(spark, stream, given, path)
        pattern = split_pattern(given)[1]
        if records is not None:
            return Scan(names, AsRead(), TextFiles(given, pattern, step.where, records))
        kind = _record_type(source)
        return Scan(names, _ParquetReader(kind), ParquetFiles(given, pattern, step.where, kind))
    if records is None:
        kind = _record_type(source)
        if kind is not record_type(source.record_type):
            raise UnsupportedOperationError(
                "timestamps without a zone are read in mounted file systems only",
                given=source.describe(),
                expected="a source without timezone=",
                where=step.where,
                hint="read the files with spark.read.parquet, and give the DataFrame to from_dataframe(timezone=...)",
            )
        _check_parquet(spark, step, kind, path)
        return Scan(stream.schema(spark_schema(kind)).parquet(path), _RowReader(kind, source.shown_path))
    if isinstance(records, LineRecords) and records.has_lines:
        frame = (
            stream.schema(LINE_SCHEMA).text(path).selectExpr("CAST(__text AS BINARY) AS __text", FILE_COLUMN)
        )
        return Scan(frame, RemoteLines(records, source.shown_path))
    frame = stream.format("binaryFile").schema(FILE_SCHEMA).load(path).selectExpr("content", FILE_COLUMN)
    return Scan(frame, RemoteFiles(records, source.shown_path, step.where))


_ALL_BELOW: Final = ("recursiveFileLookup", "true")


def _record_type(source: FileSource[Any]) -> RecordType:
    zone = source.timezone if isinstance(source, ParquetFileSource) else None
    return record_type(source.record_type).in_timezone(zone)


def _check_parquet(spark: SparkSession, step: Step, kind: RecordType, path: str) -> None:
    """Looks at the columns of the files that are there: Spark itself would give null for one that is missing."""
    from pyspark.errors import AnalysisException

    try:
        schema = spark.read.option(*_ALL_BELOW).parquet(path).schema
    except AnalysisException:
        return  # no file yet
    try:
        check_spark_schema(schema, kind)
    except WindrowError as error:
        raise error.at(f"{step.where}, {redact_address(path)}") from None


@dataclass(frozen=True)
class _ParquetReader:
    """Makes elements of the rows of Parquet files that the worker reads."""

    kind: RecordType

    def columns(self, batch: ParquetRows) -> Any | None:
        return clean_columns(batch.rows, self.kind)

    def decode(self, batch: ParquetRows) -> SourceBatch:
        return SourceBatch(*batch.decode(self.kind))


@dataclass(frozen=True)
class _RowReader:
    """Makes elements of rows that Spark gives; which row of which file one was is not known then."""

    kind: RecordType
    origin: str

    def columns(self, batch: Any) -> Any | None:
        return clean_columns(batch, self.kind)

    def decode(self, batch: Any) -> SourceBatch:
        found: list[codec_malformed.MalformedRecord] = []
        names = [column.column for column in self.kind.columns]
        columns = batch.select([name for name in names if name in batch.schema.names])
        values = decode_batch(columns, self.kind, found.append)
        return SourceBatch(
            values,
            [
                codec_malformed.as_malformed(bad, f"{self.origin}, row {bad.row} of an Arrow batch")
                for bad in found
            ],
        )


# DataFrames


def _scan_dataframe(
    spark: SparkSession, step: Step, source: DataFrameSource[Any], checkpoint: Checkpoint | None
) -> Scan:
    kind = record_type(source.record_type).in_timezone(source.timezone)
    # The language knows no Spark: what it holds is a DataFrame of this session.
    given: Any = source.dataframe
    try:
        check_spark_schema(given.schema, kind)
    except WindrowError as error:
        raise error.at(step.where) from None
    names = [name for name in given.columns if name in {column.column for column in kind.columns}]
    frame: DataFrame = given.select(*names)
    if not frame.isStreaming and checkpoint is not None:
        # Spark does not join static rows to a stream; so they are written once, and streamed from there.
        folder = checkpoint.folder_of(step)
        if not (folder / "_SUCCESS").exists():
            frame.write.mode("overwrite").parquet(as_spark_path(folder))
        frame = spark.readStream.schema(frame.schema).parquet(as_read_path(folder))
    else:
        frame = moved_to(spark, frame)
    return Scan(frame, _RowReader(kind, source.describe()))
