"""Schemas of registries: records of Avro, and files and classes of Protobuf as protoc makes them."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from windrow.kafka import AvroFormat, ProtobufFormat
from windrow_kafka.registry.client import client_of

pytest.importorskip("confluent_kafka.schema_registry")
pytest.importorskip("confluent_kafka.schema_registry.protobuf")

from confluent_kafka.schema_registry import Schema
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

# Any in this module: schemas as JSON, and generated classes of messages.

KINDS = descriptor_pb2.FieldDescriptorProto
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
_NUMBERS = count()
_KNOWN = {"timestamp": timestamp_pb2, "duration": duration_pb2, "wrappers": wrappers_pb2}


def own_registry() -> str:
    return f"mock://{uuid.uuid4().hex}"


def registered(form: AvroFormat | ProtobufFormat, schema: Any, subject: str = "there") -> int:
    """Registers the text of a schema, or a file of Protobuf; returns the schema's id."""
    text = schema if isinstance(schema, str) else base64.b64encode(schema.SerializeToString()).decode()
    made: Any = Schema  # made by attrs, whose types are not there without it
    kind = "AVRO" if isinstance(form, AvroFormat) else "PROTOBUF"
    number: int = client_of(form).register_schema(subject, made(text, kind))
    return number


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """A record of Avro."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": of} for key, of in fields.items()]}


def file(*, enums: Mapping[str, Sequence[str]] | None = None, **messages: dict[str, Any]) -> Any:
    """A file of messages of Protobuf.

    A message has by the names of fields their types, or names of types, or lists of one of these, or a pair of number
    and type. A dict is a message within, which is that of a map if its name ends with ``Entry``. A field whose name
    ends with ``_`` is optional.
    """
    found = descriptor_pb2.FileDescriptorProto(
        name=f"acme{next(_NUMBERS)}.proto", package="acme", syntax="proto3",
        dependency=[f"google/protobuf/{name}.proto" for name in _KNOWN],
    )  # fmt: skip
    for name, values in (enums or {}).items():
        of_values = found.enum_type.add(name=name).value
        for number, value in enumerate(values):
            of_values.add(name=value, number=number)
    for name, fields in messages.items():
        _add(found.message_type.add(name=name), fields, {f"acme.{name}" for name in enums or {}})
    return found


def _add(message: Any, fields: dict[str, Any], enums: set[str]) -> None:
    message.options.map_entry = message.name.endswith("Entry")
    for at, (name, described) in enumerate(fields.items(), start=1):
        if isinstance(described, dict):
            _add(message.nested_type.add(name=name), described, enums)
            continue
        number, many = described if isinstance(described, tuple) else (at, described)
        is_many, kind = (True, many[0]) if isinstance(many, list) else (False, many)
        field = message.field.add(name=name.removesuffix("_"), number=number, label=3 if is_many else 1)
        if name.endswith("_"):
            message.oneof_decl.add(name=f"_{name}")
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl) - 1
        if isinstance(kind, str):
            field.type = KINDS.TYPE_ENUM if kind in enums else KINDS.TYPE_MESSAGE
            field.type_name = f".{kind}"
        else:
            field.type = kind


def classes(described: Any) -> dict[str, Any]:
    """The class of each message of a file."""
    pool = descriptor_pool.DescriptorPool()
    for known in _KNOWN.values():
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(described.SerializeToString())
    named = {each.name: pool.FindMessageTypeByName(f"acme.{each.name}") for each in described.message_type}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in named.items()}
