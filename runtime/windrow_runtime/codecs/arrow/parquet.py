"""Reads and writes Parquet files with Arrow."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from windrow.errors import SourceError
from windrow.sources import MalformedRecord
from windrow_runtime.codecs import malformed
from windrow_runtime.codecs.arrow.decoding import batch_of, check_arrow_schema, column_names, decode_batch, is_list
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type, encode_batch
from windrow_runtime.codecs.arrow.spark_metadata import spark_metadata
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.text_files import unreadable
from windrow_runtime.codecs.unmatched import unmatched_columns
from windrow_runtime.codecs.value_type import ANY_JSON, COLLECTIONS, Kind, RecordField, ValueType
from windrow_runtime.origins import Parts, counted_from

# Any in this module: pyarrow has no types.

_ROWS_AT_ONCE: Final = 1 << 16
_TEXTS: Final = (Kind.STR, *ANY_JSON)


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Consecutive rows of a Parquet file, with the columns of a type; the first row of a file has the number 0."""

    rows: pa.RecordBatch
    record_type: RecordType
    file: str
    first: int
    unmatched: Mapping[str, str]
    """What to warn of, with the file: columns of no field, where a field has no column."""

    def decode(self) -> tuple[list[object], list[MalformedRecord], dict[str, str], Parts]:
        """The elements, the rows that do not fit their type, columns to warn of, and where the elements come from."""
        misfits: list[malformed.MalformedValue] = []
        with unreadable(
            self.file, f"texts of UTF-8 in the columns of {self.record_type}", pa.ArrowException, UnicodeDecodeError
        ):
            values = decode_batch(self.rows, self.record_type, misfits.append)
        describe = partial("{}, row {}".format, self.file)
        rows = [malformed.as_malformed(bad, describe(self.first + (bad.row or 0))) for bad in misfits]
        origin = counted_from(self.first, [bad.row or 0 for bad in misfits], describe)
        return values, rows, dict(self.unmatched), [(0, origin)]


UNREAD: Final = b"windrow.unread"
"""The key, in the metadata of a schema, of the names of columns that were not read, and have values of no meaning."""


def read_parquet(
    file: str,
    record_type: RecordType,
    part: int = 0,
    parts: int = 1,
    only: frozenset[str] | None = None,
    open_file: Callable[[str], Any] = str,
) -> Iterator[ParquetRows]:
    """Reads the rows of a file, with the columns of a type.

    If ``only`` names the columns that anybody asks for, the others are not read where the file says that their values
    are well-formed; they have the same value in all rows then, and ``UNREAD`` names them.

    Columns are found by name, whatever the case of its letters; the names of folders, as ``day=2026-01-31``, are no
    values. A file without a byte has no rows: somebody made it, and has not written it. A file is read in parts by its
    row groups. If it is no whole Parquet file, or its columns do not fit, it is a ``SourceError``. What Arrow opens is
    what ``open_file`` returns of the path: the path itself, or an open file where the file system is not mounted.
    """
    # Names that are no UTF-8 are found as late as they are asked for.
    with unreadable(file, f"a Parquet file of {record_type}", pa.ArrowException, UnicodeDecodeError):
        content = open_file(file)
        if not (os.path.getsize(file) if content == file else content.seek(0, os.SEEK_END)):
            return
        with pq.ParquetFile(content, coerce_int96_timestamp_unit="us") as opened:
            columns = _columns_read(opened, record_type)
            schema = pa.schema([field for field, _ in columns])
            check_arrow_schema(schema, record_type)
            unmatched = unmatched_columns(
                "the file", record_type.columns, column_names(opened.schema_arrow), any_case=True
            )
            to_warn_of = {} if unmatched is None else {unmatched.reason: file}
            groups = opened.num_row_groups
            begin, end = groups * part // parts, groups * (part + 1) // parts
            first = sum(opened.metadata.row_group(group).num_rows for group in range(begin))
            unread: frozenset[str] = frozenset()
            if only is not None and _is_well_formed(opened, columns, record_type, range(begin, end)):
                unread = frozenset(field.name for field, _ in columns) - only
                schema = schema.with_metadata({UNREAD: ",".join(sorted(unread)).encode()})
            names = [name for field, name in columns if name is not None and field.name not in unread]
            of_part = list(range(begin, end))
            batches = opened.iter_batches(_ROWS_AT_ONCE, row_groups=of_part, columns=names, use_threads=False)
            oldest = _int96_columns(opened, names)
            if oldest:
                batches = _with_nanoseconds(batches, content, oldest, of_part)
            for rows in batches:
                arrays = [
                    filled(field.type, rows.num_rows)
                    if field.name in unread
                    else pa.nulls(rows.num_rows, field.type)
                    if name is None
                    else _cast(rows.column(name), field.type)
                    for field, name in columns
                ]
                for index, array in enumerate(arrays):
                    # Some timestamps are finer than the type of their column.
                    schema = schema.set(index, schema.field(index).with_type(array.type))
                yield ParquetRows(batch_of(arrays, schema, rows.num_rows), record_type, file, first, to_warn_of)
                first += rows.num_rows


