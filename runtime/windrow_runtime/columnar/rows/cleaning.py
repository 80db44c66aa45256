"""Takes Arrow batches of a source as columns of elements, where all records in them are well-formed."""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from windrow_runtime.codecs.arrow.decoding import schema_faults
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.columnar.array_types import Array, Rows

_FIRST_MICROSECOND: Final = -62_135_596_800_000_000  # of the year 1
_LAST_MICROSECOND: Final = 253_402_300_799_999_999  # of the year 9999
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = datetime.date.min.toordinal() - _EPOCH_DAY
_LAST_DAY: Final = datetime.date.max.toordinal() - _EPOCH_DAY


def clean_columns(batch: Rows, kind: RecordType) -> Rows | None:
    """The columns of a type's elements, in its order and of its Arrow types.

    Returns:
        None if a record may be malformed, or a column has to be made of defaults: then records are decoded one by one.
    """
    if schema_faults(batch.schema, kind):
        return None  # a cast may take what decoding refuses
    schema = arrow_schema(kind)
    columns: list[Array] = []
    for field, wanted in zip(kind.columns, schema, strict=True):
        place = batch.schema.get_field_index(field.column)
        if place < 0:
            return None
        column = batch.column(place)
        if column.null_count and not field.type.nullable:
            return None
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            return None  # Python knows where the clock is
        if column.type != wanted.type:
            try:
                column = column.cast(wanted.type)
            except pa.ArrowException:
                return None
        if field.type.kind in (Kind.DATETIME, Kind.DATE) and not _are_years_of_python(column):
            return None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _are_years_of_python(column: Array) -> bool:
    days = pa.types.is_date(column.type)
    found = pc.min_max(column.view(pa.int32() if days else pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    first, last = (_FIRST_DAY, _LAST_DAY) if days else (_FIRST_MICROSECOND, _LAST_MICROSECOND)
    return low is None or (low >= first and high <= last)
