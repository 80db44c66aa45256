"""Reads, checks and writes JSON values of any shape, parsed (``JsonValue``) or as text (``RawJson``)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.value_type import COLLECTIONS, JSON_NULL, Kind, ValueType

_DEEPEST: Final = 200
"""How deep a value may be nested: pickle and other readers of JSON fail somewhere above."""

_MOST_BITS: Final = 13_287
"""The bits of 4,000 digits: Python makes no text of an int that is much longer."""

_SPACES: Final = " \t\r\n"
_GAP: Final = re.compile(f"[{_SPACES},:]*")  # between the values of a text that is JSON
_LINE_ENDS: Final = str.maketrans("\r\n", "  ")
_SCALARS: Final = (ValueType(Kind.BOOL, bool), ValueType(Kind.INT, int))
_FLOAT: Final = ValueType(Kind.FLOAT, float)

_Scan: TypeAlias = Callable[[str, int], tuple[object, int]]
"""Reads the value at a position of a text; returns it, and the position after it."""


@dataclass(frozen=True, slots=True)
class JsonText:
    """The text of a JSON value, in the place of the value; a class of its own, so that it is not taken for a text."""

    text: str


# Reading


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# Numbers stay texts: a text has as many digits as it likes.
_TEXTS: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant)


def json_reader(value: ValueType, parse_float: Callable[[str], object]) -> Callable[[str], object]:
    """Makes the reader of a JSON text for a parser of a type: the places of raw JSON have a :class:`JsonText`.

    The reader raises a ``ValueError`` for what is no JSON, a ``RecursionError`` for what is nested too deeply, and
    what ``parse_float`` raises.
    """
    decoder = json.JSONDecoder(parse_float=parse_float, parse_constant=_refuse_constant)
    if not value.contains(Kind.RAW_JSON):
        return decoder.decode
    scan = _scanner(value, decoder.raw_decode)

    def read(text: str) -> object:
        _TEXTS.decode(text)  # raises for what is no JSON, so that scanners may assume valid text
        return scan(text, _after_gap(text, 0))[0]

    return read


def _after_gap(text: str, at: int) -> int:
    """The position of the next value or bracket of a JSON text."""
    match = _GAP.match(text, at)
    return at if match is None else match.end()


def _text_at(text: str, at: int) -> tuple[object, int]:
    _, end = _TEXTS.raw_decode(text, at)
    return JsonText(text[at:end]), end


def _scanner(value: ValueType, plain: _Scan) -> _Scan:
    """Makes the reader of the values of a type; ``plain`` reads all that holds no raw JSON, or is not of its type."""
    if not value.contains(Kind.RAW_JSON):
        return plain
    if value.kind is Kind.RAW_JSON:
        if not value.nullable:
            return _text_at
        return lambda text, at: (None, at + 4) if text.startswith("null", at) else _text_at(text, at)
    if value.kind is Kind.RECORD:
        return _object_scanner({field.column: _scanner(field.type, plain) for field in value.fields}, plain, plain)
    scanners = [_scanner(part, plain) for part in value.arguments]
    if value.kind is Kind.DICT:
        return _object_scanner({}, scanners[1], plain)
    return _array_scanner([] if value.kind in COLLECTIONS else scanners, scanners[-1], plain)


def _object_scanner(members: Mapping[str, _Scan], others: _Scan, plain: _Scan) -> _Scan:
    def scan(text: str, at: int) -> tuple[object, int]:
        if text[at] != "{":
            return plain(text, at)
        values: dict[str, object] = {}
        at = _after_gap(text, at + 1)
        while text[at] != "}":
            name, at = plain(text, at)
            assert isinstance(name, str), "the text is JSON"
            values[name], at = members.get(name, others)(text, _after_gap(text, at))
            at = _after_gap(text, at)
        return values, at + 1

    return scan


def _array_scanner(first: Sequence[_Scan], others: _Scan, plain: _Scan) -> _Scan:
    def scan(text: str, at: int) -> tuple[object, int]:
        if text[at] != "[":
            return plain(text, at)
        elements: list[object] = []
        at = _after_gap(text, at + 1)
        while text[at] != "]":
            element, at = (first[len(elements)] if len(elements) < len(first) else others)(text, at)
            elements.append(element)
            at = _after_gap(text, at)
        return elements, at + 1

    return scan


def any_value(parsed: object, path: str) -> object:
    """Checks a parsed JSON value, and returns it; an ``UnfitError`` if Python, or another reader, cannot hold it.

    A decimal, which stands for the text of a number, becomes a float within the same lists and dicts.
    """
    top: list[object] = [parsed]
    level: list[list[object] | dict[str, object]] = [top]
    for _ in range(_DEEPEST + 1):
        below: list[list[object] | dict[str, object]] = []
        for holder in level:
            if isinstance(holder, list):
                for index, item in enumerate(holder):
                    if isinstance(item, (list, dict)):
                        below.append(item)
                    elif isinstance(item, (str, float, Decimal)):
                        holder[index] = _scalar(item, path)
                continue
            for key, item in holder.items():
                _scalar(key, path)
                if isinstance(item, (list, dict)):
                    below.append(item)
                elif isinstance(item, (str, float, Decimal)):
                    holder[key] = _scalar(item, path)
        if not below:
            return top[0]
        level = below
    raise _too_deep(path)


def _scalar(item: str | float | Decimal, path: str) -> object:
    if isinstance(item, str):
        if not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError:
                raise UnfitError(path, "half of a surrogate pair is no character") from None
        return item
    number = float(item)
    if not math.isfinite(number):
        raise UnfitError(path, "JSON has no NaN" if math.isnan(number) else "the number is out of range")
    return number


def _too_deep(path: str) -> UnfitError:
    return UnfitError(path, f"the JSON value is nested more than {_DEEPEST} deep", "JsonValue")


_READ: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def value_of_text(text: str, path: str) -> object:
    """The value of a JSON text, such as a cell or a column holds."""
    try:
        parsed: object = _READ(text)
    except (ValueError, RecursionError) as error:
        raise UnfitError(path, f"{short_repr(text)} is not JSON: {error}") from None
    return any_value(parsed, path)


def checked_text(text: str, path: str) -> str:
    """Strips a text, and raises an ``UnfitError`` if it is not exactly one JSON value."""
    try:
        _TEXTS.decode(text)
    except (ValueError, RecursionError) as error:
        raise UnfitError(path, f"{short_repr(text)} is not JSON: {error}", "the text of a JSON value") from None
    return text.strip(_SPACES)


# Writing


dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Makes the JSON text of a value without a :class:`JsonText`."""


