"""Decodes JSON lines into elements.

Parsers in plain Python, which take what ``json`` parsed, define what fits a type. Where msgspec is installed and the
type is one that both read alike, msgspec reads the line; a line that it refuses, or whose values it reads more freely,
is read again the plain way, which either accepts it or knows the field and the reason.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter, methodcaller
from typing import Annotated, Any

from windrow.plan.records import making_hook
from windrow_runtime.codecs.exact import exactly, float_of_digits
from windrow_runtime.codecs.formatted_times import format_parser
from windrow_runtime.codecs.json.any_json import JsonText, any_value, json_reader
from windrow_runtime.codecs.malformed import MalformedValue, UnfitError, raw_text, short_repr
from windrow_runtime.codecs.records import forget_msgspec, made_of, refused_record
from windrow_runtime.codecs.text_forms import TEXT_FORMS, parse_datetime
from windrow_runtime.codecs.value_type import (
    ANY_JSON,
    COLLECTIONS,
    INT_MAX,
    INT_MIN,
    Kind,
    RecordField,
    RecordShape,
    RecordType,
    ValueType,
)

Parser = Callable[[object], object]

# JSON has no such numbers; Spark writes and reads these texts.
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGER = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_NAMES = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object", type(None): "null"}
_MISSING = object()
_LEAST_INEXACT = 2**53  # from here on not each whole number is a float


def parser(value: ValueType, path: str) -> Parser:
    """A function from parsed JSON to a value of a type; it raises :class:`UnfitError` for anything else."""
    simple = _SIMPLE.get(value.kind)
    parse = _MAKERS[value.kind](value, path) if simple is None else partial(simple, value, path)
    if value.kind is Kind.NONE:
        return parse
    if value.nullable:
        return lambda json_value: None if json_value is None else parse(json_value)

    def parse_required(json_value: object) -> object:
        if json_value is None:
            raise UnfitError(path, "null in a required field")
        return parse(json_value)

    return parse_required


def _wrong(json_value: object, value: ValueType, path: str) -> UnfitError:
    class_ = type(json_value)
    shown = "" if class_ in (list, dict, type(None)) else f" {short_repr(json_value)}"
    expected = TEXT_FORMS[value.kind].name if value.kind in TEXT_FORMS else str(value)
    if value.time_format is not None:
        expected = str(value.time_format)
    return UnfitError(path, f"expected {expected}, not {_NAMES.get(class_, class_.__name__)}{shown}")


def _parse_as_is(value: ValueType, path: str, json_value: object) -> object:
    if type(json_value) is not value.python_type:
        raise _wrong(json_value, value, path)
    return json_value


def _parse_int(value: ValueType, path: str, json_value: object) -> object:
    if type(json_value) is not int:
        raise _wrong(json_value, value, path)
    return exactly(json_value, value, path)


def _parse_float(value: ValueType, path: str, json_value: object) -> object:
    if isinstance(json_value, str) and json_value in _NON_FINITE:
        return _NON_FINITE[json_value]
    if type(json_value) is bool or not isinstance(json_value, (int, float, Decimal)):
        raise _wrong(json_value, value, path)
    number = float_of_digits(json_value, path) if isinstance(json_value, int) else float(json_value)
    if math.isinf(number):
        raise UnfitError(path, "the number is out of range")
    return number


def _parse_str(value: ValueType, path: str, json_value: object) -> object:
    if not isinstance(json_value, str):
        raise _wrong(json_value, value, path)
    return json_value if json_value.isascii() else exactly(json_value, value, path)


def _parse_raw_json(value: ValueType, path: str, json_value: object) -> object:
    if not isinstance(json_value, JsonText):
        raise _wrong(json_value, value, path)
    return json_value.text


def _text_parser(value: ValueType, path: str) -> Parser:
    if value.time_format is not None:
        return _format_parser(value, path)
    parse_text = TEXT_FORMS[value.kind].parse
    if value.timezone is not None:
        parse_text = partial(parse_datetime, zone=value.timezone)
    is_decimal = value.kind is Kind.DECIMAL

    def parse(json_value: object) -> object:
        if is_decimal and type(json_value) is not bool and isinstance(json_value, (int, Decimal)):
            return Decimal(json_value)
        if not isinstance(json_value, str):
            raise _wrong(json_value, value, path)
        try:
            return parse_text(json_value)
        except (ValueError, ArithmeticError) as error:
            raise UnfitError(path, f"{short_repr(json_value)} is {error}") from None

    return parse


def _format_parser(value: ValueType, path: str) -> Parser:
    parse_formatted = format_parser(value)

    def parse(json_value: object) -> object:
        try:
            return parse_formatted(json_value)
        except TypeError:
            raise _wrong(json_value, value, path) from None
        except (ValueError, ArithmeticError) as error:
            raise UnfitError(path, f"{short_repr(json_value)} is {error}") from None

    return parse


def _enum_parser(value: ValueType, path: str) -> Parser:
    parse_value = parser(value.arguments[0], path)
    enum_type = value.python_type

    def parse(json_value: object) -> object:
        member_value = parse_value(json_value)
        try:
            return enum_type(member_value)
        except Exception:  # _missing_ is the user's and may raise anything
            raise UnfitError(path, f"{short_repr(json_value)} is no value of {enum_type.__name__}") from None

    return parse


def _list_parser(value: ValueType, path: str) -> Parser:
    parse_element = parser(value.arguments[0], f"{path}[]")
    make = value.python_type

    def parse(json_value: object) -> object:
        if not isinstance(json_value, list):
            raise _wrong(json_value, value, path)
        elements = list(map(parse_element, json_value))
        return elements if make is list else made_of(make, elements, path)

    return parse


def _tuple_parser(value: ValueType, path: str) -> Parser:
    parsers = [parser(part, f"{path}[{i}]") for i, part in enumerate(value.arguments)]

    def parse(json_value: object) -> object:
        if not isinstance(json_value, list):
            raise _wrong(json_value, value, path)
        if len(json_value) != len(parsers):
            raise UnfitError(path, f"expected {len(parsers)} elements, not {len(json_value)}")
        return tuple(parse_part(element) for parse_part, element in zip(parsers, json_value, strict=True))

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

    def parse(json_value: object) -> object:
        if not isinstance(json_value, dict):
            raise _wrong(json_value, value, path)
        return {key_of(key): parse_item(item) for key, item in json_value.items()}

    return parse


def _record_parser(value: ValueType, path: str) -> Parser:
    fields = [(field, field.name, field.column, parser(field.type, f"{path}.{field.name}")) for field in value.fields]

    def parse(json_value: object) -> object:
        if not isinstance(json_value, dict):
            raise _wrong(json_value, value, path)
        members: dict[str, object] = {}
        for field, name, column, parse_field in fields:
            cell = json_value.get(column, _MISSING)
            if field.constant is not None:
                members[name] = field.constant.value
            elif cell is not _MISSING:
                members[name] = parse_field(cell)
            else:
                default_of(field, members, path)
        if value.shape is RecordShape.TYPED_DICT:
            # The keys in the order of the text, as msgspec has them.
            return {name: members[name] for name in (*json_value, *members) if name in members}
        return construct(value, members, path)

    return parse


def default_of(field: RecordField, members: dict[str, object], path: str) -> None:
    """Leaves a field that a source does not give to its default, or else sets it to ``None`` if it is Optional."""
    if field.required:
        raise UnfitError(f"{path}.{field.name}", "the field is missing")
    if field.default is None and not field.absent_allowed:
        members[field.name] = None


def construct(value: ValueType, members: dict[str, object], path: str) -> object:
    """A record of its fields; those that are not given take their defaults."""
    if value.shape is RecordShape.TYPED_DICT:
        return members
    try:
        return value.python_type(**members)
    except Exception as error:  # constructors are the user's and may raise anything
        raise refused_record(value, path, error) from error


_SIMPLE: dict[Kind, Callable[[ValueType, str, object], object]] = {
    Kind.NONE: _parse_as_is,
    Kind.BOOL: _parse_as_is,
    Kind.INT: _parse_int,
    Kind.FLOAT: _parse_float,
    Kind.STR: _parse_str,
    Kind.JSON: lambda value, path, json_value: any_value(json_value, path),
    Kind.RAW_JSON: _parse_raw_json,
}
_MAKERS: dict[Kind, Callable[[ValueType, str], Parser]] = {
    **dict.fromkeys(TEXT_FORMS, _text_parser),
    **dict.fromkeys(COLLECTIONS, _list_parser),
    Kind.ENUM: _enum_parser,
    Kind.TUPLE: _tuple_parser,
    Kind.DICT: _dict_parser,
    Kind.RECORD: _record_parser,
}


# Returns whether msgspec read a value as plain Python would have read it. Any: it is one of the type.
_Check = Callable[[Any], bool]
_Getter = Callable[[Any], object]
# msgspec rounds what is finer than a microsecond. A digit, a colon or a point may be written as an escape.
_FINE = re.compile(r":[0-9]{2}\.[0-9]{7}")
_FINE_BYTES = re.compile(_FINE.pattern.encode())
# msgspec takes other texts for these than the plain way does.
_UNLIKE = (TEXT_FORMS.keys() | ANY_JSON) - {Kind.DATETIME}


class JsonDecoder:
    """Reads elements of one type, a JSON text each.

    Records are objects, whose other keys are ignored; tuples, lists and sets are arrays; any other element is its own
    JSON value. Types are strict: ``"3"``, ``3.0`` and ``true`` are no int; ``3`` is a float, and so are the texts
    "NaN", "Infinity" and "-Infinity". Datetimes, dates, durations, decimals, UUIDs and bytes are texts; a datetime
    without an offset is one in the time zone of the type, or else does not fit.
    """

    def __init__(self, record_type: RecordType, *, use_msgspec: bool = True) -> None:
        self._parse: Parser = parser(record_type.root, record_type.name)
        # A float cannot hold a Decimal's digits, so they are kept from the start.
        parse_float = Decimal if record_type.root.contains(Kind.DECIMAL) else float
        self._read = json_reader(record_type.root, parse_float)
        self._fast = _msgspec_reader(record_type) if use_msgspec else None
        self._check = _check_for(record_type.root) if self._fast is not None else None
        self._has_datetimes = record_type.root.contains(Kind.DATETIME)
        self.uses_msgspec = self._fast is not None

    def decode(self, line: str | bytes) -> object | MalformedValue:
        """The element of one line, or what is wrong with the line."""
        if self._fast is not None and not (self._has_datetimes and _may_be_finer(line)):
            try:
                value = self._fast(line)
            except Exception:
                pass  # the other way says what is wrong, or that this one takes less than it
            else:
                if self._check is None or self._check(value):
                    return value
        try:
            text = line if isinstance(line, str) else line.decode("utf-8")
            parsed = self._read(text)
        except (ValueError, RecursionError) as error:
            return MalformedValue(_as_text(line), f"not JSON: {error}", None)
        except ArithmeticError:
            return MalformedValue(_as_text(line), "a number is out of range", None)
        try:
            return self._parse(parsed)
        except UnfitError as error:
            return MalformedValue(_as_text(line), error.reason, error.path)


def _may_be_finer(line: str | bytes) -> bool:
    """Returns whether a datetime in a line may have more digits than Python's."""
    if isinstance(line, str):
        return "\\u00" in line or _FINE.search(line) is not None
    return b"\\u00" in line or _FINE_BYTES.search(line) is not None


