"""Parquet files, read and written with Arrow."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.errors import SourceError
from windrow.sources import MalformedRecord
from windrow_runtime.codecs import malformed
from windrow_runtime.codecs.arrow.decoding import check_arrow_schema, decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type, encode_batch
from windrow_runtime.codecs.arrow.spark_metadata import spark_metadata
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.text_files import unreadable
from windrow_runtime.codecs.value_type import Kind, fits_decimal

_ROWS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Consecutive rows of a Parquet file, with the columns of a type; the first row of a file has the number 0."""

    rows: pa.RecordBatch
    kind: RecordType
    file: str
    first: int

    def decode(self) -> tuple[list[object], list[MalformedRecord]]:
        """The elements, and the rows that do not fit their type."""
        found: list[malformed.MalformedRecord] = []
        with unreadable(
            self.file, f"texts of UTF-8 in the columns of {self.kind}", pa.ArrowException, UnicodeDecodeError
        ):
            values = decode_batch(self.rows, self.kind, found.append)
        return values, [malformed.as_malformed(bad, f"{self.file}, row {self.first + (bad.row or 0)}") for bad in found]


UNREAD: Final = b"windrow.unread"
"""The key, in the metadata of a schema, of the names of columns that were not read, and have values of no meaning."""


def read_parquet(
    file: str, kind: RecordType, part: int = 0, parts: int = 1, only: frozenset[str] | None = None
) -> Iterator[ParquetRows]:
    """Reads the rows of a file, with the columns of a type.

    If ``only`` names the columns that anybody asks for, the others are not read where the file says that their values
    are well-formed; they have the same value in all rows then, and ``UNREAD`` names them.

    Columns are found by name, whatever the case of its letters; the names of folders, as ``day=2026-01-31``, are no
    values. A file without a byte has no rows: somebody made it, and has not written it. A file is read in parts by its
    row groups. If it is no whole Parquet file, or its columns do not fit, it is a ``SourceError``.
    """
    with unreadable(file, f"a Parquet file of {kind}", pa.ArrowException):
        if not os.path.getsize(file):
            return
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            columns = _columns_read(opened, kind)
            schema = pa.schema([field for field, _ in columns])
            check_arrow_schema(schema, kind)
            groups = opened.num_row_groups
            begin, end = groups * part // parts, groups * (part + 1) // parts
            first = sum(opened.metadata.row_group(group).num_rows for group in range(begin))
            unread: frozenset[str] = frozenset()
            if only is not None and _is_well_formed(opened, columns, kind, range(begin, end)):
                unread = frozenset(field.name for field, _ in columns) - only
                schema = schema.with_metadata({UNREAD: ",".join(sorted(unread)).encode()})
            for rows in opened.iter_batches(
                _ROWS_AT_ONCE,
                row_groups=list(range(begin, end)),
                columns=[name for field, name in columns if name is not None and field.name not in unread],
                use_threads=False,
            ):
                arrays = [
                    _filled(field.type, rows.num_rows)
                    if field.name in unread
                    else pa.nulls(rows.num_rows, field.type)
                    if name is None
                    else _cast(rows.column(name), field.type)
                    for field, name in columns
                ]
                yield ParquetRows(pa.RecordBatch.from_arrays(arrays, schema=schema), kind, file, first)
                first += rows.num_rows


