"""Makes the Avro schema of a type, by which a sink writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn

from windrow.errors import InvalidArgumentError
from windrow_runtime.codecs.value_type import COLLECTIONS, DefaultFactory, Kind, RecordField, RecordType, ValueType

# Any in this module: schemas are JSON.

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


class AvroSchema:
    """The schema that is made of a type, to write by."""

    def __init__(self, record_type: RecordType) -> None:
        self._named: dict[str, ValueType] = {}
        self.text = json.dumps(self._schema(record_type.root, record_type.name))

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

    def _field(self, field: RecordField, path: str) -> dict[str, Any]:
        if not _NAME.fullmatch(field.column):
            raise InvalidArgumentError("a field has a name that Avro has not", given=path, expected="letters of ASCII")
        field_schema = {"name": field.column, "type": self._schema(field.type, path)}
        default = field.default.value if isinstance(field.default, DefaultFactory) else None
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