def _as_text(line: str | bytes) -> str:
    return raw_text(line if isinstance(line, str) else line.decode("utf-8", "backslashreplace"))


def _msgspec_reader(record_type: RecordType) -> Callable[[str | bytes], object] | None:
    """Msgspec's reader, or ``None`` where it is missing or reads the type in another way."""
    root = record_type.root
    named_tuple = root.shape is RecordShape.NAMED_TUPLE and not root.nullable
    parts = [field.type for field in root.fields] if named_tuple else [root]
    if not all(map(_read_alike, parts)) or any(field.constant is not None for field in root.fields):
        return None
    try:
        import msgspec

        reader = _named_tuple_reader(root) if named_tuple else msgspec.json.Decoder(record_type.annotation).decode
    except (ImportError, TypeError, NameError):
        # Msgspec resolves annotations by itself, in the module of the class alone.
        reader = None
    forget_msgspec(_classes_in(root))
    return reader


def _classes_in(value: ValueType) -> Iterator[type]:
    return chain([value.python_type], *map(_classes_in, value.inner))


def _named_tuple_reader(root: ValueType) -> Callable[[str | bytes], object] | None:
    """Msgspec reads a NamedTuple from an array, so a Struct of the same fields reads the object."""
    import msgspec
    import typing_extensions

    if len(root.fields) < 2:
        return None
    hints = typing_extensions.get_type_hints(root.python_type, include_extras=True)
    numbers = bounded_numbers()
    for field in root.fields:
        if field.type.kind in numbers:
            number = numbers[field.type.kind]
            hints[field.name] = number | None if field.type.nullable else number
    marks = [msgspec.field(default_factory=one.default) if one.default else msgspec.field() for one in root.fields]
    fields = [(field.name, hints[field.name], mark) for field, mark in zip(root.fields, marks, strict=True)]
    # A Struct with defaults before required fields must be keyword-only; it is never built by position.
    twin = msgspec.defstruct(root.python_type.__name__, fields, kw_only=True)
    read = msgspec.json.Decoder(twin).decode
    values_of = attrgetter(*(field.name for field in root.fields))
    make = root.python_type
    return lambda line: make(*values_of(read(line)))


