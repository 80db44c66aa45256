"""Parquet files, read and written with Arrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow_runtime.codecs.arrow import check_arrow_schema, encode_batch
from windrow_runtime.codecs.arrow_types import arrow_type
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.text_files import unreadable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["check_parquet", "read_parquet", "write_parquet"]

_ROWS_AT_ONCE: Final = 1 << 16
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


def check_parquet() -> None:
    """Check that Parquet can be read and written here.

    Raises:
        UnsupportedOperationError: Without pyarrow.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UnsupportedOperationError(
            "Parquet files are read and written by pyarrow", expected="pyarrow", hint=install_hint("spark")
        ) from error


def read_parquet(file: str, kind: RecordType, part: int = 0, parts: int = 1) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with the columns of a type.

    It does not matter how letters of names are cased. A column that the file lacks is the name of a folder, as in
    ``day=2026-01-31``, or null. A file without a byte has no rows: somebody made it, and has not written it.

    Args:
        file: The path.
        kind: The type of the rows.
        part: Which part of the file is read, by row groups.
        parts: How many parts it has.

    Raises:
        SourceError: If it is no whole Parquet file, or if its columns do not fit.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with unreadable(file, f"a Parquet file of {kind}", pa.ArrowException):
        if not os.path.getsize(file):
            return
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            given = _typed(opened.schema_arrow, _types(opened), kind)
            there = _places(kind, given.names)
            values = {
                column: _value_of_folder(column, file) for column, name in there.items() if name is None
            }
            schema = _as_read(given, there, values, kind)
            check_arrow_schema(schema, kind)
            chosen = [name for name in there.values() if name is not None]
            groups = opened.num_row_groups
            mine = list(range(groups * part // parts, groups * (part + 1) // parts))
            for rows in opened.iter_batches(
                _ROWS_AT_ONCE, row_groups=mine, columns=chosen, use_threads=False
            ):
                yield _as_columns(rows, schema, there, values)


def write_parquet(values: Sequence[object], record_type: RecordType, file: Path) -> None:
    """Write elements to a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_batches([encode_batch(values, record_type)]), file)


def _places(kind: RecordType, names: list[str]) -> dict[str, str | None]:
    """The column of a file for each of the type; as in Spark, it does not matter how letters are cased."""
    folded = {name.lower(): name for name in names}
    return {
        field.column: field.column if field.column in names else folded.get(field.column.lower())
        for field in kind.columns
    }


def _types(opened: pq.ParquetFile) -> list[pa.DataType]:
    """The types of the columns; the oldest form of timestamps is in UTC, which Arrow does not say."""
    leaves = iter([opened.schema.column(i).physical_type for i in range(len(opened.schema))])
    return [_in_utc(field.type, leaves) for field in opened.schema_arrow]


def _in_utc(given: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    import pyarrow as pa

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
    import pyarrow as pa

    wanted = {field.column.lower(): arrow_type(field.type) for field in kind.columns}
    fields: list[pa.Field] = []
    for field, given in zip(schema, types, strict=True):
        target = wanted.get(field.name.lower(), given)
        number = given.value_type if pa.types.is_dictionary(given) else given
        spans = pa.types.is_int64(given) and pa.types.is_duration(target)
        decimals = (
            pa.types.is_decimal128(number) and pa.types.is_decimal128(target) and _widens(number, target)
        )
        fields.append(field.with_type(target if spans or decimals else given))
    return pa.schema(fields)


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether each decimal of a type has its place in another; one that has not is refused when it is decoded."""
    before_the_point = given.precision - given.scale
    return bool(given.scale <= wanted.scale and before_the_point <= wanted.precision - wanted.scale)


def _as_read(
    given: pa.Schema, there: dict[str, str | None], values: dict[str, str | None], kind: RecordType
) -> pa.Schema:
    """The columns that rows get, by the names that the type has for them."""
    import pyarrow as pa

    fields: list[pa.Field] = []
    for field in kind.columns:
        if there[field.column] is not None:
            fields += [one.with_name(field.column) for one in given if one.name == there[field.column]]
        elif values[field.column] is not None or (field.type.nullable and field.default is None):
            fields.append(pa.field(field.column, arrow_type(field.type)))
    return pa.schema(fields)


def _as_columns(
    rows: pa.RecordBatch, schema: pa.Schema, there: dict[str, str | None], values: dict[str, str | None]
) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [
        pa.array([values[field.name]] * rows.num_rows, pa.string()).cast(field.type)
        if there[field.name] is None
        else _cast(rows.column(there[field.name]), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if values.type == wanted:
        return values
    return values.view(wanted) if pa.types.is_duration(wanted) else values.cast(wanted)


def _value_of_folder(column: str, file: str) -> str | None:
    """What the name of a folder says about a column that a file lacks."""
    for part in file.split("/")[:-1]:
        name, found, text = part.partition("=")
        if found and name.lower() == column.lower() and text != _NO_VALUE:
            return unquote(text)
    return None
