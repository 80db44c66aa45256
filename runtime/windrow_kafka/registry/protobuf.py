"""Reads and writes values in Protobuf: messages of a generated class, as plain values of a record by names."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from windrow.errors import InvalidArgumentError
from windrow_kafka.registry.datum import Convert, plain_default
from windrow_kafka.registry.protobuf_schema import check_fields, message_at, parse_protobuf, place_of
from windrow_runtime.codecs.exact import NANOS, NumberForm, exactly, stored
from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.value_type import COLLECTIONS, Kind, RecordType, ValueType

# Any in this module: messages are of generated classes.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOTHING: Final = datetime.timedelta()
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_FORMS: Final = {form.name: form for form in (NumberForm.INT32, NumberForm.UINT32, NumberForm.UINT64)} | {
    "FLOAT": NumberForm.FLOAT32
}
"""The types of fields that hold less than the types of Python."""

_LONGEST: Final = 315_576_000_000
"""The seconds that a Duration may have, to either side."""

_PLAIN: Final = {
    Kind.BOOL: ("BOOL",),
    Kind.INT: ("INT32", "INT64", "UINT32", "UINT64"),
    Kind.FLOAT: ("FLOAT", "DOUBLE"),
    Kind.STR: ("STRING",),
    Kind.BYTES: ("STRING", "BYTES"),
}
"""The types of fields, as Python has them, by the kind of values that they are as they are."""


class Fitted(NamedTuple):
    """Converts the values of a message's field to plain values, and back."""

    read: Convert | None  # None: they are plain
    write: Convert | None


_AS_IT_IS: Final = Fitted(None, None)


class _Part(NamedTuple):
    """A field of a record, and the field of the message that has its name."""

    column: str
    name: str
    has_presence: bool
    is_required: bool
    is_repeated: bool
    is_map: bool
    is_message: bool
    others: tuple[str, ...]  # of its oneof
    fitted: Fitted
    key: Fitted  # of a map


def read_place(value: bytes, path: str) -> tuple[tuple[int, ...], int]:
    """Returns the place of the message in its schema, which is a list of numbers, and where the message begins."""
    count, at = _varint(value, 5, path)
    numbers: list[int] = []
    for _ in range(count):
        number, at = _varint(value, at, path)
        numbers.append(number)
    return tuple(numbers), at


def written_place(place: Sequence[int]) -> bytes:
    """Returns the bytes of a message's place; one byte stands for that of the first message."""
    if tuple(place) == (0,):
        return b"\0"
    written = bytearray()
    for number in (len(place), *place):
        zigzag = number << 1
        while zigzag > 0x7F:
            written.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        written.append(zigzag)
    return bytes(written)


def _varint(value: bytes, place: int, path: str) -> tuple[int, int]:
    number = shift = 0
    while True:
        if place >= len(value) or shift > 63:
            raise UnfitError(path, "the value is cut off before its message")
        byte = value[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place  # signed numbers are zigzagged


def fit_message(message: type[Any], record_type: RecordType, *, is_sink: bool = False) -> Fitted:
    """Returns how messages become plain values of a type, and back; it is refused if they do not fit.

    A sink's type has the fields of the message, so that none is lost; fields that tell when they are absent, and those
    that are repeated, may stay empty.
    """
    if record_type.root.kind is not Kind.RECORD:
        raise InvalidArgumentError(
            "values in Protobuf are records",
            given=record_type.name,
            expected=f"a record with the fields of {message.DESCRIPTOR.full_name}, or the class itself",
        )
    try:
        if is_sink:
            _check_whole(message.DESCRIPTOR, record_type.root, record_type.name)
        return _fit_record(message.DESCRIPTOR, message, record_type.root, record_type.name)
    except UnfitError as error:
        raise InvalidArgumentError(
            f"a message of Protobuf does not fit a type: {error.reason}",
            given=f"{error.path} of {message.DESCRIPTOR.full_name}",
            expected=record_type.name,
        ) from None


def _check_whole(descriptor: Any, value: ValueType, path: str) -> None:
    """Refuses a record with a field that the message lacks, or the other way round, within its parts too."""
    if value.kind is not Kind.RECORD:
        for part in value.arguments:
            _check_whole(descriptor, part, path)
        return
    columns = {field.column: field.type for field in value.columns}
    for name, of_field in columns.items():
        if name not in descriptor.fields_by_name:
            raise UnfitError(f"{path}.{name}", f"{descriptor.full_name} lacks this field of {of_field}")
    for proto_field in descriptor.fields:
        name, where = proto_field.name, f"{path}.{proto_field.name}"
        if name not in columns and not proto_field.has_presence and not proto_field.is_repeated:
            shown = _TYPE_NAMES[proto_field.cpp_type]
            raise UnfitError(where, f"{descriptor.full_name} has this field of {shown}, which would be read as empty")
        inner = proto_field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            inner = inner.fields_by_name["value"].message_type
        if name in columns and inner is not None:
            _check_whole(inner, columns[name], where)


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
                _others_of(proto_field),
                _fit_field(proto_field, field.type, where, is_map=is_map),
                _fit_key(proto_field, field.type, where) if is_map else _AS_IT_IS,
            )
        )
    return Fitted(_reader(parts, missing, path), _writer(parts, message, path))