class ParquetWriter:
    """Writes the elements of one type to a Parquet file."""

    ending: Final = ".parquet"

    def __init__(self, record_type: RecordType) -> None:
        self._record_type = record_type

    def encode(self, values: Sequence[object]) -> pa.RecordBatch:
        """The rows of elements; raises an ``InvalidArgumentError`` if one of them is not of its type."""
        return encode_batch(values, self._record_type)

    def encode_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, as they are."""
        return rows

    def open(self, file: Any) -> None:
        """Make the file, which does not exist, by the path's method ``open``."""
        schema = arrow_schema(self._record_type)
        if self._record_type.root.contains(Kind.TIMEDELTA):
            # Parquet has no type for spans of time. They are numbers of microseconds, and each reader has its own note.
            schema = schema.with_metadata(spark_metadata(self._record_type))
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
    opened: pq.ParquetFile,
    columns: Sequence[tuple[pa.Field, str | None]],
    record_type: RecordType,
    groups: Sequence[int],
) -> bool:
    """Whether the statistics of a file say that all of its rows are elements of a type, column by column."""
    places = {opened.metadata.schema.column(i).path: i for i in range(opened.metadata.num_columns)}
    for wanted, (field, name) in zip(record_type.columns, columns, strict=False):
        if name not in places or field.name != wanted.column or wanted.type.kind not in _CHECKED:
            return False
        if opened.schema_arrow.field(name).type != arrow_type(wanted.type):
            return False
        for group in groups:
            stats = opened.metadata.row_group(group).column(places[name]).statistics
            if not wanted.type.nullable and (stats is None or not stats.has_null_count or stats.null_count):
                return False
            if wanted.type.kind is Kind.DATETIME and not _has_years_of_python(stats):
                return False
    return len(columns) == len(record_type.columns)


def _has_years_of_python(statistics: pq.Statistics | None) -> bool:
    if statistics is None or not statistics.has_min_max:
        return False
    try:
        return isinstance(statistics.min, datetime.datetime) and isinstance(statistics.max, datetime.datetime)
    except (OverflowError, ValueError):
        return False


def filled(arrow_type: pa.DataType, rows: int) -> pa.Array:
    """Makes filler values for columns that nobody reads."""
    if pa.types.is_list(arrow_type):
        return pa.array([[]] * rows, arrow_type)
    values = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}
    return pa.repeat(pa.scalar(values.get(arrow_type, 0), arrow_type), rows)


