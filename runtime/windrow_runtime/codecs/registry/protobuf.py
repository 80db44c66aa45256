"""Reads and writes values in Protobuf: messages of a generated class, as plain values of a record by names."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.malformed import UnfitError
from windrow_runtime.codecs.registry.datum import Convert, plain_default
from windrow_runtime.codecs.value_type import COLLECTIONS, INT_MAX, Kind, RecordType, ValueType

# Any in this module: messages are of generated classes.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOTHING: Final = datetime.timedelta()
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_PLAIN: Final = {
    Kind.BOOL: ("BOOL",),
    Kind.INT: ("INT32", "INT64", "UINT32", "UINT64"),
    Kind.FLOAT: ("FLOAT", "DOUBLE"),
    Kind.STR: ("STRING",),
    Kind.BYTES: ("STRING", "BYTES"),
}
"""The types of fields, as Python has them, by the kind of values that they are as they are."""


class Fitted(NamedTuple):
    """How values of a message's field become plain values, and how they are made of these."""

    read: Convert | None  # None: they are plain
    write: Convert | None


class _Part(NamedTuple):
    """A field of a record, and the field of the message that has its name."""

    column: str
    name: str
    has_presence: bool
    is_required: bool
    is_repeated: bool
    is_map: bool
    is_message: bool
    fitted: Fitted


def check_indexes(value: bytes, path: str) -> int:
    """Returns where the message begins, behind its place in the schema, which is a list of numbers."""
    count, place = _varint(value, 5, path)
    for _ in range(count):
        _, place = _varint(value, place, path)
    return place


