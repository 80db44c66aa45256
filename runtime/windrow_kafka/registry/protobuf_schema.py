"""Finds the messages of a schema of Protobuf in a registry, and compares their fields with those of a class."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from windrow_runtime.codecs.malformed import UnfitError

# Any in this module: protobuf's descriptors have no types.

_TOKEN: Final = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[\w.]+|[{}]""", re.DOTALL)

_KEYS_OF_MAPS: Final = {"bool", "string"} | {
    f"{kind}{size}" for kind in ("int", "uint", "sint", "fixed", "sfixed") for size in (32, 64)
}


_READ_AS: Final = {
    "INT32": ("INT64",),
    "UINT32": ("UINT64", "INT64"),
    "SINT32": ("SINT64",),
    "BOOL": ("INT32", "INT64", "UINT32", "UINT64"),
    "ENUM": ("INT32", "INT64"),
    "STRING": ("BYTES",),
    "BYTES": ("STRING",),
}
"""The types of fields, beside its own, by which Protobuf reads each value of a type as what it is."""


class SchemaFile(NamedTuple):
    """A file of messages, as a descriptor; one that was made of source has no fields."""

    descriptor: Any
    has_fields: bool = True


def parse_protobuf(text: str) -> SchemaFile:
    """Returns the file of a schema: its descriptor in base64, which a registry gives if it is asked for it.

    A registry that does not know that gives the source; of it there are only the names of messages.
    """
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return SchemaFile(FileDescriptorProto.FromString(base64.b64decode(text, validate=True)))
    except (binascii.Error, DecodeError, ValueError):
        file = FileDescriptorProto()
    blocks: list[Any] = []  # those in which a token is; the ones that are no messages are None
    tokens = [token for token in _TOKEN.findall(text) if token[:2] not in ("//", "/*") and token[0] not in "\"'"]
    for number, token in enumerate(tokens):
        if token == "package" and not blocks:
            file.package = tokens[number + 1]
        elif token == "{":
            message = None
            if tokens[max(0, number - 2)] == "message" and all(block is not None for block in blocks):
                siblings = blocks[-1].nested_type if blocks else file.message_type
                message = siblings.add()
                message.CopyFrom(DescriptorProto(name=tokens[number - 1]))
            blocks.append(message)
        elif token == "}" and blocks:
            blocks.pop()
        elif token == "map" and blocks and blocks[-1] is not None and tokens[number + 1] in _KEYS_OF_MAPS:
            # A map field has a message of its own among those that its message declares.
            words = tokens[number + 3].split("_")
            blocks[-1].nested_type.add().name = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
    return SchemaFile(file, has_fields=False)


def message_at(file: Any, place: Sequence[int]) -> str:
    """Returns the full name of the message at a place of a file: its number at each level; none: the first one."""
    messages, names = file.message_type, [file.package] if file.package else []
    for number in place or (0,):
        if not 0 <= number < len(messages):
            raise UnfitError("schema", f"it has no message at {list(place)}")
        names.append(messages[number].name)
        messages = messages[number].nested_type
    return ".".join(names)


def place_of(file: Any, full_name: str) -> tuple[int, ...]:
    """Returns the place of a message in a file."""

    def search(messages: Iterable[Any], prefix: str, place: tuple[int, ...]) -> tuple[int, ...] | None:
        for number, message in enumerate(messages):
            name = f"{prefix}{message.name}"
            if name == full_name:
                return (*place, number)
            if full_name.startswith(f"{name}."):
                return search(message.nested_type, f"{name}.", (*place, number))
        return None

    place = search(file.message_type, f"{file.package}." if file.package else "", ())
    if place is None:
        raise UnfitError("schema", f"it has no message {full_name}")
    return place


def check_fields(written: Any, read: Any, full_name: str, *, is_sink: bool) -> None:
    """Refuses to read a message by the message of that name in another file, if values would change or be lost.

    A sink's fields have to be in the schema of the registry with their names and types; a source reads the values of
    fields by their numbers, as Protobuf does, passes over those that its class lacks, and takes wider types.
    """
    theirs, ours = _messages(written), _messages(read)
    unread, seen = [full_name], set[str]()
    while unread:
        name = unread.pop()
        if name in seen or not (name in theirs and name in ours):
            continue  # compared before, or of a file that this one imports
        seen.add(name)
        fields = {field.number: field for field in ours[name].field}
        numbers = {field.name: field.number for field in ours[name].field}
        for field in theirs[name].field:
            other = fields.get(field.number)
            where = f"{name}.{field.name}"
            if other is None:
                if is_sink or field.name in numbers:
                    number = numbers.get(field.name)
                    has = "has no such field" if number is None else f"has it with the number {number}"
                    raise UnfitError(where, f"{_described(field)} has the number {field.number}; the other one {has}")
                continue
            if not _fits(field, other, is_sink=is_sink):
                raise UnfitError(where, f"{_described(field)} is {_described(other)} there, {other.name}")
            if field.type_name:
                unread.append(field.type_name.removeprefix("."))


def _messages(file: Any) -> dict[str, Any]:
    unread = [(f"{file.package}." if file.package else "", message) for message in file.message_type]
    messages: dict[str, Any] = {}
    while unread:
        prefix, message = unread.pop()
        messages[f"{prefix}{message.name}"] = message
        unread += [(f"{prefix}{message.name}.", each) for each in message.nested_type]
    return messages


def _type_name(field: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    name: str = FieldDescriptorProto.Type.Name(field.type)
    return name.removeprefix("TYPE_")


def _is_repeated(field: Any) -> bool:
    return bool(field.label == field.LABEL_REPEATED)


def _described(field: Any) -> str:
    name = field.type_name.removeprefix(".") or _type_name(field).lower()
    return f"repeated {name}" if _is_repeated(field) else name


def _fits(field: Any, other: Any, *, is_sink: bool) -> bool:
    if is_sink and field.name != other.name:
        return False
    if _is_repeated(field) != _is_repeated(other):
        return False
    if field.type == other.type:
        return bool(field.type_name == other.type_name)
    return not is_sink and _type_name(other) in _READ_AS.get(_type_name(field), ())