def _columns_read(opened: pq.ParquetFile, record_type: RecordType) -> list[tuple[pa.Field, str | None]]:
    """The columns of a type as rows get them, each with its column of the file; decoding puts defaults in."""
    leaves = iter([opened.schema.column(i) for i in range(len(opened.schema))])
    stored = [field.with_type(_meant(field.type, leaves)) for field in opened.schema_arrow]
    columns: list[tuple[pa.Field, str | None]] = []
    for field in record_type.columns:
        wanted = arrow_type(field.type)
        name = _name_in_file([one.name for one in stored], field.column, f"{record_type.name}.{field.name}")
        if name is not None:
            # Two columns of one name are refused when the schema is checked.
            same = [one for one in stored if one.name == name]
            columns += [(one.with_name(field.column).with_type(_type_read(one.type, field)), name) for one in same]
        elif field.type.nullable and field.default is None:
            columns.append((pa.field(field.column, wanted), None))
    return columns


def _meant(column_type: pa.DataType, leaves: Iterator[pq.ColumnSchema]) -> pa.DataType:
    """The type of a column by the types of its leaves in the file, which Arrow does not show.

    The oldest timestamps are in UTC, without a mark, and the members of an enumeration are texts.
    """
    if pa.types.is_struct(column_type):
        return pa.struct([field.with_type(_meant(field.type, leaves)) for field in column_type])
    if pa.types.is_map(column_type):
        return pa.map_(_meant(column_type.key_type, leaves), _meant(column_type.item_type, leaves))
    if is_list(column_type):
        item = _meant(column_type.value_type, leaves)
        return column_type if item == column_type.value_type else pa.list_(column_type.value_field.with_type(item))
    leaf = next(leaves)
    if leaf.physical_type == "INT96" and pa.types.is_timestamp(column_type):
        return pa.timestamp(column_type.unit, "UTC")
    return pa.string() if leaf.logical_type.type == "ENUM" and pa.types.is_binary(column_type) else column_type


def _name_in_file(names: list[str], column: str, path: str) -> str | None:
    """The column of a file for one of the type; as in Spark, it does not matter how letters are cased."""
    if column in names:
        return column
    alike = list(dict.fromkeys(name for name in names if name.lower() == column.lower()))
    if len(alike) > 1:
        raise SourceError(
            "columns of a file differ by the case of letters alone",
            given=", ".join(alike),
            expected=f"one column for {path}",
            hint=f"name one of them {column}, or write the file with one of them",
        )
    return alike[0] if alike else None


def _type_read(column_type: pa.DataType, field: RecordField) -> pa.DataType:
    """The type that rows get for a column: decimals show as many digits after the point as their type says."""
    wanted = arrow_type(field.type)
    number = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    is_decimal = pa.types.is_decimal(number) and field.type.kind is Kind.DECIMAL
    exact = is_decimal and field.type.holds_decimals(number.precision, number.scale)
    return wanted if exact else _with_texts(column_type, field.type)


def _with_texts(column_type: pa.DataType, value: ValueType) -> pa.DataType:
    """The type of a column with texts in the place of bytes where the record type asks for texts.

    Some writers leave out the note that bytes are a text. Spark and Flink read such bytes as the user's schema says.
    """
    if pa.types.is_struct(column_type):
        types = {field.column: field.type for field in value.columns}
        return pa.struct(
            [
                field.with_type(_with_texts(field.type, types[field.name])) if field.name in types else field
                for field in column_type
            ]
        )
    if pa.types.is_map(column_type) and value.kind is Kind.DICT:
        return pa.map_(*map(_with_texts, (column_type.key_type, column_type.item_type), value.arguments))
    if is_list(column_type) and value.kind in COLLECTIONS:
        item = _with_texts(column_type.value_type, value.arguments[0])
        return column_type if item == column_type.value_type else pa.list_(column_type.value_field.with_type(item))
    return pa.string() if pa.types.is_binary(column_type) and value.scalar_kind in _TEXTS else column_type


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    wanted = _with_units(wanted, values.type)
    if values.type == wanted:
        return values
    # A decoder says which texts are not UTF-8.
    return values.cast(options=pc.CastOptions(target_type=wanted, allow_invalid_utf8=True))