class ParquetWriter:
    """Writes the elements of one type to a Parquet file."""

    ending: Final = ".parquet"

    def __init__(self, kind: RecordType) -> None:
        self._kind = kind

    def encode(self, values: Sequence[object]) -> pa.RecordBatch:
        """The rows of elements; raises an ``InvalidArgumentError`` if one of them is not of its type."""
        return encode_batch(values, self._kind)

    def encode_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, as they are."""
        return rows

    def open(self, file: Path) -> None:
        """Make the file, which does not exist."""
        schema = arrow_schema(self._kind)
        if self._kind.root.contains(Kind.TIMEDELTA):
            # Parquet has no type for spans of time. They are numbers of microseconds, and each reader has its own note.
            schema = schema.with_metadata(spark_metadata(self._kind))
        self._file = file.open("xb")
        self._writer = pq.ParquetWriter(self._file, schema, compression="snappy")

    def append(self, content: pa.RecordBatch) -> int:
        """Write rows; gives their size in bytes."""
        self._writer.write_batch(content)
        return int(content.nbytes)

    def close(self) -> None:
        """Finish the file."""
        with self._file:
            self._writer.close()


_CHECKED: Final = frozenset({Kind.BOOL, Kind.BYTES, Kind.DATETIME, Kind.FLOAT, Kind.INT, Kind.STR})


def _is_well_formed(
    opened: pq.ParquetFile, columns: Sequence[tuple[pa.Field, str | None]], kind: RecordType, groups: Sequence[int]
) -> bool:
    """Whether the statistics of a file say that all of its rows are elements of a type, column by column."""
    places = {opened.metadata.schema.column(i).path: i for i in range(opened.metadata.num_columns)}
    for wanted, (field, name) in zip(kind.columns, columns, strict=False):
        if name not in places or field.name != wanted.column or wanted.type.kind not in _CHECKED:
            return False
        if opened.schema_arrow.field(name).type != arrow_type(wanted.type):
            return False
        for group in groups:
            found = opened.metadata.row_group(group).column(places[name]).statistics
            if not wanted.type.nullable and (found is None or not found.has_null_count or found.null_count):
                return False
            if wanted.type.kind is Kind.DATETIME and not _has_years_of_python(found):
                return False
    return len(columns) == len(kind.columns)


def _has_years_of_python(found: pq.Statistics | None) -> bool:
    if found is None or not found.has_min_max:
        return False
    try:
        return isinstance(found.min, datetime.datetime) and isinstance(found.max, datetime.datetime)
    except (OverflowError, ValueError):
        return False


def _filled(kind: pa.DataType, rows: int) -> pa.Array:
    """Values without a meaning, for columns that nobody asks for."""
    values = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}
    return pa.repeat(pa.scalar(values.get(kind, 0), kind), rows)


def _columns_read(opened: pq.ParquetFile, kind: RecordType) -> list[tuple[pa.Field, str | None]]:
    """The columns of a type as rows get them, each with its column of the file; decoding puts defaults in."""
    leaves = iter([opened.schema.column(i).physical_type for i in range(len(opened.schema))])
    given = [field.with_type(_in_utc(field.type, leaves)) for field in opened.schema_arrow]
    columns: list[tuple[pa.Field, str | None]] = []
    for field in kind.columns:
        wanted = arrow_type(field.type)
        name = _name_in_file([one.name for one in given], field.column, f"{kind.name}.{field.name}")
        if name is not None:
            same = [one for one in given if one.name == name]
            columns += [(one.with_name(field.column).with_type(_type_read(one.type, wanted)), name) for one in same]
        elif field.type.nullable and field.default is None:
            columns.append((pa.field(field.column, wanted), None))
    return columns


def _in_utc(given: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """The type of a column, given the stored types of its leaves: the oldest timestamps are in UTC, without a mark."""
    if pa.types.is_struct(given):
        return pa.struct([field.with_type(_in_utc(field.type, leaves)) for field in given])
    if pa.types.is_map(given):
        return pa.map_(_in_utc(given.key_type, leaves), _in_utc(given.item_type, leaves))
    if pa.types.is_list(given):
        return pa.list_(given.value_field.with_type(_in_utc(given.value_type, leaves)))
    is_old = next(leaves) == "INT96"
    return pa.timestamp(given.unit, "UTC") if is_old and pa.types.is_timestamp(given) else given


def _name_in_file(names: list[str], column: str, path: str) -> str | None:
    """The column of a file for one of the type; as in Spark, it does not matter how letters are cased."""
    if column in names:
        return column
    alike = [name for name in names if name.lower() == column.lower()]
    if len(alike) > 1:
        raise SourceError(
            "columns of a file differ by the case of letters alone",
            given=", ".join(alike),
            expected=f"one column for {path}",
            hint=f"name one of them {column}, or write the file with one of them",
        )
    return alike[0] if alike else None


def _type_read(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type that rows get for a column: the wanted one, where the file has another form of the same.

    Spark writes a time span as a number of microseconds, and notes what it is for itself alone. Decimals show how many
    digits their column has behind the point: as many in a batch with a malformed row as in one without.
    """
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        types = {field.name: field.type for field in wanted}
        return pa.struct(
            [field.with_type(_type_read(field.type, types.get(field.name, field.type))) for field in given]
        )
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        key, item = _type_read(given.key_type, wanted.key_type), _type_read(given.item_type, wanted.item_type)
        return pa.map_(given.key_field.with_type(key), given.item_field.with_type(item))
    if pa.types.is_list(given) and pa.types.is_list(wanted):
        return pa.list_(given.value_field.with_type(_type_read(given.value_type, wanted.value_type)))
    number = given.value_type if pa.types.is_dictionary(given) else given
    is_decimal = pa.types.is_decimal128(number) and pa.types.is_decimal128(wanted)
    if is_decimal and fits_decimal(number.precision, number.scale):
        return wanted
    return wanted if pa.types.is_int64(given) and pa.types.is_duration(wanted) else given


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type == wanted:
        return values
    # Numbers become time spans by a cast, at any depth.
    return values.cast(wanted)
