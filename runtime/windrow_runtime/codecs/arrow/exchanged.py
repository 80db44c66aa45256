"""Exchanges Arrow data with other libraries, by the Arrow PyCapsule interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from windrow.errors import InvalidArgumentError, SourceError, WindrowError
from windrow.sources import MalformedRecord
from windrow_runtime.codecs import malformed
from windrow_runtime.codecs.arrow.decoding import check_arrow_schema, decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.origins import Parts, counted_from

# Any in this module: pyarrow has no types.

_LISTS: Final = ((types.is_list, pa.list_), (types.is_large_list, pa.large_list))
_ROWS_AT_ONCE: Final = 1 << 16
_ROWS_STORED: Final = 1 << 18
_BYTES_STORED: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Consecutive rows of Arrow data, with the columns of a type; ``origin`` and ``first`` describe rows."""

    rows: pa.RecordBatch
    record_type: RecordType
    origin: str
    first: int

    def decode(self) -> tuple[list[object], list[MalformedRecord], dict[str, str], Parts]:
        """Returns the elements, the rows that do not fit their type, and where the elements come from."""
        misfits: list[malformed.MalformedValue] = []
        values = decode_batch(self.rows, self.record_type, misfits.append)
        describe = partial("{}, row {}".format, self.origin)
        rows = [malformed.as_malformed(bad, describe(self.first + (bad.row or 0))) for bad in misfits]
        origin = counted_from(self.first, [bad.row or 0 for bad in misfits], describe)
        return values, rows, {}, [(0, origin)]


def arrow_rows(data: object, record_type: RecordType, origin: str, first: int) -> Iterator[ArrowRows]:
    """Yields the rows of Arrow data, whose first row has the number ``first``.

    Raises:
        InvalidArgumentError: If the data do not speak the interface.
        SourceError: If a column is missing, or cannot be decoded.
    """
    for batch in _batches(data):
        check_arrow_schema(batch.schema, record_type)
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield ArrowRows(batch.slice(start, _ROWS_AT_ONCE), record_type, origin, first)
            first += min(_ROWS_AT_ONCE, batch.num_rows - start)


def table_of_data(data: Any) -> pa.Table:
    """Returns Arrow data as a table.

    Raises:
        SourceError: If the rows cannot be taken from the library that has them.
    """
    with _taking(data):
        return _without_views(pa.table(data))


_FIRST: Final = b"windrow.first"
"""The key, in the metadata of a schema, of the number of the first row."""


def stored_rows(table: pa.Table, start: int, end: int) -> list[bytes]:
    """Returns rows as bytes, in portions, each with the number of its first row."""
    portions = []
    # A portion is one value of Spark's, which has less than 2 GiB.
    most = max(1, min(_ROWS_STORED, _BYTES_STORED * table.num_rows // max(1, table.nbytes)))
    for first in range(start, min(end, table.num_rows), most):
        portion = table.slice(first, min(most, end - first))
        portion = portion.replace_schema_metadata({_FIRST: str(first).encode()})
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, portion.schema) as writer:
            writer.write_table(portion)
        portions.append(stream.getvalue().to_pybytes())
    return portions


def read_stored(record_type: RecordType, origin: str, batches: Iterator[pa.RecordBatch]) -> Iterator[ArrowRows]:
    """Reads the portions of :func:`stored_rows`, each of which is a row."""
    for batch in batches:
        for payload in batch.column(0):
            with pa.ipc.open_stream(payload.as_buffer()) as reader:
                table = reader.read_all()
            yield from arrow_rows(table, record_type, origin, int(table.schema.metadata[_FIRST]))


def table_of(portions: Iterable[Any], record_type: RecordType) -> pa.Table:
    """Returns a table of portions, each of which is a list of elements or a record batch with the type's columns."""
    batches = [each if isinstance(each, pa.RecordBatch) else encode_batch(each, record_type) for each in portions]
    schema = arrow_schema(record_type)
    # A batch of a worker may have notes in its schema.
    return pa.Table.from_batches([batch.replace_schema_metadata(None) for batch in batches], schema)


def _batches(data: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        yield _without_views(data)
        return
    with _taking(data):
        if hasattr(data, "__arrow_c_stream__"):
            yield from map(_without_views, pa.RecordBatchReader.from_stream(data))
        elif hasattr(data, "__arrow_c_array__"):
            yield _without_views(pa.record_batch(data))
        else:
            raise InvalidArgumentError(
                "Arrow data is handed over by the Arrow PyCapsule interface",
                given=data,
                expected="an object with __arrow_c_stream__ or __arrow_c_array__, such as a pyarrow.RecordBatch",
            )


def _without_views(rows: Any) -> Any:
    """Returns a table or batch whose texts and bytes are no views, as those of polars are: many kernels take none."""
    schema = pa.schema([field.with_type(_without_view(field.type)) for field in rows.schema], rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _without_view(arrow_type: pa.DataType) -> pa.DataType:
    if types.is_string_view(arrow_type):
        return pa.string()
    if types.is_binary_view(arrow_type):
        return pa.binary()
    if types.is_dictionary(arrow_type):
        return pa.dictionary(arrow_type.index_type, _without_view(arrow_type.value_type), arrow_type.ordered)
    if types.is_struct(arrow_type):
        return pa.struct([field.with_type(_without_view(field.type)) for field in arrow_type])
    if types.is_map(arrow_type):
        return pa.map_(_without_view(arrow_type.key_type), _without_view(arrow_type.item_type), arrow_type.keys_sorted)
    for is_list, make in _LISTS:
        if is_list(arrow_type):
            return make(arrow_type.value_field.with_type(_without_view(arrow_type.value_type)))
    return arrow_type


@contextmanager
def _taking(data: Any) -> Iterator[None]:
    try:
        yield
    except WindrowError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        # Pandas refuses two columns of one name, and Arrow ints of pandas that have more than 64 bits.
        raise SourceError(
            "Arrow data cannot be taken",
            given=f"{type(data).__name__}: {' '.join(str(error).split())}",
            expected="rows, as a record batch, a table or a stream of record batches",
        ) from error