def _with_units(wanted: pa.DataType, stored: pa.DataType) -> pa.DataType:
    """A type with the units that timestamps have: a decoder says which of finer ones do not fit."""
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(stored):
        return pa.timestamp(stored.unit, wanted.tz)
    if pa.types.is_struct(wanted) and pa.types.is_struct(stored) and wanted.num_fields == stored.num_fields:
        pairs = zip(wanted, stored, strict=True)
        return pa.struct([field.with_type(_with_units(field.type, stored.type)) for field, stored in pairs])
    if pa.types.is_map(wanted) and pa.types.is_map(stored):
        return pa.map_(wanted.key_type, _with_units(wanted.item_type, stored.item_type))
    if is_list(wanted) and is_list(stored):
        item = _with_units(wanted.value_type, stored.value_type)
        return wanted if item == wanted.value_type else pa.list_(wanted.value_field.with_type(item))
    return wanted


def _int96_columns(opened: pq.ParquetFile, names: Sequence[str]) -> list[str]:
    """Finds the columns with timestamps of the oldest form, which have nanoseconds, also within lists and structs."""
    leaves = [opened.schema.column(index) for index in range(len(opened.schema))]
    oldest = [f"{leaf.path}." for leaf in leaves if leaf.physical_type == "INT96"]
    return [name for name in names if any(path.startswith(f"{name}.") for path in oldest)]


def _with_nanoseconds(
    batches: Iterator[pa.RecordBatch], content: Any, names: Sequence[str], groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Splits batches, and reads the rows whose timestamps are finer than microseconds again, with nanoseconds.

    Arrow cuts these off, or has no late years. Nanoseconds of 64 bits end in the year 2262, so other rows keep their
    microseconds.
    """
    with pq.ParquetFile(content, coerce_int96_timestamp_unit="ns") as opened:
        finer = opened.iter_batches(_ROWS_AT_ONCE, row_groups=groups, columns=list(names), use_threads=False)
        for batch, nanoseconds in zip(batches, finer, strict=True):
            is_finer = np.zeros(batch.num_rows, np.bool_)
            for name in names:
                is_finer |= _are_finer(batch.column(name), nanoseconds.column(name))
            begin = 0
            for end in [*(np.flatnonzero(np.diff(is_finer)) + 1).tolist(), batch.num_rows]:
                rows = batch.slice(begin, end - begin)
                if end > begin and is_finer[begin]:
                    for name in names:
                        index = rows.schema.get_field_index(name)
                        column = nanoseconds.column(name).slice(begin, end - begin)
                        rows = rows.set_column(index, pa.field(name, column.type), column)
                yield rows
                begin = end


def _are_finer(coarse: pa.Array, fine: pa.Array) -> Any:
    """Returns which rows have a timestamp that is finer than microseconds, by the same values in nanoseconds."""
    arrow_type = coarse.type
    if pa.types.is_timestamp(arrow_type):
        # The remainder is right even where the number of nanoseconds has more than 64 bits.
        whole, exact = (each.view(pa.int64()).fill_null(0).to_numpy() for each in (coarse, fine))
        return (exact - whole * np.int64(1000)) != 0
    is_finer = np.zeros(len(coarse), np.bool_)
    if pa.types.is_struct(arrow_type):
        for pair in zip(coarse.flatten(), fine.flatten(), strict=True):
            is_finer |= _are_finer(*pair)
    elif pa.types.is_map(arrow_type) or is_list(arrow_type):
        items = (coarse.items, fine.items) if pa.types.is_map(arrow_type) else (coarse.values, fine.values)
        counts = np.concatenate([[0], np.cumsum(_are_finer(*items))])[coarse.offsets.to_numpy()]
        is_finer = counts[1:] > counts[:-1]
    return is_finer
