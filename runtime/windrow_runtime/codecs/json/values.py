"""From parsed JSON to values of a type: the definition of what JSON fits, in plain Python."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from functools import partial

from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.records import refused_record
from windrow_runtime.codecs.text_forms import TEXT_FORMS, parse_datetime
from windrow_runtime.codecs.value_type import COLLECTIONS, INT_MAX, INT_MIN, Field, Kind, RecordShape, ValueType

Parser = Callable[[object], object]

# JSON has no such numbers; Spark writes and reads these texts.
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_NAMES = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object", type(None): "null"}
_MISSING = object()


def parser(value: ValueType, path: str) -> Parser:
    """A function from parsed JSON to a value of a type; it raises :class:`UnfitError` for anything else."""
    simple = _SIMPLE.get(value.kind)
    parse = _MAKERS[value.kind](value, path) if simple is None else partial(simple, value, path)
    if value.kind is Kind.NONE:
        return parse
    if value.nullable:
        return lambda given: None if given is None else parse(given)

    def parse_required(given: object) -> object:
        if given is None:
            raise UnfitError(path, "null in a required field")
        return parse(given)

    return parse_required


def _wrong(given: object, value: ValueType, path: str) -> UnfitError:
    kind = type(given)
    shown = "" if kind in (list, dict, type(None)) else f" {short_repr(given)}"
    expected = TEXT_FORMS[value.kind].name if value.kind in TEXT_FORMS else str(value)
    return UnfitError(path, f"expected {expected}, not {_NAMES.get(kind, kind.__name__)}{shown}")


def _parse_as_is(value: ValueType, path: str, given: object) -> object:
    if type(given) is not value.python_type:
        raise _wrong(given, value, path)
    return given


def _parse_int(value: ValueType, path: str, given: object) -> object:
    if type(given) is not int:
        raise _wrong(given, value, path)
    if not INT_MIN <= given <= INT_MAX:
        raise UnfitError(path, f"{short_repr(given)} does not fit 64 bits")
    return given


def _parse_float(value: ValueType, path: str, given: object) -> object:
    if isinstance(given, str) and given in _NON_FINITE:
        return _NON_FINITE[given]
    if type(given) is bool or not isinstance(given, (int, float, decimal.Decimal)):
        raise _wrong(given, value, path)
    try:
        number = float(given)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise UnfitError(path, "the number is out of range")
    return number


def _parse_str(value: ValueType, path: str, given: object) -> object:
    if not isinstance(given, str):
        raise _wrong(given, value, path)
    if not given.isascii():
        try:
            given.encode()
        except UnicodeEncodeError:
            raise UnfitError(path, "half of a surrogate pair is no character") from None
    return given


def _text_parser(value: ValueType, path: str) -> Parser:
    parse_text = TEXT_FORMS[value.kind].parse
    if value.timezone is not None:
        parse_text = partial(parse_datetime, zone=value.timezone)
    is_decimal = value.kind is Kind.DECIMAL

    def parse(given: object) -> object:
        if is_decimal and type(given) is not bool and isinstance(given, (int, decimal.Decimal)):
            return decimal.Decimal(given)
        if not isinstance(given, str):
            raise _wrong(given, value, path)
        try:
            return parse_text(given)
        except (ValueError, OverflowError) as error:
            raise UnfitError(path, f"{short_repr(given)} is {error}") from None

    return parse


def _enum_parser(value: ValueType, path: str) -> Parser:
    parse_value = parser(value.arguments[0], path)
    enum_type = value.python_type

    def parse(given: object) -> object:
        member_value = parse_value(given)
        try:
            return enum_type(member_value)
        except ValueError:
            raise UnfitError(path, f"{short_repr(given)} is no value of {enum_type.__name__}") from None

    return parse


def _list_parser(value: ValueType, path: str) -> Parser:
    parse_element = parser(value.arguments[0], f"{path}[]")
    make = value.python_type

    def parse(given: object) -> object:
        if not isinstance(given, list):
            raise _wrong(given, value, path)
        return make(map(parse_element, given))

    return parse


def _tuple_parser(value: ValueType, path: str) -> Parser:
    parts = [parser(part, f"{path}[{i}]") for i, part in enumerate(value.arguments)]

    def parse(given: object) -> object:
        if not isinstance(given, list):
            raise _wrong(given, value, path)
        if len(given) != len(parts):
            raise UnfitError(path, f"expected {len(parts)} elements, not {len(given)}")
        return tuple(parse_part(element) for parse_part, element in zip(parts, given, strict=True))

    return parse


def _dict_parser(value: ValueType, path: str) -> Parser:
    key_type, item_type = value.arguments
    key_path = f"{path}{{key}}"
    parse_key = parser(key_type, key_path)
    parse_item = parser(item_type, f"{path}{{}}")
    integer_keys = key_type.scalar_kind is Kind.INT

    def key_of(text: str) -> object:
        if not integer_keys:
            return parse_key(text)
        if _INTEGER.fullmatch(text) is None or len(text) > 20:
            raise UnfitError(key_path, f"expected the digits of a 64-bit int, not {short_repr(text)}")
        return parse_key(int(text))

    def parse(given: object) -> object:
        if not isinstance(given, dict):
            raise _wrong(given, value, path)
        return {key_of(key): parse_item(item) for key, item in given.items()}

    return parse


def _record_parser(value: ValueType, path: str) -> Parser:
    fields = [(field, field.name, field.column, parser(field.type, f"{path}.{field.name}")) for field in value.fields]

    def parse(given: object) -> object:
        if not isinstance(given, dict):
            raise _wrong(given, value, path)
        found: dict[str, object] = {}
        for field, name, column, parse_field in fields:
            cell = given.get(column, _MISSING)
            if cell is not _MISSING:
                found[name] = parse_field(cell)
            else:
                default_of(field, found, path)
        if value.shape is RecordShape.TYPED_DICT:
            # The keys in the order of the text, as msgspec has them.
            return {name: found[name] for name in (*given, *found) if name in found}
        return construct(value, found, path)

    return parse


def default_of(field: Field, found: dict[str, object], path: str) -> None:
    """Leaves a field that a source does not give to its default, or else sets it to ``None`` if it is Optional."""
    if field.required:
        raise UnfitError(f"{path}.{field.name}", "the field is missing")
    if field.default is None and not field.absent_allowed:
        found[field.name] = None


def construct(value: ValueType, found: dict[str, object], path: str) -> object:
    """A record of its fields; those that are not given take their defaults."""
    if value.shape is RecordShape.TYPED_DICT:
        return found
    try:
        return value.python_type(**found)
    except Exception as error:  # constructors are the user's and may raise anything
        raise refused_record(value, path, error) from error


_SIMPLE: dict[Kind, Callable[[ValueType, str, object], object]] = {
    Kind.NONE: _parse_as_is,
    Kind.BOOL: _parse_as_is,
    Kind.INT: _parse_int,
    Kind.FLOAT: _parse_float,
    Kind.STR: _parse_str,
}
_MAKERS: dict[Kind, Callable[[ValueType, str], Parser]] = {
    **dict.fromkeys(TEXT_FORMS, _text_parser),
    **dict.fromkeys(COLLECTIONS, _list_parser),
    Kind.ENUM: _enum_parser,
    Kind.TUPLE: _tuple_parser,
    Kind.DICT: _dict_parser,
    Kind.RECORD: _record_parser,
}
