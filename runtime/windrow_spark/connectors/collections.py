"""Reads elements and Arrow data of the program on Spark, by files that a checkpoint keeps."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from windrow_runtime.connectors.collections.reader import ArrowReader, CollectionReader
from windrow_runtime.connectors.collections.writer import CollectWriter
from windrow_runtime.inputs.batches import SourceBatch, elements_of
from windrow_runtime.inputs.offsets import RowReads
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_spark.checkpoint.storage import set_time, write_whole
from windrow_spark.checkpoint.stored_file import checkpoint_errors
from windrow_spark.paths import as_read_path
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sources.scan import ANY_AGE, Scan, ScanContext
from windrow_spark.sources.scanner import ReadFiles, SparkScanner
from windrow_spark.storage.values import StateCodec

# Any in this module: elements of every type, DataFrames, which the language does not know, and pyarrow.

R = TypeVar("R", CollectionReader, ArrowReader)

_FIRST_TIME: Final = 1_000_000_000
_STORED: Final = re.compile(r"batch-(\d+)\.parquet")


class _StoredScanner(SparkScanner[R]):
    """Scans elements that the checkpoint stores, one file for each batch."""

    @property
    def is_replayable(self) -> bool:
        return True

    def replayed(self, files: Sequence[str]) -> SourceBatch:
        wanted = {int(match[1]) for file in files if (match := _STORED.fullmatch(Path(file).name))}
        source_batch = SourceBatch()
        for number, batch in enumerate(self.reader.batches()):
            if number in wanted:
                source_batch.add(batch)
        return source_batch

    def left(self, read: ReadFiles) -> Iterator[SourceBatch]:
        done = {int(match[1]) for name in read.names if (match := _STORED.fullmatch(name))}
        return (batch for number, batch in enumerate(self.reader.batches()) if number not in done)


class CollectionScanner(_StoredScanner[CollectionReader]):
    """Scans the elements of a collection."""

    def scan(self, context: ScanContext) -> Scan:
        elements = self.reader.source.elements
        frame = _stored_batches(self.reader.source.batch_size, context, len(elements), partial(self._stored, context))
        return Scan(frame, partial(_decode_stored, context.codec), has_few_rows=True)

    def _stored(self, context: ScanContext, start: int, end: int) -> list[bytes]:
        with errors_at(self.step.where):
            return [context.codec.dumps(self.reader.source.elements[start:end])]

    def as_part(self, context: ScanContext, place: int) -> RowReads:
        with errors_at(self.step.where):
            stored = context.codec.dumps(list(self.reader.source.elements))
        return self.reader.rows(partial(_decoded, context.codec, stored))

    @property
    def known_batches(self) -> float:
        return _count_batches(len(self.reader.source.elements), self.reader.source.batch_size)


class ArrowScanner(_StoredScanner[ArrowReader]):
    """Scans Arrow data."""

    def scan(self, context: ScanContext) -> Scan:
        from windrow_runtime.codecs.arrow.exchanged import read_stored, stored_rows

        record_type, table = self.reader.table()
        frame = _stored_batches(self.reader.source.batch_size, context, table.num_rows, partial(stored_rows, table))
        return Scan(frame, elements_of, partial(read_stored, record_type, self.source.describe()), record_type)

    def check_columns(self) -> None:
        """Accepts the source: its data are columns."""

    @property
    def known_batches(self) -> float:
        rows = self.reader.row_count
        return math.inf if rows is None else _count_batches(rows, self.reader.source.batch_size)


class CollectSparkWriter(SparkWriter[CollectWriter]):
    """Leaves the elements to the driver, which keeps them for the result."""

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.RESULTS


def _stored_batches(
    batch_size: int | None, context: ScanContext, count: int, stored: Callable[[int, int], list[bytes]]
) -> Any:
    """Returns a DataFrame of a file for each batch, so that Spark's checkpoint says which were read.

    ``stored`` returns elements, from one number to another, as bytes.
    """
    if context.checkpoint is None:
        return context.spark.createDataFrame([(bytearray(each),) for each in stored(0, count)], "payload binary")
    folder = context.checkpoint.folder_of(context.step)
    size = batch_size or max(count, 1)
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


def _parquet(payloads: list[bytes]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = io.BytesIO()
    # More than 2 GiB of bytes do not fit the usual type.
    pq.write_table(pa.table({"payload": pa.array(payloads, pa.large_binary())}), table)
    return table.getvalue()


def _decoded(codec: StateCodec, stored: bytes) -> list[Any]:
    # A collection may have one object twice, which is decoded as one.
    return own_all(codec.loads(stored))


def _decode_stored(codec: StateCodec, batch: Any) -> SourceBatch:
    values = [value for payload in batch.column(0).to_pylist() for value in codec.loads(payload)]
    # Each element becomes a separate copy: a collection may have one object twice, which is decoded as one.
    return SourceBatch(own_all(values))


def _count_batches(count: int, size: int | None) -> int:
    return max(1, -(-count // (size or count or 1)))
