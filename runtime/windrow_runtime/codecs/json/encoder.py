"""Elements as JSON lines."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable
from typing import SupportsFloat, SupportsIndex

from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.records import record_columns
from windrow_runtime.codecs.text_forms import FORMATTERS
from windrow_runtime.codecs.value_type import COLLECTIONS, INT_MAX, INT_MIN, Kind, RecordShape, RecordType, ValueType

Writer = Callable[[object], object]


class JsonEncoder:
    """Writes elements of one type as JSON lines that :class:`JsonDecoder` reads back.

    Args:
        record_type: The type of the elements.
    """

    def __init__(self, record_type: RecordType) -> None:
        self._name = record_type.name
        self._write = json_writer(record_type.root, record_type.name)
        self._dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

    def encode(self, value: object) -> str:
        """One element as a JSON text without line breaks.

        Raises:
            InvalidArgumentError: The element, or a part of it, is not of its type.
        """
        try:
            return self._dump(self._write(value))
        except UnfitError as error:
            raise misfit(value, error) from error


def json_writer(value: ValueType, path: str) -> Writer:
    """Makes a function from values of a type to what ``json`` takes; the path names the value in errors."""
    return checked_writer(value, path, _valid_writer(value, path))


def checked_writer(value: ValueType, path: str, write: Writer) -> Writer:
    """A writer that refuses values of another class with an ``UnfitError``, and lets ``None`` through where it may."""

    def checked(given: object) -> object:
        if given is None:
            if not value.nullable:
                raise UnfitError(path, "None in a field that is not Optional", str(value))
            return None
        if type(given) is not value.python_type and not value.admits(type(given)):
            raise UnfitError(path, f"{short_repr(given)} is a {type(given).__name__}", str(value))
        return write(given)

    return checked


def _valid_writer(value: ValueType, path: str) -> Writer:
    """A writer of values that are of the right class and not ``None``."""
    kind = value.kind
    if kind is Kind.RECORD:
        return _record_writer(value, path)
    if kind is Kind.TUPLE:
        return _tuple_writer(value, path)
    if kind is Kind.DICT:
        return _dict_writer(value, path)
    if kind in COLLECTIONS:
        return _list_writer(value, path)
    if kind is Kind.ENUM:
        return lambda given: getattr(given, "_value_")  # noqa: B009 - a class may shadow the value attribute
    if kind in FORMATTERS:
        return _text_writer(value, path)
    if kind is Kind.INT:
        return _int_writer(value, path)
    if kind is Kind.FLOAT:
        return _write_float
    if kind is Kind.BOOL:
        return bool
    return _str_writer(value, path) if kind is Kind.STR else lambda given: given


def _int_writer(value: ValueType, path: str) -> Writer:
    def write(given: object) -> object:
        # numpy's integers are let in as well.
        number = operator.index(given) if isinstance(given, SupportsIndex) else INT_MAX + 1
        if not INT_MIN <= number <= INT_MAX:
            raise UnfitError(path, f"{short_repr(given)} does not fit 64 bits", str(value))
        return number

    return write


def _write_float(given: object) -> object:
    number = float(given) if isinstance(given, SupportsFloat) else math.nan
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _str_writer(value: ValueType, path: str) -> Writer:
    def write(given: object) -> object:
        text = str.__str__(given) if isinstance(given, str) else ""
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UnfitError(path, f"{short_repr(given)} has half a surrogate pair", str(value)) from None
        return text

    return write


def _text_writer(value: ValueType, path: str) -> Writer:
    text_of = FORMATTERS[value.kind]

    def write(given: object) -> object:
        try:
            return text_of(given)
        except (ValueError, OverflowError) as error:
            raise UnfitError(path, f"{short_repr(given)}: {error}", str(value)) from None

    return write


def _list_writer(value: ValueType, path: str) -> Writer:
    write_element = json_writer(value.arguments[0], f"{path}[]")
    return lambda given: [write_element(element) for element in given] if isinstance(given, Iterable) else []


def _tuple_writer(value: ValueType, path: str) -> Writer:
    parts = [json_writer(part, f"{path}[{i}]") for i, part in enumerate(value.arguments)]

    def write(given: object) -> object:
        if not isinstance(given, tuple) or len(given) != len(parts):
            raise UnfitError(path, f"{short_repr(given)} is no tuple of {len(parts)}", str(value))
        return [write_part(element) for write_part, element in zip(parts, given, strict=True)]

    return write


def _dict_writer(value: ValueType, path: str) -> Writer:
    write_key = json_writer(value.arguments[0], f"{path}{{key}}")
    write_item = json_writer(value.arguments[1], f"{path}{{}}")

    def write(given: object) -> object:
        if not isinstance(given, dict):
            return {}
        return {str(write_key(key)): write_item(item) for key, item in given.items()}

    return write


def _record_writer(value: ValueType, path: str) -> Writer:
    if value.shape is RecordShape.TYPED_DICT:
        return _typed_dict_writer(value, path)
    writers = [(field.name, field.column, json_writer(field.type, f"{path}.{field.name}")) for field in value.fields]
    return lambda given: {column: write_field(getattr(given, name)) for name, column, write_field in writers}


def _typed_dict_writer(value: ValueType, path: str) -> Writer:
    writers = {field.name: (field.column, json_writer(field.type, f"{path}.{field.name}")) for field in value.fields}

    def write(given: object) -> object:
        record_columns([given], value, path)  # refuses missing and unknown keys
        written: dict[str, object] = {}
        for name, item in given.items() if isinstance(given, dict) else ():
            column, write_field = writers[name]
            written[column] = write_field(item)
        return written

    return write