def _varint(value: bytes, place: int, path: str) -> tuple[int, int]:
    number = shift = 0
    while True:
        if place >= len(value) or shift > 63:
            raise UnfitError(path, "the value is cut off in front of its message")
        byte = value[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place  # signed numbers are zigzagged


def fit_message(message: type[Any], kind: RecordType) -> Fitted:
    """Returns how messages become plain values of a type, and back; it is refused if they do not fit."""
    if kind.root.kind is not Kind.RECORD:
        raise InvalidArgumentError(
            "values in Protobuf are records",
            given=kind.name,
            expected=f"a record with the fields of {message.DESCRIPTOR.full_name}, or the class itself",
        )
    try:
        return _fit_record(message.DESCRIPTOR, message, kind.root, kind.name)
    except UnfitError as error:
        raise InvalidArgumentError(
            f"a message of Protobuf does not fit a type: {error.reason}",
            given=f"{error.path} of {message.DESCRIPTOR.full_name}",
            expected=kind.name,
        ) from None


def _fit_record(descriptor: Any, message: Any, value: ValueType, path: str) -> Fitted:
    parts: list[_Part] = []
    missing: list[tuple[str, Any]] = []
    for field in value.columns:
        proto_field = descriptor.fields_by_name.get(field.column)
        where = f"{path}.{field.column}"
        if proto_field is None:
            if field.required:
                raise UnfitError(where, "the message has no such field, and it has no default")
            missing.append((field.column, plain_default(field)))
            continue
        is_map = proto_field.message_type is not None and proto_field.message_type.GetOptions().map_entry
        parts.append(
            _Part(
                field.column,
                proto_field.name,
                proto_field.has_presence,
                not field.type.nullable,
                proto_field.is_repeated and not is_map,
                is_map,
                proto_field.message_type is not None,
                _fit_field(proto_field, field.type, where, is_map=is_map),
            )
        )
    return Fitted(_reader(parts, missing, path), _writer(parts, message))


def _reader(parts: Sequence[_Part], missing: Sequence[tuple[str, Any]], path: str) -> Convert:
    def read(message: Any) -> dict[str, Any]:
        record = dict(missing)
        for part in parts:
            if part.has_presence and not message.HasField(part.name):
                # A message that is not there is none; another field has the default of its type.
                if part.is_required and part.is_message:
                    raise UnfitError(f"{path}.{part.column}", "the message has no such field")
                if not part.is_required:
                    record[part.column] = None
                    continue
            content = getattr(message, part.name)
            convert = part.fitted.read
            if part.is_map:
                record[part.column] = [
                    (key, each if convert is None else convert(each)) for key, each in content.items()
                ]
            elif part.is_repeated:
                record[part.column] = list(content if convert is None else map(convert, content))
            else:
                record[part.column] = content if convert is None else convert(content)
        return record

    return read


def _writer(parts: Sequence[_Part], message: Any) -> Convert:
    def write(record: dict[str, Any]) -> Any:
        arguments: dict[str, Any] = {}
        for part in parts:
            value, convert = record[part.column], part.fitted.write
            if value is None:
                continue
            if part.is_map:
                arguments[part.name] = {key: each if convert is None else convert(each) for key, each in value}
            elif part.is_repeated:
                arguments[part.name] = list(value if convert is None else map(convert, value))
            else:
                arguments[part.name] = value if convert is None else convert(value)
        return message(**arguments)

    return write


def _fit_field(proto_field: Any, value: ValueType, path: str, *, is_map: bool) -> Fitted:
    if is_map:
        if value.kind is not Kind.DICT or value.arguments[0].kind not in (Kind.STR, Kind.INT):
            raise UnfitError(path, f"the message has a map, not {value}")
        entry = proto_field.message_type.fields_by_name
        _fit_one(entry["key"], value.arguments[0], f"{path}{{key}}")
        return _fit_one(entry["value"], value.arguments[1], f"{path}{{}}")
    if not proto_field.is_repeated:
        return _fit_one(proto_field, value, path)
    if value.kind not in COLLECTIONS or value.arguments[0].nullable:
        raise UnfitError(path, f"the message has many of it, not {value}")
    return _fit_one(proto_field, value.arguments[0], f"{path}[]")


def _fit_one(proto_field: Any, value: ValueType, path: str) -> Fitted:
    kind = value.kind
    if proto_field.message_type is not None:
        name = proto_field.message_type.full_name
        if kind is Kind.DATETIME and name == _TIMESTAMP:
            return Fitted(_moment, lambda moment: _parts_of(moment - _EPOCH))
        if kind is Kind.TIMEDELTA and name == _DURATION:
            return Fitted(_span, _signed_parts_of)
        if kind is Kind.RECORD:
            # A message within another is given as its class makes it.
            from google.protobuf.message_factory import GetMessageClass

            return _fit_record(proto_field.message_type, GetMessageClass(proto_field.message_type), value, path)
        raise UnfitError(path, f"the message has a {name}, not {value}")
    if proto_field.enum_type is not None and kind is Kind.ENUM:
        return _fit_enum(proto_field.enum_type, value, path)
    if proto_field.enum_type is not None and kind is Kind.INT:
        return Fitted(None, None)
    type_name = _TYPE_NAMES[proto_field.cpp_type]
    is_text = proto_field.type == proto_field.TYPE_STRING
    if kind is Kind.UUID and is_text:
        return Fitted(lambda text: str(uuid.UUID(text)), None)
    if kind is Kind.DECIMAL and is_text:
        return Fitted(_decimal, str)
    if kind is Kind.INT and type_name == "UINT64":
        return Fitted(_small, None)
    if type_name in _PLAIN.get(kind, ()) and is_text == (kind is Kind.STR):
        return Fitted(None, None)
    raise UnfitError(path, f"the message has {type_name}, not {value}")


_TYPE_NAMES: Final = {
    1: "INT32", 2: "INT64", 3: "UINT32", 4: "UINT64", 5: "DOUBLE", 6: "FLOAT", 7: "BOOL", 8: "ENUM", 9: "STRING",
}  # fmt: skip
"""The types of fields by Protobuf's numbers for them in C++; bytes are strings there."""


def _fit_enum(enum_type: Any, value: ValueType, path: str) -> Fitted:
    members = {member.value for member in value.python_type}  # type: ignore[attr-defined]  # an Enum class, by its kind
    if value.scalar_kind is Kind.INT:
        numbers = {number: number for number in members}
    else:
        numbers = {each.number: each.name for each in enum_type.values if each.name in members}

    def read(number: int) -> Any:
        if number not in numbers:
            raise UnfitError(path, f"{number} is no value of {value.python_type.__name__}")
        return numbers[number]

    backwards = {name: number for number, name in numbers.items()}
    return Fitted(read, backwards.__getitem__)


def _moment(message: Any) -> datetime.datetime:
    return _EPOCH + _span(message)


def _span(message: Any) -> datetime.timedelta:
    return datetime.timedelta(seconds=message.seconds, microseconds=int(message.nanos / 1_000))


def _signed_parts_of(span: datetime.timedelta) -> dict[str, int]:
    """The parts of a time span, which have the same sign."""
    return _parts_of(span) if span >= _NOTHING else {name: -part for name, part in _parts_of(-span).items()}


def _parts_of(span: datetime.timedelta) -> dict[str, int]:
    """The seconds of a time span, and the nanoseconds above them."""
    seconds, micros = divmod(span, datetime.timedelta(seconds=1))
    return {"seconds": seconds, "nanos": micros // datetime.timedelta(microseconds=1) * 1_000}


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"{text!r} is no decimal") from None


def _small(number: int) -> int:
    if number > INT_MAX:
        raise ValueError(f"{number} does not fit 64 bits with a sign")
    return number


def message_decoder(message: type[Any], fitted: Fitted | None, path: str) -> Callable[[bytes], Any]:
    """Returns what decodes values: into plain values, or into the messages themselves."""

    def decode(value: bytes) -> Any:
        instance = message.FromString(value[check_indexes(value, path) :])
        return instance if fitted is None or fitted.read is None else fitted.read(instance)

    return decode