def _reader(parts: Sequence[_Part], missing: Sequence[tuple[str, Any]], path: str) -> Convert:
    def read(message: Any) -> dict[str, Any]:
        record = dict(missing)
        for part in parts:
            if part.has_presence and not message.HasField(part.name):
                # A message that is not there is none; another field has the default of its type.
                if part.is_required and (part.is_message or part.others):
                    raise UnfitError(f"{path}.{part.column}", "the message has no such field")
                if not part.is_required:
                    record[part.column] = None
                    continue
            content = getattr(message, part.name)
            convert = part.fitted.read
            if part.is_map:
                record[part.column] = _entries(content.items(), part.key.read, convert)
            elif part.is_repeated:
                record[part.column] = list(content if convert is None else map(convert, content))
            else:
                record[part.column] = content if convert is None else convert(content)
        return record

    return read


def _writer(parts: Sequence[_Part], message: Any, path: str) -> Convert:
    def write(record: dict[str, Any]) -> Any:
        arguments: dict[str, Any] = {}
        for part in parts:
            value, convert = record[part.column], part.fitted.write
            if value is None:
                if not part.has_presence:
                    raise UnfitError(f"{path}.{part.column}", "None, where the field of the message is never absent")
                continue
            if part.is_map:
                arguments[part.name] = dict(_entries(value, part.key.write, convert))
            elif part.is_repeated:
                arguments[part.name] = list(value if convert is None else map(convert, value))
            elif not arguments.keys().isdisjoint(part.others):
                other = next(name for name in part.others if name in arguments)
                raise UnfitError(f"{path}.{part.column}", f"the message holds one of {other} and {part.name}, not both")
            else:
                arguments[part.name] = value if convert is None else convert(value)
        return message(**arguments)

    return write


def _others_of(proto_field: Any) -> tuple[str, ...]:
    """The names of the other fields of a oneof; Protobuf has one of a single field for each optional scalar."""
    oneof = proto_field.containing_oneof
    return () if oneof is None else tuple(each.name for each in oneof.fields if each.name != proto_field.name)


def _entries(entries: Iterable[tuple[Any, Any]], key: Convert | None, value: Convert | None) -> list[tuple[Any, Any]]:
    """The entries of a map, converted."""
    return [(name if key is None else key(name), each if value is None else value(each)) for name, each in entries]


def _fit_key(proto_field: Any, value: ValueType, path: str) -> Fitted:
    return _fit_one(proto_field.message_type.fields_by_name["key"], value.arguments[0], f"{path}{{key}}")


def _fit_field(proto_field: Any, value: ValueType, path: str, *, is_map: bool) -> Fitted:
    if is_map:
        if value.kind is not Kind.DICT or value.arguments[0].kind not in (Kind.STR, Kind.INT):
            raise UnfitError(path, f"the message has a map, not {value}")
        return _fit_one(proto_field.message_type.fields_by_name["value"], value.arguments[1], f"{path}{{}}")
    if not proto_field.is_repeated:
        return _fit_one(proto_field, value, path)
    if value.kind not in COLLECTIONS or value.arguments[0].nullable:
        raise UnfitError(path, f"the message has many of it, not {value}")
    return _fit_one(proto_field, value.arguments[0], f"{path}[]")


def _fit_one(proto_field: Any, value: ValueType, path: str) -> Fitted:
    kind = value.kind
    if proto_field.message_type is not None:
        return _fit_inner(proto_field.message_type, value, path)
    if proto_field.enum_type is not None and kind is Kind.ENUM:
        return _fit_enum(proto_field.enum_type, value, path)
    if proto_field.enum_type is not None and kind is Kind.INT:
        return Fitted(None, partial(stored, form=NumberForm.INT32, path=path))
    type_name = _TYPE_NAMES[proto_field.cpp_type]
    is_text = proto_field.type == proto_field.TYPE_STRING
    if kind is Kind.UUID and is_text:
        return Fitted(lambda text: str(uuid.UUID(text)), None)
    if kind is Kind.DECIMAL and is_text:
        return Fitted(partial(_decimal, value, path), str)
    if type_name in _PLAIN.get(kind, ()) and is_text == (kind is Kind.STR):
        form = _FORMS.get(type_name)
        read = partial(exactly, value=value, path=path) if form is NumberForm.UINT64 else None
        return Fitted(read, None if form is None else partial(stored, form=form, path=path))
    raise UnfitError(path, f"the message has {type_name}, not {value}")


