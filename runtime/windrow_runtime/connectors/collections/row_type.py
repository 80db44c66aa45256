"""Takes the rows of Arrow data for a source, and derives their type from the columns where none is given."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from keyword import iskeyword
from types import GenericAlias
from typing import Annotated, Any, Final

import pyarrow as pa
from pyarrow import types

from windrow import DecimalType
from windrow.errors import InvalidArgumentError
from windrow.sources import ArrowSource
from windrow_runtime.codecs.arrow.decoding import check_arrow_schema, is_list, plain
from windrow_runtime.codecs.arrow.exchanged import table_of_data
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType

# Any in this module: pyarrow has no types.

_SCALARS: Final = (
    (types.is_null, type(None)),
    (types.is_boolean, bool),
    (types.is_integer, int),
    (types.is_floating, float),
    (types.is_string, str),
    (types.is_large_string, str),
    (types.is_binary, bytes),
    (types.is_large_binary, bytes),
    (types.is_date, datetime.date),
    (types.is_timestamp, datetime.datetime),
    (types.is_duration, datetime.timedelta),
)
_UNNAMED_INDEX: Final = "__index_level_"
"""How the columns begin in which pandas hands over an index without a name."""


class _UnknownTypeError(Exception):
    """A column has values for which there is no type of elements; the argument names them."""


def table_of_source(source: ArrowSource[Any]) -> pa.Table:
    """Returns the rows of a source of Arrow data, which are taken from the library once.

    Raises:
        SourceError: If they cannot be taken.
    """
    if source.table is None:
        source.table = table_of_data(source.data)
    return source.table


def rows_of_source(source: ArrowSource[Any]) -> tuple[RecordType, pa.Table]:
    """Returns the type of the rows of a source of Arrow data, and the rows.

    Raises:
        SourceError: If a column is missing, or cannot be decoded.
    """
    element_type = record_type(source.record_type).in_timezone(source.timezone)
    table = table_of_source(source)
    check_arrow_schema(table.schema, element_type)
    return element_type, table


def row_type_of(source: ArrowSource[Any]) -> type[Any]:
    """Derives a frozen dataclass ``Row`` from the columns of a source, whose data are taken from the library.

    A field may be None if its column has a null. Equal fields make one class.

    Raises:
        InvalidArgumentError: If a column has no name of a field, or a type that elements cannot have.
        SourceError: If the data cannot be taken.
    """
    table = table_of_source(source)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    names = [name for name in table.column_names if not name.startswith(_UNNAMED_INDEX)]
    unfit = [name for name in names if not name.isidentifier() or iskeyword(name) or names.count(name) > 1]
    if unfit or not names:
        raise InvalidArgumentError(
            "the type of the rows cannot be derived: columns have no names of fields",
            given=", ".join(dict.fromkeys(map(repr, unfit))) or "no column",
            expected="different names that are identifiers of Python",
            hint="rename the columns; or give a record type, such as a TypedDict, whose keys are any names",
        )
    fields, unknown = [], []
    for name in names:
        try:
            fields.append((name, _column_type(columns[name].chunks, columns[name].type, name)))
        except _UnknownTypeError as error:
            unknown.append(str(error))
    if unknown:
        raise InvalidArgumentError(
            "the type of the rows cannot be derived: elements have no values of some columns",
            given=", ".join(unknown),
            expected="numbers, texts, bytes, bools, dates, timestamps, durations, and lists, structs and maps of these",
            hint="cast or drop these columns; or give a record type, whose fields are the columns to read",
        )
    return _row_class("Row", tuple(fields))


def _column_type(chunks: Iterable[pa.Array], arrow_type: pa.DataType, path: str) -> Any:
    """The type of the values of a column, or of the values within one."""
    arrays = [plain(chunk) for chunk in chunks]
    if arrays:
        arrow_type = arrays[0].type
    else:
        arrow_type = plain(pa.nulls(0, arrow_type)).type
    present = [array.drop_null() for array in arrays]
    value = _value_type(present, arrow_type, path)
    has_nulls = any(array.null_count for array in arrays)
    return value | None if has_nulls else value


def _value_type(arrays: list[pa.Array], arrow_type: pa.DataType, path: str) -> Any:
    if types.is_struct(arrow_type):
        fields = [
            (field.name, _column_type([array.field(number) for array in arrays], field.type, f"{path}.{field.name}"))
            for number, field in enumerate(arrow_type)
        ]
        names = [name for name, _ in fields]
        if len({*names}) < len(names) or not all(name.isidentifier() and not iskeyword(name) for name in names):
            raise _UnknownTypeError(f"{path}: {arrow_type}")
        return _row_class(path.rpartition(".")[2].title().replace("_", ""), tuple(fields))
    if types.is_map(arrow_type):
        keys = _column_type([array.keys for array in arrays], arrow_type.key_type, f"{path}{{key}}")
        items = _column_type([array.items for array in arrays], arrow_type.item_type, f"{path}{{}}")
        return GenericAlias(dict, (keys, items))
    if is_list(arrow_type):
        return GenericAlias(
            list, (_column_type([array.flatten() for array in arrays], arrow_type.value_type, f"{path}[]"),)
        )
    if types.is_decimal(arrow_type) and arrow_type.precision <= 38:
        return Annotated[decimal.Decimal, DecimalType(arrow_type.precision, arrow_type.scale)]
    annotation = next((python_type for is_kind, python_type in _SCALARS if is_kind(arrow_type)), None)
    if annotation is None:
        raise _UnknownTypeError(f"{path}: {arrow_type}")
    return annotation


# Any: the fields have types of every form.
@lru_cache(maxsize=1024)
def _row_class(name: str, fields: tuple[tuple[str, Any], ...]) -> type[Any]:
    """The class of records with some fields.

    Classes of other fields have another module, as values between workers name their classes by module and name. No
    such module exists, so that Spark sends the class by value; that would lose slots.
    """
    row_class = dataclasses.make_dataclass(name, fields, frozen=True)
    row_class.__module__ = f"rows_{blake2b(repr(fields).encode(), digest_size=8).hexdigest()}"
    return row_class
