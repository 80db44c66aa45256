"""Adds columns with one value in all rows, for fields that the file of the rows does not hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_type, encode_batch
from windrow_runtime.codecs.value_type import Field, RecordType

# Any: pyarrow has no types.


def with_constants(
    rows: pa.RecordBatch, kind: RecordType, fields: Collection[Field], values: Mapping[str, object]
) -> pa.RecordBatch:
    """Adds the columns of fields that rows lack; a field without a value is null."""
    columns: list[Any] = []
    arrays: list[Any] = []
    for field in kind.columns:
        if field not in fields:
            for index in rows.schema.get_all_field_indices(field.column):
                columns.append(rows.schema.field(index))
                arrays.append(rows.column(index))
            continue
        wanted = arrow_type(field.type)
        array = pa.nulls(rows.num_rows, wanted)
        if values.get(field.name) is not None:
            single = RecordType(None, field.name, field.type, (Field("value", "value", field.type),))
            array = pa.repeat(encode_batch([values[field.name]], single).column(0)[0], rows.num_rows)
        columns.append(pa.field(field.column, wanted))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns, metadata=rows.schema.metadata))
