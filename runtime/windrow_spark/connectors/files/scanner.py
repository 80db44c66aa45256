"""Reads files on Spark: Spark lists those of mounted file systems, and Python workers open them themselves.

So both engines read files by the same code, and no record passes through the JVM. For a batch job, for other orders
than that of times, and for objects at ``s3a://``, windrow lists the files. Spark's own readers fail at invalid UTF-8,
and at names such as ``10:00.json``, without saying where; and their rows take some ten times as long to reach a Python
worker. In other file systems, such as HDFS, Spark reads the bytes.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from windrow.addresses.paths import PathGuard, check_visible, is_read, local_path
from windrow.addresses.redaction import redact_address
from windrow.errors import UnsupportedOperationError
from windrow.plan import Step
from windrow.sources import FileSource, ParquetFileSource
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import LineRecords, TextRecords, decoded
from windrow_runtime.codecs.unmatched import unmatched_columns
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.connectors.files.formats import FileReader, ParquetReader, TextReader, file_reader
from windrow_runtime.connectors.files.listing import FileOrder
from windrow_runtime.connectors.files.objects import opening_hint, use_options
from windrow_runtime.connectors.files.reader import FileSourceReader
from windrow_runtime.connectors.files.reads import FileReads, list_files
from windrow_runtime.connectors.files.systems import MOUNTED, files_of, has_large_file
from windrow_runtime.connectors.files.text_blocks import TextBlockReader, text_block_reader
from windrow_runtime.inputs.batches import OpenPartitions, PartitionMark, SourceBatch, elements_of, source_batch
from windrow_runtime.inputs.reader import warn_of_header
from windrow_runtime.inputs.text_rows import TextRows
from windrow_runtime.operators.errors import DeclinedError, errors_at
from windrow_spark.checkpoint.file_log import FileLog
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.planner_paths import for_planners
from windrow_spark.checkpoint.storage import unset_elsewhere
from windrow_spark.checkpoint.stored_file import damaged_file
from windrow_spark.connectors.files.buckets import bucket_options
from windrow_spark.connectors.files.plans import FilePlans, TaskShares, task_count
from windrow_spark.exchange.picklable import check_picklable, make_picklable
from windrow_spark.faults import engine_errors
from windrow_spark.paths import FILE_COLUMN, FILE_SCHEMA, LINE_SCHEMA, path_of_url, source_path
from windrow_spark.sources.ranges import range_frame
from windrow_spark.sources.scan import ANY_AGE, Scan, ScanContext, scan_rows
from windrow_spark.sources.scanner import ReadFiles, SparkScanner
from windrow_spark.spark_schema import as_stored, check_spark_schema, spark_ddl, spark_names, with_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Any in this module: elements of every type, pyarrow has no types, and Spark's two readers have no common type.

# Spark lists all folders below, and does not take names of folders such as ``day=7`` for values of columns.
_ALL_BELOW: Final = ("recursiveFileLookup", "true")


use_options(bucket_options)


class FileScanner(SparkScanner[FileSourceReader]):
    """Scans the files of a path."""

    def scan(self, context: ScanContext) -> Scan:
        with engine_errors(self.step.where, self.source.secrets):
            return _scan(self.reader.source, context)

    def as_part(self, context: ScanContext, place: int) -> FileReads:
        source, order = self.reader.source, FileOrder.of(self.reader.source, self.step)
        with errors_at(self.step.where):
            reader = _worker_reader(source, context.columns)
        shares = TaskShares.of(context, order.files)
        return FileReads.of(source, order, reader, _listed(context, order, place), shares.divide)

    def check_columns(self) -> None:
        if not isinstance(self.reader.source, ParquetFileSource):
            reader = text_block_reader(self.reader.source)
            if isinstance(reader, str):
                raise DeclinedError(f"{self.source.describe()} is read row by row: {reader}")

    @property
    def is_replayable(self) -> bool:
        return files_of(self.reader.source.path) is not None

    def replayed(self, files: Sequence[str]) -> SourceBatch:
        return self.reader.batch_of(files)

    def left(self, read: ReadFiles) -> Iterator[SourceBatch]:
        return self.reader.batches_of(read.unread)

    def has_large_files(self, size: int) -> bool:
        source = self.reader.source
        return (
            source.files_in_order == "time" and files_of(source.path) is MOUNTED and has_large_file(source.path, size)
        )

    @property
    def known_batches(self) -> float:
        return 1 if self.reader.source.files_per_batch is None else super().known_batches


def _worker_reader(source: FileSource[Any], columns: frozenset[str] | None) -> FileReader | TextBlockReader:
    """Returns the reader of a worker, which reads text by blocks where it can, and some columns of Parquet."""
    by_blocks = text_block_reader(source)
    reader = file_reader(source) if isinstance(by_blocks, str) else by_blocks
    return replace(reader, only=columns) if isinstance(reader, ParquetReader) else reader


def _listed(context: ScanContext, order: FileOrder, place: int) -> Callable[[], Sequence[str]]:
    """Returns what lists the files of a part: the first run writes their names into the checkpoint."""
    checkpoint = context.checkpoint
    if checkpoint is None:
        files = list_files(order, context.step)
        return lambda: files
    log = checkpoint.log_of_files(f"{checkpoint.folder_of(context.step).name}.{place}")
    if not log.exists():
        if checkpoint.has_run():
            raise damaged_file(log.path, "it is gone, and batches have run")
        log.begin([list_files(order, context.step)])
    if not checkpoint.is_mounted:
        log.update(1)  # the planner, which cannot open it, gets what it has
    return partial(_logged, log)


def _logged(log: FileLog) -> Sequence[str]:
    if not log.entries:
        log.update(1)
    return log.entries[0]


def _scan(source: FileSource[Any], context: ScanContext) -> Scan:
    stream = context.reader.option(*_ALL_BELOW)
    if context.checkpoint is not None:
        stream = stream.option(*ANY_AGE)
        if source.files_per_batch is not None:
            stream = stream.option("maxFilesPerTrigger", source.files_per_batch)
            # Spark keeps what it has listed for later batches. It lists again before a batch would be smaller.
            stream = stream.option("maxCachedFiles", max(source.files_per_batch, 10_000))
            stream = stream.option("discardCachedInputRatio", 1)
    reader = _worker_reader(source, context.columns)
    path, opened = source_path(context.spark, source.path), files_of(source.path)
    if opened is not None:
        # A worker may run in another folder than the driver.
        local = local_path(source.path)
        absolute = source.path.rstrip("/") if local is None else os.path.abspath(local)
        check_visible(absolute)
        pattern = opened.split(absolute)[1]
        files = NamedFiles(absolute, pattern, context.step.where, reader, marks=context.marks_partitions)
        element_type = None if isinstance(reader, TextReader) else reader.record_type
        if context.checkpoint is None:
            order = FileOrder.of(source, context.step)
            shared = TaskShares.of(context, order.files).divide(order.sorted_files())
            # Spark sends all chunks to each worker, which reads a few of them.
            files = replace(files, chunks=tuple([zlib.compress(json.dumps(chunk).encode()) for chunk in shared]))
            # Each partition has the number of a chunk, so that elements are in the order of their files.
            numbers = context.spark.range(0, len(shared), 1, max(1, len(shared)))
            return Scan(numbers, elements_of, files, element_type)
        planned = _planned(source, context, context.checkpoint, by_spark=opened is MOUNTED)
        if planned is not None:
            return Scan(planned, elements_of, replace(files, chunks=()), element_type)
        keeps_order = context.ordered and (
            source.files_per_batch != 1 or context.checkpoint.takes_several(context.place)
        )
        names = _names(context, stream, path, keeps_order=keeps_order)
        return Scan(names, elements_of, files, element_type)
    if context.checkpoint is not None and _log_of(context.checkpoint, context.step).exists():
        raise UnsupportedOperationError(
            "Spark would read all files of this file system again, as windrow has listed them before",
            given=f"{source.describe()}, in a checkpoint whose runs could open it",
            expected="what these runs had: the library, and settings of the session that windrow knows",
            hint=opening_hint(source.path, "undo the change of the session's settings, or begin with a new checkpoint"),
        )
    if source.files_in_order != "time":
        raise UnsupportedOperationError(
            "Spark reads files of this file system, in the order of their times only",
            given=source.describe(),
            expected='a source with files_in_order="time"',
            hint=opening_hint(source.path, "mount the file system, or copy the files"),
        )
    if source.partitions:
        raise UnsupportedOperationError(
            "Spark reads files of this file system, and no fields from the names of folders",
            given=source.describe(),
            expected="a source without partitions=",
            hint=opening_hint(source.path, "read the files with spark.read, and give the DataFrame to from_dataframe"),
        )
    if isinstance(reader, ParquetReader):
        if reader.record_type is not record_type(source.record_type):
            raise UnsupportedOperationError(
                "Spark reads files of this file system, and no timestamps without a zone",
                given=source.describe(),
                expected="a source without timezone=",
                hint=opening_hint(
                    source.path, "give the DataFrame of spark.read.parquet to from_dataframe(timezone=...)"
                ),
            )
        schema = _schema_read(context, reader.record_type, path)
        return scan_rows(stream.schema(schema).parquet(path), reader.record_type, source.shown_path)
    records = reader.records
    element_type = None if isinstance(reader, TextReader) else reader.record_type
    if isinstance(records, LineRecords) and records.has_lines:
        lines = stream.schema(LINE_SCHEMA).text(path)
        frame = lines.selectExpr("CAST(__text AS BINARY) AS __text", FILE_COLUMN)
        if isinstance(reader, TextBlockReader):
            return Scan(frame, elements_of, SparkLines(reader, source.shown_path), reader.record_type)
        return Scan(frame, partial(_decode_lines, records, source.shown_path))
    frame = stream.format("binaryFile").schema(FILE_SCHEMA).load(path).selectExpr("content", FILE_COLUMN)
    return Scan(frame, partial(_decode_files, records, source.shown_path, context.step.where), record_type=element_type)


def _schema_read(context: ScanContext, record_type: RecordType, path: str) -> Any:
    """Returns the schema with which Spark reads Parquet files; it fills columns that a file lacks with null.

    Existing files are checked. Spark itself widens some of their columns; others are read in their stored type.
    """
    from pyspark.errors import AnalysisException

    try:
        reader = context.spark.read.options(**unset_elsewhere(context.spark)).option(*_ALL_BELOW)
        stored = with_texts(reader.parquet(path).schema, record_type)
    except AnalysisException:
        return spark_ddl(record_type)  # no file yet
    with errors_at(f"{context.step.where}, {redact_address(path)}"):
        check_spark_schema(stored, record_type)
    unmatched = unmatched_columns("a file", record_type.columns, spark_names(stored), any_case=True)
    if unmatched is not None:
        warn_of_header(unmatched.reason, f"{context.step.where}, {redact_address(path)}", context.step.node.location)
    return as_stored(stored, context.spark.createDataFrame([], spark_ddl(record_type)).schema)


# File systems that windrow opens


def _log_of(checkpoint: Checkpoint, step: Step) -> FileLog:
    return checkpoint.log_of_files(checkpoint.folder_of(step).name)


def _planned(
    source: FileSource[Any], context: ScanContext, checkpoint: Checkpoint, *, by_spark: bool
) -> DataFrame | None:
    """Returns a DataFrame with the chunks of each batch, if windrow plans the batches; None: Spark does so by time.

    Spark does ``by_spark``, and in a checkpoint where it has done so: it asks an object store for each file once more.
    The first run in another order takes over what Spark has read. Later ones stay with the log that windrow keeps.
    """
    order, log = source.files_in_order, _log_of(checkpoint, context.step)
    is_begun = log.exists()
    if order == "time" and not is_begun and (by_spark or checkpoint.has_run()):
        return None
    make_picklable(type(order))
    check_picklable(context.step, [order], "files_in_order", "open what it needs in the function")
    if not is_begun:
        log.begin(checkpoint.files_read_by_spark(context.place) if checkpoint.has_run() else [])
    log = replace(log, path=for_planners(log.path.parent) / log.path.name)
    listing = FileOrder.of(source, context.step)
    plans = FilePlans(listing, source.files_per_batch, log, TaskShares.of(context, listing.files))
    return range_frame(replace(context, marks_partitions=False), plans)


def _names(context: ScanContext, stream: Any, path: str, *, keeps_order: bool) -> DataFrame:
    """Returns a DataFrame with the names of a source's files, which :class:`NamedFiles` opens.

    It uses Spark's format ``binaryFile``, which reads no file unless the query selects contents. Folders such as
    ``day=7`` do not become columns, so that their names, and other files beside them, do not matter. If one of the
    first 100,000 files is large when a run begins, large files are read in parts in parallel. With these, or
    if it ``keeps_order``, each partition has files that come one after the other, and before those of later ones: Spark
    would pack them by size. ``path`` is that of the source for Spark.
    """
    frame = stream.format("binaryFile").schema(FILE_SCHEMA).load(path)
    division = context.division
    most = task_count(division)
    parts = f"IF(length < {division.large_file_bytes}, 1, {most})" if context.in_parts else "1"
    frame = frame.selectExpr("path", FILE_COLUMN, "unix_millis(modificationTime) AS __time", f"{parts} AS __parts")
    frame = frame.selectExpr("*", f"{'explode(sequence(0, __parts - 1))' if context.in_parts else '0'} AS __part")
    if keeps_order or context.in_parts:
        frame = frame.repartitionByRange(most, "__time", "path", "__part")
    names: DataFrame = frame.select(*_COLUMNS)
    return names


@dataclass(frozen=True)
class NamedFiles:
    """Opens, in a worker, the files whose names Spark lists, or those of chunks that windrow made."""

    path: str
    pattern: str  # the end of the path if it is a pattern, even if a file of exactly that name appears later
    where: str
    reader: FileReader | TextBlockReader
    chunks: tuple[bytes, ...] | None = None  # None: rows have names; empty: rows are chunks
    marks: bool = False  # whether it tells the name of each file, before its elements

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Reads the files of Arrow batches of names, or of chunks or their numbers."""
        guard = PathGuard(self.path, self.pattern)
        for file, part, parts in self._named(batches):
            if self.marks:
                yield PartitionMark(file, OpenPartitions([file]))
            with errors_at(self.where):
                # Spark follows links when it lists files, and these may lead anywhere.
                guard.check(file)
            with errors_at(f"{self.where}, {file}"):
                yield from self.reader.read(file, part, parts)

    def _named(self, batches: Iterator[Any]) -> Iterator[tuple[str, int, int]]:
        """Yields files and parts in their order, see :class:`windrow_runtime.connectors.files.listing.FileOrder`."""
        if self.chunks is not None:
            for batch in batches:
                for chunk in batch.column(0).to_pylist():
                    yield from json.loads(chunk if isinstance(chunk, str) else zlib.decompress(self.chunks[chunk]))
            return
        rows = (zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True) for batch in batches)
        for _, file, part, parts in sorted((time, path_of_url(url), *part) for time, url, *part in chain(*rows)):
            # Spark also lists files that the interpreter would not read.
            if is_read(self.path, self.pattern, file):
                yield file, part, parts


