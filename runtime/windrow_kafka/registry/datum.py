"""Converts values to plain ones, of which Arrow makes columns: records become dicts, and dicts lists of entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from windrow_runtime.codecs.malformed import UnfitError
from windrow_runtime.codecs.value_type import RecordField, RecordType

# Any in this module: data are of every type.

Convert: TypeAlias = Callable[[Any], Any]


def mapped(convert: Convert, *, optional: bool) -> Convert:
    """Returns a function that leaves None as it is."""
    return (lambda value: None if value is None else convert(value)) if optional else convert


def each_of(convert: Convert) -> Convert:
    """Returns a function that converts each value of a list."""
    return lambda values: list(map(convert, values))


def required(convert: Convert | None, path: str) -> Convert:
    """Returns a function that refuses None."""

    def check(value: Any) -> Any:
        if value is None:
            raise UnfitError(path, "null in a required field")
        return value if convert is None else convert(value)

    return check


def record_converter(converters: Sequence[tuple[str, Convert]], missing: Sequence[tuple[str, Any]]) -> Convert | None:
    """Returns a function that converts fields of a record in place, and adds missing ones; None: there are none."""
    if not converters and not missing:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for column, of_field in converters:
            record[column] = of_field(record[column])
        record.update(missing)
        return record

    return convert


def plain_default(field: RecordField) -> Any:
    """The default of a field as a plain value; None where it is optional and has none."""
    if field.default is None:
        return None
    return plain_values(
        [field.default()], RecordType(None, field.name, field.type, (RecordField("value", "value", field.type),))
    )[0]


def plain_values(values: Sequence[Any], record_type: RecordType) -> list[Any]:
    """Makes plain values of elements; an ``InvalidArgumentError`` where one is not of its type."""
    from windrow_runtime.codecs.arrow.encoding import encode_batch

    return plain_rows(encode_batch(values, record_type), record_type)


def plain_rows(rows: Any, record_type: RecordType) -> list[Any]:
    """Makes plain values of the rows of an Arrow batch of elements."""
    values: list[Any] = (rows.column(0) if record_type.single else rows.to_struct_array()).to_pylist()
    return values
