"""Parses Avro schemas of a registry into types, and gives fastavro a schema of the same bytes that names branches."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from windrow_runtime.codecs.malformed import UnfitError

# Any in this module: schemas are JSON.

_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LONG_TIMES: Final = frozenset(
    f"{prefix}timestamp-{unit}" for prefix in ("", "local-") for unit in ("millis", "micros", "nanos")
)


@dataclass(eq=False, slots=True)
class AvroType:
    """A type of a schema; where a schema names a type again, it is the same object.

    Attributes:
        kind: Avro's name of the type, such as ``record``, or ``union``.
        logical: Its logical type; None where it has none that windrow knows, or one that its type does not fit, which
            Avro's standard says to ignore.
        name: The full name of a record, an enum or a fixed; of a union, one of our own.
        fields: The fields of a record.
        parts: The items of an array, the values of a map, or the branches of a union.
    """

    kind: str
    logical: str | None = None
    name: str = ""
    fields: list[tuple[str, AvroType]] = field(default_factory=list)
    parts: list[AvroType] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None  # the symbol of an enum for those that a reader does not know
    size: int = 0  # of a fixed, in bytes
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "union":
            return f"a union of {', '.join(map(str, self.parts))}"
        named = f"{self.kind} {self.name}" if self.name else self.kind
        return named if self.logical is None else f"{named} of {self.logical}"

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    @property
    def is_plain_union(self) -> bool:
        """Returns whether a union has at most one branch beside null, so that its values show their branch."""
        return sum(part.kind != "null" for part in self.parts) <= 1


def parse_avro(text: str, referenced: Iterable[str] = ()) -> AvroType:
    """Returns the type of a schema; ``referenced`` has the schemas of the names in it, in the order of their use."""
    parser = _Parser()
    try:
        for other in referenced:
            parser.parse(json.loads(other), "")
        return parser.parse(json.loads(text), "")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UnfitError("schema", f"it is no schema of Avro: {type(error).__name__}: {error}") from None


class _Parser:
    """Parses schemas, each of which may name the types of the earlier ones."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._unions = 0

    def parse(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, list):
            self._unions += 1
            name = f"union{self._unions}"
            return AvroType("union", name=name, parts=[self.parse(each, namespace) for each in schema])
        if isinstance(schema, str):
            return self._of_name(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, kind, namespace)
        if kind in ("array", "map"):
            return AvroType(kind, parts=[self.parse(schema["items" if kind == "array" else "values"], namespace)])
        if kind not in _PRIMITIVE:
            return self._of_name(kind, namespace)
        return _with_logical(AvroType(kind), schema)

    def _of_name(self, name: str, namespace: str) -> AvroType:
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        for known in (full_name, name):
            if known in self._named:
                return self._named[known]
        if name not in _PRIMITIVE:
            raise ValueError(f"it names {name!r}, which is no type")
        return AvroType(name)

    def _definition(self, schema: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        name = schema["name"]
        if "." not in name:
            namespace = schema.get("namespace", namespace) or ""
            name = f"{namespace}.{name}" if namespace else name
        namespace = name.rpartition(".")[0]
        avro_type = self._named[name] = AvroType("record" if kind == "error" else kind, name=name)
        if kind == "enum":
            avro_type.symbols, avro_type.default = tuple(schema["symbols"]), schema.get("default")
        elif kind == "fixed":
            avro_type.size = int(schema["size"])
            _with_logical(avro_type, schema)
        else:
            avro_type.fields += [(each["name"], self.parse(each["type"], namespace)) for each in schema["fields"]]
        return avro_type


def _with_logical(avro_type: AvroType, schema: Mapping[str, Any]) -> AvroType:
    """Adds the logical type that a schema gives to a type, unless it is unknown or does not fit."""
    logical, kind = schema.get("logicalType"), avro_type.kind
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        most = math.inf if kind == "bytes" else math.floor(math.log10(2) * (8 * avro_type.size - 1))
        if kind not in ("bytes", "fixed") or type(precision) is not int or type(scale) is not int:
            return avro_type
        if not (0 < precision <= most and 0 <= scale <= precision):
            return avro_type
        avro_type.precision, avro_type.scale = precision, scale
    elif not (
        (logical in _LONG_TIMES and kind == "long")
        or (logical == "date" and kind == "int")
        or (logical == "uuid" and (kind == "string" or (kind == "fixed" and avro_type.size == 16)))
    ):
        return avro_type
    avro_type.logical = logical
    return avro_type


def branch_field(number: int) -> str:
    """The name of the only field of the record in which fastavro has a branch of a union."""
    return f"branch{number}"


def branch_record(union: AvroType, number: int) -> str:
    """The name of that record."""
    return f"{union.name}_{branch_field(number)}"


def wire_schema(root: AvroType, *, names_all: bool = False) -> Any:
    """Returns a schema of the same bytes for fastavro, whose values are no more than what the bytes say.

    A record with one field takes the bytes of that field. So each branch of a union becomes a record of one field,
    whose name says of which branch a value is: fastavro itself names only records. Plain unions stay as they are,
    unless ``names_all``. Enums are the numbers of their symbols, and there is no logical type.
    """
    return _Wire(names_all=names_all).of(root)


class _Wire:
    def __init__(self, *, names_all: bool) -> None:
        self._names_all = names_all
        self._defined: dict[AvroType, str] = {}

    def of(self, avro_type: AvroType) -> Any:
        kind = avro_type.kind
        if kind == "enum":
            return "int"
        if kind == "array":
            return {"type": "array", "items": self.of(avro_type.parts[0])}
        if kind == "map":
            return {"type": "map", "values": self.of(avro_type.parts[0])}
        if kind == "union":
            names_branches = self._names_all or not avro_type.is_plain_union
            return [
                self._branch(avro_type, number, part) if names_branches and part.kind != "null" else self.of(part)
                for number, part in enumerate(avro_type.parts)
            ]
        if kind not in ("record", "fixed"):
            return kind
        if avro_type in self._defined:
            return self._defined[avro_type]
        name = self._defined[avro_type] = f"type{len(self._defined)}"
        if kind == "fixed":
            return {"type": "fixed", "name": name, "size": avro_type.size}
        fields = [{"name": column, "type": self.of(part)} for column, part in avro_type.fields]
        return {"type": "record", "name": name, "fields": fields}

    def _branch(self, union: AvroType, number: int, part: AvroType) -> Any:
        only = {"name": branch_field(number), "type": self.of(part)}
        return {"type": "record", "name": branch_record(union, number), "fields": [only]}
