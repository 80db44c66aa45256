"""Parquet files, read and written with Arrow."""

from __future__ import annotations

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
from windrow_runtime.codecs.arrow.batches import arrow_schema, check_arrow_schema, decode_batch, encode_batch
from windrow_runtime.codecs.arrow.types import arrow_type
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.text_files import unreadable
from windrow_runtime.codecs.value_type import fits_decimal

_ROWS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Consecutive rows of a Parquet file.

    Attributes:
        rows: The rows, with the columns of a type.
        file: The path of the file.
        first: The number of the first of them in the file; the first row of a file has the number 0.
    """

    rows: pa.RecordBatch
    file: str
    first: int

    def decode(self, kind: RecordType) -> tuple[list[object], list[MalformedRecord]]:
        """The elements, and the rows that do not fit their type."""
        found: list[malformed.MalformedRecord] = []
        values = decode_batch(self.rows, kind, found.append)
        return values, [malformed.as_malformed(bad, f"{self.file}, row {self.first + (bad.row or 0)}") for bad in found]


def read_parquet(file: str, kind: RecordType, part: int = 0, parts: int = 1) -> Iterator[ParquetRows]:
    """Reads the rows of a file, with the columns of a type.

    Columns are found by name, whatever the case of its letters. A column that the file lacks has the default of its
    field, or null; the names of folders, as ``day=2026-01-31``, are no values. A file without a byte has no rows:
    somebody made it, and has not written it.

    Args:
        file: The path.
        kind: The type of the rows.
        part: Which part of the file is read, by row groups.
        parts: How many parts it has.

    Raises:
        SourceError: If it is no whole Parquet file, or if its columns do not fit.
    """
    with unreadable(file, f"a Parquet file of {kind}", pa.ArrowException):
        if not os.path.getsize(file):
            return
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            given = _typed(opened.schema_arrow, _types(opened), kind)
            there = _places(kind, given.names)
            schema = _as_read(given, there, kind)
            check_arrow_schema(schema, kind)
            chosen = [name for name in there.values() if name is not None]
            groups = opened.num_row_groups
            begin, end = groups * part // parts, groups * (part + 1) // parts
            first = sum(opened.metadata.row_group(group).num_rows for group in range(begin))
            for rows in opened.iter_batches(
                _ROWS_AT_ONCE, row_groups=list(range(begin, end)), columns=chosen, use_threads=False
            ):
                yield ParquetRows(_as_columns(rows, schema, there), file, first)
                first += rows.num_rows


class ParquetWriter:
    """Writes the elements of one type to a Parquet file.

    Args:
        kind: The type.
    """

    ending: Final = ".parquet"

    def __init__(self, kind: RecordType) -> None:
        self._kind = kind

    def encode(self, values: Sequence[object]) -> pa.RecordBatch:
        """The rows of elements.

        Raises:
            InvalidArgumentError: If an element is not of its type.
        """
        return encode_batch(values, self._kind)

    def open(self, file: Path) -> None:
        """Make the file."""
        self._writer = pq.ParquetWriter(file, arrow_schema(self._kind), compression="snappy")

    def append(self, content: pa.RecordBatch) -> int:
        """Write rows; gives their size in bytes."""
        self._writer.write_batch(content)
        return int(content.nbytes)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _places(kind: RecordType, names: list[str]) -> dict[str, str | None]:
    """The column of a file for each of the type; as in Spark, it does not matter how letters are cased.

    Raises:
        SourceError: If several columns differ from one of the type by the case of letters alone.
    """
    found: dict[str, str | None] = {}
    for field in kind.columns:
        alike = [name for name in names if name.lower() == field.column.lower()]
        if field.column in names:
            alike = [field.column]
        if len(alike) > 1:
            raise SourceError(
                "columns of a file differ by the case of letters alone",
                given=", ".join(alike),
                expected=f"one column for {kind.name}.{field.name}",
                hint=f"name one of them {field.column}, or write the file with one of them",
            )
        found[field.column] = alike[0] if alike else None
    return found


def _types(opened: pq.ParquetFile) -> list[pa.DataType]:
    """The types of the columns; the oldest form of timestamps is in UTC, which Arrow does not say."""
    leaves = iter([opened.schema.column(i).physical_type for i in range(len(opened.schema))])
    return [_in_utc(field.type, leaves) for field in opened.schema_arrow]


def _in_utc(given: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    if pa.types.is_struct(given):
        return pa.struct([field.with_type(_in_utc(field.type, leaves)) for field in given])
    if pa.types.is_map(given):
        return pa.map_(_in_utc(given.key_type, leaves), _in_utc(given.item_type, leaves))
    if pa.types.is_list(given):
        return pa.list_(given.value_field.with_type(_in_utc(given.value_type, leaves)))
    is_old = next(leaves) == "INT96"
    return pa.timestamp(given.unit, "UTC") if is_old and pa.types.is_timestamp(given) else given


def _typed(schema: pa.Schema, types: Sequence[pa.DataType], kind: RecordType) -> pa.Schema:
    """The columns of a file as a type has them, where another form of theirs means the same.

    Spark writes a time span as a number of microseconds, and notes what it is for itself alone. Decimals show how many
    digits their column has behind the point: as many in a batch with a malformed row as in one without.
    """
    wanted = {field.column.lower(): arrow_type(field.type) for field in kind.columns}
    fields: list[pa.Field] = []
    for field, given in zip(schema, types, strict=True):
        target = wanted.get(field.name.lower(), given)
        number = given.value_type if pa.types.is_dictionary(given) else given
        spans = pa.types.is_int64(given) and pa.types.is_duration(target)
        decimals = (
            pa.types.is_decimal128(number)
            and pa.types.is_decimal128(target)
            and fits_decimal(number.precision, number.scale)
        )
        fields.append(field.with_type(target if spans or decimals else given))
    return pa.schema(fields)


def _as_read(given: pa.Schema, there: dict[str, str | None], kind: RecordType) -> pa.Schema:
    """The columns that rows get, by the names that the type has for them.

    A column that the file lacks is one of nulls, unless its field has a default: decoding puts that in its place.
    """
    fields: list[pa.Field] = []
    for field in kind.columns:
        if there[field.column] is not None:
            fields += [one.with_name(field.column) for one in given if one.name == there[field.column]]
        elif field.type.nullable and field.default is None:
            fields.append(pa.field(field.column, arrow_type(field.type)))
    return pa.schema(fields)


def _as_columns(rows: pa.RecordBatch, schema: pa.Schema, there: dict[str, str | None]) -> pa.RecordBatch:
    columns = [
        pa.nulls(rows.num_rows, field.type)
        if there[field.name] is None
        else _cast(rows.column(there[field.name]), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type == wanted:
        return values
    return values.view(wanted) if pa.types.is_duration(wanted) else values.cast(wanted)
