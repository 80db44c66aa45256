"""Python workers open the files of a source themselves; Spark lists the files, and gives the workers their names.

So both engines read files by the same code, and no record passes through the JVM. Spark's own readers fail at a byte
that is no character, and at names such as ``10:00.json``, without saying where; and a row takes them some ten times as
long on its way to a Python worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from windrow.addresses.paths import PathGuard, is_hidden, is_read
from windrow.addresses.patterns import split_pattern
from windrow.errors import WindrowError
from windrow_runtime.codecs.arrow.parquet import ParquetRows, read_parquet
from windrow_runtime.codecs.malformed import MalformedRecord, UnmatchedHeader, as_malformed
from windrow_runtime.codecs.record_files import TextRecords
from windrow_runtime.codecs.text_files import opened_file
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batch import SourceBatch
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.paths import FILE_COLUMN, FILE_SCHEMA, path_of_url
from windrow_runtime.spark.session_settings import own_partitions
from windrow_runtime.spark.sources.file_ranges import lines_before, range_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NamedFiles", "ParquetFiles", "TextFiles", "file_names"]

# Any in this module: pyarrow has no types, and Spark's two readers have the same methods and no common type.

_LARGE: Final = 32 << 20
_MOST_PARTS: Final = 64
_RECORDS_AT_ONCE: Final = 4096


def file_names(spark: SparkSession, reader: Any, path: str, given: str) -> DataFrame:
    """Make a DataFrame whose rows are the names of the files of a source; :class:`NamedFiles` takes them.

    It uses Spark's format ``binaryFile``, which reads no file as long as the query takes no contents. Folders such as
    ``day=7`` are no columns to it, so that it does not matter how they are called, nor what lies beside them. Where a
    large file is there when a run begins, large files are read in parts side by side.

    Args:
        spark: The session.
        reader: ``spark.read`` or ``spark.readStream``, with its options.
        path: The path of the source in the mounted file system.
        given: The same as Spark is told.
    """
    frame = reader.format("binaryFile").schema(FILE_SCHEMA).load(given)
    if not _has_large(path):
        names: DataFrame = frame.selectExpr(FILE_COLUMN, "0 AS __part", "1 AS __parts")
        return names
    parts = max(1, min(own_partitions(spark), _MOST_PARTS))
    # A part goes to the partition of its number, so that the records of a file stay in order.
    labels = ", ".join(map(str, KeyGroups.balanced(parts, 1).labels))
    frame = frame.selectExpr(FILE_COLUMN, f"IF(length < {_LARGE}, 1, {parts}) AS __parts")
    frame = frame.selectExpr("*", "explode(sequence(0, __parts - 1)) AS __part")
    place = f"IF(__parts = 1, pmod(hash(__file), {parts}), __part)"
    frame = frame.selectExpr("*", f"element_at(array({labels}), {place} + 1) AS __label")
    divided: DataFrame = frame.repartition(parts, "__label").select("__file", "__part", "__parts")
    return divided


def _has_large(path: str) -> bool:
    if split_pattern(path)[1]:
        return False
    if os.path.isfile(path):
        return os.path.getsize(path) >= _LARGE
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not is_hidden(name)]
        if any(_size(os.path.join(folder, name)) >= _LARGE for name in files):
            return True
    return False


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:
        return 0


@dataclass(frozen=True)
class NamedFiles:
    """Opens, in a worker, the files whose names Spark gives.

    Attributes:
        path: The path of the source.
        pattern: The end of the path that is a pattern. A file of that very name that comes later does not change it.
        where: The source and its line, in errors.
    """

    path: str
    pattern: str
    where: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Reads the files of Arrow batches of names; the reader of the source decodes what it yields."""
        guard = PathGuard(self.path, self.pattern)
        for batch in batches:
            for url, part, parts in zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True):
                file = path_of_url(url)
                # Whether the interpreter would read it, too.
                if not is_read(self.path, self.pattern, file):
                    continue
                try:
                    # Spark lists the files, and follows links to anywhere.
                    guard.check(file)
                except WindrowError as error:
                    raise error.at(self.where) from None
                try:
                    yield from self.read(file, part, parts)
                except WindrowError as error:
                    raise error.at(f"{self.where}, {file}") from error.__cause__

    def read(self, file: str, part: int, parts: int) -> Iterator[Any]:
        """Reads a part of a file."""
        raise NotImplementedError


_COLUMNS: Final = ("__file", "__part", "__parts")


@dataclass(frozen=True)
class ParquetFiles(NamedFiles):
    """Reads Parquet files as :class:`~windrow_runtime.codecs.arrow.parquet.ParquetRows`.

    Attributes:
        kind: The type of the records.
    """

    kind: RecordType

    def read(self, file: str, part: int, parts: int) -> Iterator[ParquetRows]:
        yield from read_parquet(file, self.kind, part, parts)


@dataclass(frozen=True)
class TextFiles(NamedFiles):
    """Reads text files as records.

    Attributes:
        records: How records are read from a file.
    """

    records: TextRecords

    def read(self, file: str, part: int, parts: int) -> Iterator[SourceBatch]:
        with opened_file(file) as opened:
            given = (
                range_of(opened, file, part, parts)
                if self.records.has_lines
                else opened
                if not part
                else None
            )
            if given is None:
                return
            found = self.records.read(file, given, begins=not part)
            before: int | None = None
            while some := list(islice(found, _RECORDS_AT_ONCE)):
                chunk = SourceBatch([], [])
                values: list[Any] = []
                for line, value in some:
                    if isinstance(value, UnmatchedHeader):
                        chunk.unmatched[value.reason] = file
                    elif isinstance(value, MalformedRecord):
                        before = lines_before(file, given) if before is None else before
                        chunk.malformed.append(as_malformed(value, f"{file}:{before + line}"))
                    else:
                        values.append(value)
                chunk.values = values
                yield chunk