def _fit_inner(descriptor: Any, value: ValueType, path: str) -> Fitted:
    """Fits a message within another: a record, a time, or a wrapper of a scalar, which may be absent."""
    from google.protobuf.message_factory import GetMessageClass

    name, kind = descriptor.full_name, value.kind
    if kind is Kind.DATETIME and name == _TIMESTAMP:
        return Fitted(partial(_moment, value, path), lambda moment: _parts_of(moment - _EPOCH))
    if kind is Kind.TIMEDELTA and name == _DURATION:
        return Fitted(partial(_span, value, path), partial(_signed_parts_of, path))
    if kind is Kind.RECORD:
        # A message within another is given as its class makes it.
        return _fit_record(descriptor, GetMessageClass(descriptor), value, path)
    if name in _WRAPPERS:
        read, write = _fit_one(descriptor.fields_by_name["value"], value, path)
        return Fitted(
            lambda wrapper: wrapper.value if read is None else read(wrapper.value),
            lambda datum: {"value": datum if write is None else write(datum)},
        )
    raise UnfitError(path, f"the message has a {name}, not {value}")


_TYPE_NAMES: Final = {
    1: "INT32", 2: "INT64", 3: "UINT32", 4: "UINT64", 5: "DOUBLE", 6: "FLOAT", 7: "BOOL", 8: "ENUM", 9: "STRING",
}  # fmt: skip
"""The types of fields by Protobuf's numbers for them in C++; bytes are strings there."""


def _fit_enum(enum_type: Any, value: ValueType, path: str) -> Fitted:
    members = {member.value for member in value.python_type}  # type: ignore[attr-defined]  # an Enum class, by its kind
    known, is_open = {each.number for each in enum_type.values}, not enum_type.is_closed
    if value.scalar_kind is Kind.INT:
        numbers = {number: number for number in members}
    else:
        numbers = {each.number: each.name for each in enum_type.values if each.name in members}

    def read(number: int) -> Any:
        if number not in numbers:
            raise UnfitError(path, f"{number} is no value of {value.python_type.__name__}")
        return numbers[number]

    backwards = {name: number for number, name in numbers.items()}

    def write(member: Any) -> int:
        if member not in backwards or not (value.scalar_kind is Kind.STR or is_open or member in known):
            raise UnfitError(path, f"{member!r} is no value of {enum_type.full_name}")
        return int(stored(backwards[member], NumberForm.INT32, path))

    return Fitted(read, write)


def _moment(value: ValueType, path: str, message: Any) -> Any:
    if not 0 <= message.nanos < NANOS:
        raise UnfitError(path, f"a Timestamp has {message.nanos} nanoseconds")
    return exactly(message.seconds * NANOS + message.nanos, value, path, NANOS)


def _span(value: ValueType, path: str, message: Any) -> Any:
    seconds, nanos = message.seconds, message.nanos
    if abs(nanos) >= NANOS or abs(seconds) > _LONGEST or seconds * nanos < 0:
        raise UnfitError(path, f"a Duration has {seconds} seconds and {nanos} nanoseconds")
    return exactly(seconds * NANOS + nanos, value, path, NANOS)


def _signed_parts_of(path: str, span: datetime.timedelta) -> dict[str, int]:
    """The parts of a time span, which have the same sign."""
    if abs(span) > datetime.timedelta(seconds=_LONGEST):
        raise UnfitError(path, f"{span} is longer than a Duration")
    return _parts_of(span) if span >= _NOTHING else {name: -part for name, part in _parts_of(-span).items()}


def _parts_of(span: datetime.timedelta) -> dict[str, int]:
    """The seconds of a time span, and the nanoseconds above them."""
    seconds, micros = divmod(span, datetime.timedelta(seconds=1))
    return {"seconds": seconds, "nanos": micros // datetime.timedelta(microseconds=1) * 1_000}


def _decimal(value: ValueType, path: str, text: str) -> Any:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise UnfitError(path, f"{short_repr(text)} is no decimal") from None
    return exactly(number, value, path)


def message_decoder(message: type[Any], fitted: Fitted | None, schema_text: str) -> Callable[[bytes], Any]:
    """Returns what decodes values of a schema: into plain values, or into the messages themselves.

    ``UnfitError``: a message of that schema is another one, or has other fields, than the class.
    """
    name, path = message.DESCRIPTOR.full_name, message.__name__
    written = parse_protobuf(schema_text)
    check_fields(written.descriptor, file_of(message), name, is_sink=False)
    right_places: set[tuple[int, ...]] = set()

    def decode(value: bytes) -> Any:
        place, start = read_place(value, path)
        if place not in right_places:
            written_name = message_at(written.descriptor, place)
            if written_name != name:
                raise UnfitError(path, f"it is a {written_name}, not a {name}")
            right_places.add(place)
        instance = message.FromString(value[start:])
        return instance if fitted is None or fitted.read is None else fitted.read(instance)

    return decode


def first_bytes(message: type[Any], number: int, schema_text: str) -> bytes:
    """Returns what stands before messages of a class that are written by a schema of the registry.

    ``UnfitError``: the schema does not have the message, or not with its fields.
    """
    registered = parse_protobuf(schema_text)
    name = message.DESCRIPTOR.full_name
    place = place_of(registered.descriptor, name)
    if registered.has_fields:
        check_fields(file_of(message), registered.descriptor, name, is_sink=True)
    return b"\0" + number.to_bytes(4) + written_place(place)


def file_of(message: Any) -> Any:
    """Returns the descriptor of the file of a class."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    message.DESCRIPTOR.file.CopyToProto(file)
    return file
