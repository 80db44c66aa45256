"""Reads and writes values in Avro by fastavro: what a schema has, as what columns take."""

from __future__ import annotations

import decimal
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any, Final, NoReturn

from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.malformed import UnfitError
from windrow_runtime.codecs.registry.datum import Convert, each_of, mapped, plain_default, record_converter, required
from windrow_runtime.codecs.value_type import COLLECTIONS, Constant, Field, Kind, RecordType, ValueType

# Any in this module: schemas are JSON, and data are of every type.

_TYPES: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.NONE: ("null",),
    Kind.BOOL: ("boolean",),
    Kind.INT: ("int", "long"),
    Kind.FLOAT: ("int", "long", "float", "double"),
    Kind.STR: ("string",),
    Kind.BYTES: ("bytes", "fixed"),
}
"""Avro's types whose values are those of a kind, as they are."""

_LOGICAL: Final[Mapping[Kind, Mapping[str, Any]]] = {
    Kind.NONE: {"type": "null"},
    Kind.BOOL: {"type": "boolean"},
    Kind.INT: {"type": "long"},
    Kind.FLOAT: {"type": "double"},
    Kind.STR: {"type": "string"},
    Kind.BYTES: {"type": "bytes"},
    Kind.DATETIME: {"type": "long", "logicalType": "timestamp-micros"},
    Kind.DATE: {"type": "int", "logicalType": "date"},
    Kind.UUID: {"type": "string", "logicalType": "uuid"},
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXACT: Final = decimal.Context(prec=80)


class _Schemas:
    """Finds the named types of a schema."""

    def __init__(self, parsed: Any, named: Mapping[str, Any]) -> None:
        self.root = parsed
        self._named = named

    def resolved(self, schema: Any) -> Any:
        """Returns the definition that a name stands for, and a type without attributes as one with."""
        if isinstance(schema, str):
            return self._named.get(schema, {"type": schema})
        if isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
            return self.resolved(schema["type"])
        return schema

    def branches(self, schema: Any) -> list[Any]:
        """Returns the types of a union, and any other type alone."""
        avro_type = self.resolved(schema)
        return list(map(self.resolved, avro_type)) if isinstance(avro_type, list) else [avro_type]


def avro_decoder(text: str, named: Mapping[str, Any], kind: RecordType) -> Callable[[bytes], Any]:
    """Returns what decodes values behind their first five bytes; ``UnfitError``: the schema does not fit a type."""
    import fastavro

    known = dict(named)
    parsed = fastavro.parse_schema(json.loads(text), named_schemas=known)
    convert = _fit(_Schemas(parsed, known), parsed, kind.root, kind.name)

    def decode(value: bytes) -> Any:
        data = BytesIO(value)
        data.seek(5)
        datum = fastavro.schemaless_reader(data, parsed, None)
        if data.tell() != len(value):
            raise UnfitError(kind.name, f"{len(value) - data.tell()} bytes are left behind it")
        return datum if convert is None else convert(datum)

    return decode


def _fit(schemas: _Schemas, schema: Any, value: ValueType, path: str) -> Convert | None:
    """Returns what makes plain values of what fastavro reads; None: these are plain."""
    branches = schemas.branches(schema)
    others = [each for each in branches if each["type"] != "null"] if value.kind is not Kind.NONE else branches
    if not others:
        if value.nullable:
            return None
        raise UnfitError(path, "the schema has null")
    faults: list[UnfitError] = []
    for branch in others:
        try:
            convert = _fit_branch(schemas, branch, value, path)
        except UnfitError as error:
            faults.append(error)
            continue
        has_null = len(others) < len(branches)
        return (
            required(convert, path)
            if has_null and not value.nullable
            else convert and mapped(convert, optional=has_null)
        )
    raise faults[0]


def _fit_branch(schemas: _Schemas, schema: Any, value: ValueType, path: str) -> Convert | None:
    name, logical, kind = schema["type"], schema.get("logicalType"), value.kind
    if kind in (Kind.RECORD, Kind.TUPLE) and name == "record":
        return _fit_record(schemas, schema, value, path)
    if kind in COLLECTIONS and name == "array":
        item = _fit(schemas, schema["items"], value.arguments[0], f"{path}[]")
        return None if item is None else each_of(item)
    if kind is Kind.DICT and name == "map":
        item = _fit(schemas, schema["values"], value.arguments[1], f"{path}{{}}")
        return lambda entries: [(key, each if item is None else item(each)) for key, each in entries.items()]
    if kind is Kind.ENUM and name in (("enum", "string") if value.scalar_kind is Kind.STR else ("int", "long")):
        return _member(value, path)
    if kind is Kind.DATETIME and name == "long" and logical in ("timestamp-millis", "timestamp-micros"):
        return None
    if kind is Kind.DATETIME and name == "long" and logical == "timestamp-nanos":
        return lambda nanos: nanos // 1_000
    if kind is Kind.DATE and name == "int" and logical == "date":
        return None
    if kind is Kind.DECIMAL and logical == "decimal":
        return None
    if kind is Kind.UUID and name == "string":
        return lambda text: str(uuid.UUID(str(text)))
    # A logical type makes another value of it; those that fastavro does not know are none.
    if name in _TYPES.get(kind, ()) and (logical is None or kind is Kind.STR):
        return str if logical == "uuid" else None
    raise UnfitError(path, f"the schema has {name if logical is None else f'{name} of {logical}'}, not {value}")


def _member(value: ValueType, path: str) -> Convert:
    allowed = {member.value for member in value.python_type}  # type: ignore[attr-defined]  # an Enum class, by its kind

    def check(symbol: Any) -> Any:
        if symbol not in allowed:
            raise UnfitError(path, f"{symbol!r} is no value of {value.python_type.__name__}")
        return symbol

    return check


def _fit_record(schemas: _Schemas, schema: Any, value: ValueType, path: str) -> Convert | None:
    written = {field["name"]: field["type"] for field in schema["fields"]}
    converters: list[tuple[str, Convert]] = []
    missing: list[tuple[str, Any]] = []
    for field in value.columns:
        where = f"{path}.{field.column}"
        if field.column in written:
            convert = _fit(schemas, written[field.column], field.type, where)
            converters += [] if convert is None else [(field.column, convert)]
        elif field.required:
            raise UnfitError(where, "the schema has no such field, and it has no default")
        else:
            missing.append((field.column, plain_default(field)))
    return record_converter(converters, missing)


class AvroSchema:
    """The schema that is made of a type, to write by."""

    def __init__(self, kind: RecordType) -> None:
        self._named: dict[str, ValueType] = {}
        self.text = json.dumps(self._schema(kind.root, kind.name))

    def _schema(self, value: ValueType, path: str) -> Any:
        plain = self._plain(value, path)
        return ["null", plain] if value.nullable and value.kind is not Kind.NONE else plain

    def _plain(self, value: ValueType, path: str) -> Any:
        kind = value.kind
        if kind is Kind.DECIMAL:
            digits = {"precision": value.precision, "scale": value.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        if kind in COLLECTIONS:
            return {"type": "array", "items": self._schema(value.arguments[0], f"{path}[]")}
        if kind is Kind.DICT:
            if value.arguments[0].kind is not Kind.STR:
                _refuse(path, value, "dict[str, ...]")
            return {"type": "map", "values": self._schema(value.arguments[1], f"{path}{{}}")}
        if kind is Kind.ENUM:
            members = [member.value for member in value.python_type]  # type: ignore[attr-defined]  # an Enum class
            if value.scalar_kind is Kind.INT or not all(map(_NAME.fullmatch, members)):
                return self._plain(value.arguments[0], path)
            return self._defined(value, {"type": "enum", "symbols": members})
        if kind in (Kind.RECORD, Kind.TUPLE):
            return self._record(value, path)
        logical_type = _LOGICAL.get(kind)
        return dict(logical_type) if logical_type is not None else _refuse(path, value, "a type that Avro has")

    def _record(self, value: ValueType, path: str) -> Any:
        # The name is taken before those of the records within.
        record_schema = self._defined(value, {"type": "record"})
        if isinstance(record_schema, dict):
            record_schema["fields"] = [self._field(field, f"{path}.{field.column}") for field in value.columns]
        return record_schema

    def _field(self, field: Field, path: str) -> dict[str, Any]:
        if not _NAME.fullmatch(field.column):
            raise InvalidArgumentError("a field has a name that Avro has not", given=path, expected="letters of ASCII")
        field_schema = {"name": field.column, "type": self._schema(field.type, path)}
        default = field.default.value if isinstance(field.default, Constant) else None
        if field.type.nullable:
            return {**field_schema, "default": None}
        has_default = type(default) in (bool, int, float, str) and field.type.kind in (
            Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STR
        )  # fmt: skip
        return {**field_schema, "default": default} if has_default else field_schema

    def _defined(self, value: ValueType, schema: dict[str, Any]) -> Any:
        """Returns a named type where it comes first, and its name where it comes again."""
        plain = re.sub(r"\W", "_", value.python_type.__name__, flags=re.ASCII)
        number, name, value = 1, plain, replace(value, nullable=False)
        while name in self._named:
            if self._named[name] == value:
                return name
            number += 1
            name = f"{plain}_{number}"
        self._named[name] = value
        return {"name": name, **schema}


def _refuse(path: str, value: ValueType, expected: str) -> NoReturn:
    raise InvalidArgumentError("this type has no form in Avro", given=f"{path}: {value}", expected=expected)


def avro_encoder(
    text: str, named: Mapping[str, Any], kind: RecordType
) -> Callable[[bytes, Sequence[Any]], list[bytes]]:
    """Returns what encodes plain values by a schema, each behind the same first bytes."""
    import fastavro

    parsed = fastavro.parse_schema(json.loads(text), named_schemas=dict(named))
    convert = _written(kind.root)

    def encode(first: bytes, values: Sequence[Any]) -> list[bytes]:
        encoded: list[bytes] = []
        for value in values:
            data = BytesIO()
            data.write(first)
            fastavro.schemaless_writer(data, parsed, value if convert is None else convert(value))
            encoded.append(data.getvalue())
        return encoded

    return encode


def _as_map(item: Convert | None, entries: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    return dict(entries) if item is None else {key: item(each) for key, each in entries}


def _written(value: ValueType) -> Convert | None:
    """Returns what makes data for fastavro of plain values; None: these are such data."""
    convert: Convert | None = None
    if value.kind is Kind.DECIMAL:
        # A schema of the registry may have fewer digits behind the point.
        return mapped(_EXACT.normalize, optional=value.nullable)
    if value.kind is Kind.DICT:
        item = _written(value.arguments[1])
        convert = partial(_as_map, item)
    elif value.kind in COLLECTIONS:
        part = _written(value.arguments[0])
        convert = None if part is None else each_of(part)
    elif value.kind in (Kind.RECORD, Kind.TUPLE):
        parts = [(field.column, _written(field.type)) for field in value.columns]
        convert = record_converter([(column, each) for column, each in parts if each is not None], [])
    return None if convert is None else mapped(convert, optional=value.nullable)