def dump_of(value: ValueType) -> Callable[[object], str]:
    """Returns the function that turns what a writer of a type returns into a JSON text of one line."""
    return _dump_with_texts if value.contains(Kind.RAW_JSON) else dump


def _dump_with_texts(written: object) -> str:
    if isinstance(written, JsonText):
        # Line ends stand between the parts of a value, and never in a text.
        return written.text.translate(_LINE_ENDS)
    if isinstance(written, dict):
        return f"{{{','.join([f'{dump(key)}:{_dump_with_texts(item)}' for key, item in written.items()])}}}"
    if isinstance(written, list):
        return f"[{','.join(map(_dump_with_texts, written))}]"
    return dump(written)


def plain_json(value: object, path: str, depth: int = 0) -> object:
    """Copies a value of any JSON for ``json``; an ``UnfitError`` if reading its text would give another value."""
    if value is None or value is JSON_NULL or type(value) is bool:
        return None if value is JSON_NULL else value
    if type(value) is int:
        if value.bit_length() > _MOST_BITS:
            raise UnfitError(path, f"an int of {value.bit_length():,} bits", "at most 4,000 digits")
        return value
    if isinstance(value, str):
        return _scalar(str.__str__(value), path)
    if isinstance(value, (list, dict)) and depth >= _DEEPEST:
        raise _too_deep(path)
    if isinstance(value, list):
        return [plain_json(item, path, depth + 1) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise UnfitError(path, f"the key {short_repr(key)} is a {type(key).__name__}", "keys of type str")
        return {str(_scalar(str.__str__(key), path)): plain_json(item, path, depth + 1) for key, item in value.items()}
    for scalar in _SCALARS:
        if scalar.admits(type(value)):
            return scalar.python_type(value)
    if _FLOAT.admits(type(value)):
        return _scalar(_FLOAT.python_type(value), path)
    raise UnfitError(
        path, f"{short_repr(value)} is a {type(value).__name__}", "None, bool, int, float, str, list or dict"
    )
