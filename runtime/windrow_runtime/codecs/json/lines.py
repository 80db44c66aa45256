"""Many elements as JSON lines at once: column by column, which takes a third of the time.

:class:`~windrow_runtime.codecs.json.encoder.JsonEncoder` says what a value looks like. Values of the plain class of
their field, as nearly all are, get the same text here; where one is not, all elements of the call go through the
encoder, which writes them or knows what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final, TypeAlias

from windrow_runtime.codecs.json.any_json import dump, dump_of
from windrow_runtime.codecs.json.encoder import JsonEncoder, json_writer
from windrow_runtime.codecs.text_forms import TEXT_FORMS
from windrow_runtime.codecs.value_type import INT_MAX, INT_MIN, Kind, RecordShape, RecordType, ValueType

# Any in this module: the values of columns, whose classes are checked.

Texts: TypeAlias = Callable[[Sequence[Any]], list[str]]
"""Makes JSON texts of the values of a column."""


class _UnlikeError(Exception):
    """Values that the encoder has to look at one by one."""


class JsonLines:
    """Writes elements of one type as JSON lines, each with its end."""

    def __init__(self, kind: RecordType) -> None:
        self._encode = JsonEncoder(kind).encode
        root = kind.root
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
            self._texts = [_column(field.type, f"{kind.name}.{field.name}") for field in root.fields]

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