_COLUMNS: Final = ("__time", "__file", "__part", "__parts")


# Other file systems


@dataclass(frozen=True)
class SparkLines:
    """Turns lines as bytes, with the names of their files, into columns; the path of the source is for errors.

    Spark splits files into lines, and large files into parts, so lines have no numbers.
    """

    reader: TextBlockReader
    path: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[TextRows]:
        """Reads Arrow batches of lines."""
        for batch in batches:
            yield self.reader.read_lines(batch.column(0).to_pylist(), partial(self._origin, batch.column(1)))

    def _origin(self, urls: Any, line: int) -> str:
        return f"{self.path}, {_name(urls[line].as_py())}"


def _decode_lines(records: LineRecords, path: str, batch: Any) -> SourceBatch:
    """Decodes lines as bytes, with the names of their files, into records; the path of the source is for errors.

    Spark splits files into lines, and large files into parts, so lines have no numbers.
    """
    decode = records.decoder()
    rows = zip(batch.column(1).to_pylist(), batch.column(0).to_pylist(), strict=True)
    texts = ((url, decoded(data, records.encoding)) for url, data in rows)
    return source_batch(
        ((url, decode(text)) for url, text in texts if not records.json or text.strip()),
        lambda url: f"{path}, {_name(url)}",
    )


def _decode_files(records: TextRecords, path: str, where: str, batch: Any) -> SourceBatch:
    """Decodes the contents of files, with their names, into records; ``path`` and ``where`` are for errors."""
    decoded_batch = SourceBatch()
    for data, url in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
        file = f"{path}, {_name(url)}"
        with errors_at(f"{where}, {file}"):
            read = records.read(_name(url), io.BytesIO(data))
            decoded_batch.add(source_batch(read, partial("{}:{}".format, file), file))
    return decoded_batch


def _name(url: str) -> str:
    return path_of_url(url).rpartition("/")[2]
