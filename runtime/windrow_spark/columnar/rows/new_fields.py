"""Fits stored columns of records to a record class that has got new fields since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.arrow.encoding import arrow_type, encode_batch
from windrow_runtime.codecs.value_type import RecordField, RecordType
from windrow_spark.storage.stored_classes import default_makers

Defaults: TypeAlias = tuple[tuple[str, pa.Array], ...]
"""The columns of a record's fields that have a default, each with an array of this one value."""

NO_DEFAULTS: Final[Defaults] = ()


def defaults_of(element: RecordType) -> Defaults:
    """Encodes the defaults of a record class, as far as stored objects get them, too.

    A default that the values of a field do not admit is none. None always is one: a column may hold it.
    """
    if element.single:
        return NO_DEFAULTS
    makers = default_makers(element.root.python_type)
    # A null stands for a key that is absent.
    makers |= {field.name: lambda: None for field in element.root.fields if field.absent_allowed}
    fields = [field for field in element.root.fields if field.name in makers]
    columns = [(field.column, _encoded(field, makers[field.name]())) for field in fields]
    return tuple([(name, column) for name, column in columns if column is not None])


def _encoded(field: RecordField, default: object) -> pa.Array | None:
    # Values that may be None are one column, also if they are records.
    value = replace(field.type, nullable=True)
    try:
        return encode_batch(
            [default], RecordType(None, field.name, value, (RecordField("value", "value", value),))
        ).column(0)
    except InvalidArgumentError:
        return None


def stored_type(element: RecordType) -> RecordType:
    """Returns the type of stored elements: those that lacked a field whose default is None have None there.

    A map that always sets such a field makes elements without None.
    """
    makers = {} if element.single else default_makers(element.root.python_type)
    nones = {name for name, make in makers.items() if make() is None}
    if not nones:
        return element
    types = [replace(field.type, nullable=field.type.nullable or field.name in nones) for field in element.columns]
    fields = tuple([replace(field, type=kind) for field, kind in zip(element.columns, types, strict=True)])
    return replace(element, root=replace(element.root, fields=fields), columns=fields)


def fitted(column: pa.Array, arrow_type: pa.DataType, defaults: Defaults) -> pa.Array | None:
    """Returns a column of records, or of lists of records, with the fields of a type; None if it lacks others."""
    if column.type == arrow_type:
        return column
    if pa.types.is_list(column.type) and pa.types.is_list(arrow_type):
        items = fitted(column.values, arrow_type.value_type, defaults)
        if items is None:
            return None
        return pa.Array.from_buffers(
            arrow_type, len(column), column.buffers()[:2], offset=column.offset, children=[items]
        )
    if not (pa.types.is_struct(column.type) and pa.types.is_struct(arrow_type)):
        return None
    stored, new = {field.name: field.type for field in column.type}, dict(defaults)
    types = {name: default.type for name, default in defaults} | stored
    if any(types.get(field.name) != field.type for field in arrow_type) or not stored.keys() <= set(arrow_type.names):
        return None
    first = pa.array(np.zeros(len(column), np.int64))
    columns = [column.field(name) if name in stored else new[name].take(first) for name in arrow_type.names]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=column.is_null())


def narrowed(data_type: pa.DataType, element: RecordType, names: Sequence[str]) -> pa.DataType:
    """Returns a type of state as it was when the element's class had only some of its fields, in another order.

    It is the type as it is now where a field that is new has no default: what is stored does not fit it then.
    """
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(narrowed(data_type.value_type, element, names)))
    fields = {field.name: field for field in element.root.fields}
    defaults = dict(defaults_of(element))
    lacking = [fields[name].column for name in fields.keys() - set(names)]
    if data_type != arrow_type(element.root) or not fields.keys() >= set(names) or not defaults.keys() >= set(lacking):
        return data_type
    return pa.struct([pa.field(fields[name].column, arrow_type(fields[name].type)) for name in names])
