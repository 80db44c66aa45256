"""Elements as Arrow record batches.

Both ways work column by column: a batch of records becomes one list per field, a list becomes one Arrow
array, and back. Nothing is converted cell by cell, except to find the record at fault once a batch has
failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.arrow.decoding import decode_rows, schema_faults
from windrow_runtime.codecs.arrow.encoding import encode_columns
from windrow_runtime.codecs.arrow.types import arrow_fields
from windrow_runtime.codecs.malformed import MalformedRecord, UnfitError, columns_error, misfit, short_repr
from windrow_runtime.codecs.record_type import RecordType


def arrow_schema(record_type: RecordType) -> pa.Schema:
    """The Arrow schema of a record type's columns, as Spark has it.

    All columns are nullable, as in every Spark table that was read from files; the decoder checks nulls
    record by record.
    """
    return pa.schema(arrow_fields(record_type))


def encode_batch(values: Sequence[object], record_type: RecordType) -> pa.RecordBatch:
    """A record batch of elements.

    Args:
        values: Elements of the record type.
        record_type: Their type.

    Raises:
        InvalidArgumentError: An element, or a part of it, is not of its type; the message names the field,
            what it held and what it should hold.
    """
    try:
        arrays = encode_columns(values, record_type)
    except Exception as error:
        raise _encoding_error(values, record_type, error) from error
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(record_type))


def _encoding_error(values: Sequence[object], record_type: RecordType, first: Exception) -> InvalidArgumentError:
    """Finds the first record at fault by halving, and says what is wrong with it."""
    low, high = 0, len(values)
    fault = first
    while high - low > 1:
        middle = (low + high) // 2
        try:
            encode_columns(values[low:middle], record_type)
            low = middle
        except Exception as error:  # pyarrow and attributes of the user's may raise anything, and it marks the half
            high = middle
            fault = error
    record = values[low] if low < len(values) else None
    try:
        encode_columns(values[low:high], record_type)
    except Exception as error:
        fault = error
    if isinstance(fault, UnfitError):
        return misfit(record, fault, record_type.name)
    return InvalidArgumentError(
        f"a value cannot be written to a column: {type(fault).__name__}: {fault}",
        given=short_repr(record),
        expected=record_type.name,
        where=record_type.name,
    )


def check_arrow_schema(schema: pa.Schema, record_type: RecordType) -> None:
    """Checks that batches with a schema can be decoded.

    Columns that the record type does not have are ignored, a column may be missing where its field has a
    default or is Optional, and narrower numbers are widened.

    Raises:
        SourceError: Columns are missing or have other types; the message lists all of them.
    """
    faults = schema_faults(schema, record_type)
    if faults:
        raise columns_error(
            record_type.name,
            faults,
            given=", ".join(f"{field.name}: {field.type}" for field in schema),
            expected=", ".join(f"{field.column}: {field.type}" for field in record_type.columns),
            hint="correct the columns or the record type; a field that is Optional or has a default needs no column",
        )


def decode_batch(
    batch: pa.RecordBatch, record_type: RecordType, on_error: Callable[[MalformedRecord], None] | None = None
) -> list[object]:
    """The elements of a record batch.

    Datetimes come back in UTC; a column of timestamps without a zone fits where the type says where its clock is.

    Args:
        batch: The rows; columns are found by name.
        record_type: The type of the elements.
        on_error: Called for each row that does not fit, in the order of the rows, after the others were
            decoded. Such rows are missing from the answer; ``MalformedRecord.row`` says which.

    Returns:
        The elements, in the order of the rows.

    Raises:
        MalformedRecordError: A row does not fit and there is no ``on_error``.
        SourceError: The columns do not fit the record type.
    """
    check_arrow_schema(batch.schema, record_type)
    values, malformed = decode_rows(batch, record_type, stop_at_first=on_error is None)
    if malformed and on_error is None:
        raise malformed[0].error()
    if on_error is not None:
        for record in malformed:
            on_error(record)
    return values