def bounded_numbers() -> dict[Kind, Any]:
    """Returns annotations with which msgspec refuses numbers that it reads more freely than the plain way."""
    import msgspec

    return {
        Kind.INT: Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)],
        Kind.FLOAT: Annotated[float, msgspec.Meta(gt=-_LEAST_INEXACT, lt=_LEAST_INEXACT)],
    }


def _read_alike(value: ValueType) -> bool:
    """Returns whether msgspec reads a type as the plain way does, but for what ``_check_for`` looks at afterwards."""
    if value.kind is Kind.DICT and value.arguments[0].kind is not Kind.STR:
        return False
    if value.shape is RecordShape.NAMED_TUPLE or any(field.constant is not None for field in value.fields):
        return False
    if value.shape is RecordShape.STRUCT:
        config = getattr(value.python_type, "__struct_config__", None)
        if config is None or config.array_like or config.tag is not None:
            return False
    # msgspec makes records without their constructors, and calls no hook but this one.
    if value.kind is Kind.RECORD and making_hook(value.python_type) not in (None, "__post_init__"):
        return False
    return value.kind not in _UNLIKE and value.time_format is None and all(map(_read_alike, value.inner))


def _check_for(value: ValueType) -> _Check | None:
    """Finds what msgspec reads more freely: large numbers, datetimes not in UTC; ``None`` passes the check."""
    kind = value.kind
    if kind is Kind.INT:
        return lambda item: item is None or INT_MIN <= item <= INT_MAX
    if kind is Kind.FLOAT:
        return lambda item: item is None or -_LEAST_INEXACT < item < _LEAST_INEXACT
    if kind is Kind.DATETIME:
        return lambda item: item is None or item.tzinfo is datetime.UTC
    if kind is Kind.RECORD or kind is Kind.TUPLE:
        is_dict = value.shape is RecordShape.TYPED_DICT
        parts: list[tuple[_Getter, ValueType]] = [
            (methodcaller("get", field.name) if is_dict else attrgetter(field.name), field.type)
            for field in value.fields
            # The twin of a named tuple has bounds for numbers.
            if value.shape is not RecordShape.NAMED_TUPLE or field.type.kind not in (Kind.INT, Kind.FLOAT)
        ]
        parts += [(itemgetter(place), part) for place, part in enumerate(value.arguments)]
        return _check_of_parts([(get, check) for get, part in parts if (check := _check_for(part)) is not None])
    check = _check_for(value.arguments[-1]) if kind is Kind.DICT or kind in COLLECTIONS else None
    if check is None:
        return None
    if kind is Kind.DICT:
        return lambda item: item is None or all(map(check, item.values()))
    return lambda item: item is None or all(map(check, item))


def _check_of_parts(checks: Sequence[tuple[_Getter, _Check]]) -> _Check | None:
    if not checks:
        return None
    (get, check), *others = checks
    check_others = _check_of_parts(others)
    if check_others is None:
        return lambda item: item is None or check(get(item))
    # One call after the other takes half the time of a loop over them.
    return lambda item: item is None or (check(get(item)) and check_others(item))
