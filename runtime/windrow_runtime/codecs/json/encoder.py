"""Encodes elements as JSON lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from json.encoder import encode_basestring
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final, TypeAlias

from windrow_runtime.codecs.exact import as_plain, exactly
from windrow_runtime.codecs.formatted_times import format_writer
from windrow_runtime.codecs.json.any_json import JsonText, checked_text, dump, dump_of, plain_json
from windrow_runtime.codecs.malformed import UnfitError, misfit, short_repr
from windrow_runtime.codecs.records import record_columns
from windrow_runtime.codecs.text_forms import TEXT_FORMS
from windrow_runtime.codecs.value_type import COLLECTIONS, INT_MAX, INT_MIN, Kind, RecordShape, RecordType, ValueType

Writer = Callable[[object], object]
"""Makes what :func:`~windrow_runtime.codecs.json.any_json.dump_of` makes a text of."""

_CONTAINERS = (list, tuple, set, frozenset)


class JsonEncoder:
    """Writes elements of one type as JSON lines that :class:`JsonDecoder` reads back."""

    def __init__(self, record_type: RecordType) -> None:
        self._name = record_type.name
        self._write = json_writer(record_type.root, record_type.name)
        self._dump = dump_of(record_type.root)

    def encode(self, value: object) -> str:
        """Encodes an element as a JSON text of one line; raises ``InvalidArgumentError`` if it does not fit."""
        try:
            return self._dump(self._write(value))
        except UnfitError as error:
            raise misfit(value, error, self._name) from error


def json_writer(value: ValueType, path: str) -> Writer:
    """Makes a function from values of a type to what ``json`` takes; the path names the value in errors."""
    return checked_writer(value, path, _MAKERS[value.kind](value, path))


def checked_writer(value: ValueType, path: str, write: Writer) -> Writer:
    """A writer that refuses values of another class with an ``UnfitError``, and lets ``None`` through where it may."""

    def checked(datum: object) -> object:
        if datum is None:
            if not value.nullable:
                raise UnfitError(path, "None in a field that is not Optional", str(value))
            return None
        if type(datum) is not value.python_type:
            if not value.admits(type(datum)):
                raise UnfitError(path, f"{short_repr(datum)} is a {type(datum).__name__}", str(value))
            datum = as_plain(datum, value, path)
        return write(datum)

    return checked


# The kinds whose values are written as what has an order.
_ORDERED = frozenset({Kind.BOOL, Kind.INT, Kind.STR, *TEXT_FORMS})


# The makers below are of writers of values that are of the right class and not ``None``.


def _text_writer(value: ValueType, path: str) -> Writer:
    text_of = TEXT_FORMS[value.kind].format if value.time_format is None else format_writer(value)

    def write(datum: object) -> object:
        try:
            return text_of(datum)
        except (ValueError, OverflowError) as error:
            raise UnfitError(path, f"{short_repr(datum)}: {error}", str(value)) from None

    return write


def _exact_writer(value: ValueType, path: str) -> Writer:
    return lambda datum: exactly(datum, value, path)


def _write_float(datum: object) -> object:
    assert isinstance(datum, float), "other numbers were made floats"
    if math.isfinite(datum):
        return datum
    return "NaN" if math.isnan(datum) else "Infinity" if datum > 0 else "-Infinity"


def _raw_json_writer(value: ValueType, path: str) -> Writer:
    text = replace(value, kind=Kind.STR)
    return lambda datum: JsonText(checked_text(str(exactly(datum, text, path)), path))


def _list_writer(value: ValueType, path: str) -> Writer:
    write_element = json_writer(value.arguments[0], f"{path}[]")
    return lambda datum: [write_element(element) for element in datum] if isinstance(datum, _CONTAINERS) else []


def _set_writer(value: ValueType, path: str) -> Writer:
    """Writes a set in one order in every process: that of its values, or of their texts where not all compare."""
    write_element = json_writer(value.arguments[0], f"{path}[]")
    key = None if value.arguments[0].scalar_kind in _ORDERED and not value.arguments[0].nullable else dump_of(value)

    def write(datum: object) -> object:
        # Of a writer's values, those of an ordered kind compare with each other.
        written: list[Any] = [write_element(element) for element in datum] if isinstance(datum, _CONTAINERS) else []
        return sorted(written, key=key)

    return write


def _tuple_writer(value: ValueType, path: str) -> Writer:
    writers = [json_writer(part, f"{path}[{i}]") for i, part in enumerate(value.arguments)]

    def write(datum: object) -> object:
        if not isinstance(datum, tuple) or len(datum) != len(writers):
            raise UnfitError(path, f"{short_repr(datum)} is no tuple of {len(writers)}", str(value))
        return [write_part(element) for write_part, element in zip(writers, datum, strict=True)]

    return write


def _dict_writer(value: ValueType, path: str) -> Writer:
    write_key = json_writer(value.arguments[0], f"{path}{{key}}")
    write_item = json_writer(value.arguments[1], f"{path}{{}}")

    def write(datum: object) -> object:
        if not isinstance(datum, dict):
            return {}
        return {str(write_key(key)): write_item(item) for key, item in datum.items()}

    return write


def _record_writer(value: ValueType, path: str) -> Writer:
    writers = {field.name: (field.column, json_writer(field.type, f"{path}.{field.name}")) for field in value.fields}
    fields = [(name, *column_and_writer) for name, column_and_writer in writers.items()]
    if value.shape is not RecordShape.TYPED_DICT:
        return lambda datum: {column: write_field(getattr(datum, name)) for name, column, write_field in fields}

    def write(datum: object) -> object:
        record_columns([datum], value, path)  # refuses missing and unknown keys
        if not isinstance(datum, dict):
            return {}
        # In the order of the fields, which columns have as well.
        return {column: write_field(datum[name]) for name, column, write_field in fields if name in datum}

    return write


_MAKERS: dict[Kind, Callable[[ValueType, str], Writer]] = {
    Kind.NONE: lambda value, path: lambda datum: datum,
    Kind.BOOL: lambda value, path: bool,
    Kind.INT: _exact_writer,
    Kind.FLOAT: lambda value, path: _write_float,
    Kind.STR: _exact_writer,
    Kind.JSON: lambda value, path: lambda datum: plain_json(datum, path),
    Kind.RAW_JSON: _raw_json_writer,
    # Not the value attribute: a class may shadow it.
    Kind.ENUM: lambda value, path: attrgetter("_value_"),
    **dict.fromkeys(TEXT_FORMS, _text_writer),
    **dict.fromkeys(COLLECTIONS, _list_writer),
    **dict.fromkeys((Kind.SET, Kind.FROZENSET), _set_writer),
    Kind.TUPLE: _tuple_writer,
    Kind.DICT: _dict_writer,
    Kind.RECORD: _record_writer,
}


Texts: TypeAlias = Callable[[Sequence[Any]], list[str]]
"""Makes JSON texts of the values of a column."""


class _UnlikeError(Exception):
    """Values that the encoder has to look at one by one."""


class JsonLines:
    """Writes many elements of one type as JSON lines at once: column by column, which takes a third of the time.

    :class:`JsonEncoder` says what a value looks like. Values of the plain class of their field, as nearly all are, get
    the same text here; where one is not, all elements of the call go through the encoder, which writes them or knows
    what is wrong.
    """

    def __init__(self, record_type: RecordType) -> None:
        self._encode = JsonEncoder(record_type).encode
        root = record_type.root
        self._is_dict = root.shape is RecordShape.TYPED_DICT
        self.has_columns = root.kind is Kind.RECORD and not root.nullable and not root.may_lack_keys
        """Whether :meth:`of_columns` writes elements of the type."""
        if self.has_columns:
            self._class = dict if self._is_dict else root.python_type
            names = [field.name for field in root.fields]
            self._getters: list[Callable[[Any], object]] = [
                itemgetter(name) if self._is_dict else attrgetter(name) for name in names
            ]
            cells = [f"{dump(field.column).replace('%', '%%')}:%s" for field in root.fields]
            self._line = f"{{{','.join(cells)}}}\n".__mod__
            self._texts = [_column(field.type, f"{record_type.name}.{field.name}") for field in root.fields]

    def encode(self, values: Sequence[object]) -> str:
        """The lines of elements; an ``InvalidArgumentError`` if one is not of its type."""
        if self.has_columns and set(map(type, values)) == {self._class}:
            try:
                if self._is_dict and max(map(len, values)) != len(self._getters):  # type: ignore[arg-type]  # they are dicts
                    raise _UnlikeError
                return self.of_columns([list(map(getter, values)) for getter in self._getters])
            except Exception:
                pass  # the other way says what is wrong, or that this one takes less than it
        return "".join([f"{self._encode(value)}\n" for value in values])

    def of_columns(self, columns: Sequence[Sequence[object]]) -> str:
        """The lines of records, by the values of all of their fields; raises an error for values of other classes."""
        texts = [make(column) for make, column in zip(self._texts, columns, strict=True)]
        lines = "".join(map(self._line, zip(*texts, strict=True)))
        if not lines.isascii():
            lines.encode()  # half a surrogate pair is no character
        return lines


def _column(value: ValueType, path: str) -> Texts:
    """Makes the function for the values of a column, ``None`` among them where the type allows it."""
    make = _TEXTS.get(value.kind) if value.time_format is None else None
    if make is None:
        write, text_of = json_writer(value, path), dump_of(value)
        return lambda values: [text_of(write(item)) for item in values]
    accepted = {value.python_type}

    def texts(values: Sequence[Any]) -> list[str]:
        kinds = set(map(type, values))
        if kinds == accepted or not kinds:
            return make(values)
        if not value.nullable or kinds - accepted != {NoneType}:
            raise _UnlikeError
        present = iter(make([item for item in values if item is not None]))
        return ["null" if item is None else next(present) for item in values]

    return texts


def _ints(values: Sequence[Any]) -> list[str]:
    if values and (min(values) < INT_MIN or max(values) > INT_MAX):
        raise _UnlikeError
    return list(map(int.__repr__, values))


def _floats(values: Sequence[Any]) -> list[str]:
    if not all(map(math.isfinite, values)):
        raise _UnlikeError
    return list(map(float.__repr__, values))


def _in_quotes(form: Callable[[Any], str]) -> Texts:
    return lambda values: [f'"{form(item)}"' for item in values]


_TEXTS: Final[dict[Kind, Texts]] = {
    Kind.BOOL: lambda values: ["true" if item else "false" for item in values],
    Kind.INT: _ints,
    Kind.FLOAT: _floats,
    Kind.STR: lambda values: list(map(encode_basestring, values)),
    # Their texts have no character that JSON escapes.
    **{kind: _in_quotes(form.format) for kind, form in TEXT_FORMS.items()},
}
