"""Reads Avro values by fastavro: of the fields of a schema, those that the columns take."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, Final

from windrow_kafka.registry.avro_limits import avro_limits
from windrow_kafka.registry.avro_schema import AvroType, branch_field, parse_avro, wire_schema
from windrow_kafka.registry.datum import Convert, each_of, mapped, plain_default, record_converter, required
from windrow_runtime.codecs.exact import MICROS, NANOS, exactly
from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.value_type import COLLECTIONS, Kind, RecordType, ValueType

# Any in this module: data are of every type.

_EXACT: Final = decimal.Context(prec=1_000)
_SOON: Final = 2**57
"""Microseconds since 1970 until the year 6500, which a datetime has."""

_PER_SECOND: Final = {"millis": 1_000, "micros": MICROS, "nanos": NANOS}

_PLAIN: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.NONE: ("null",),
    Kind.BOOL: ("boolean",),
    Kind.INT: ("int", "long"),
    Kind.FLOAT: ("float", "double"),
    Kind.STR: ("string",),
    Kind.BYTES: ("bytes", "fixed"),
}
"""Avro's types whose values are those of a kind, as they are."""


def avro_decoder(text: str, referenced: Iterable[str], record_type: RecordType) -> Callable[[bytes], Any]:
    """Returns what decodes values after their first five bytes; ``UnfitError``: the schema does not fit a type."""
    import fastavro

    root = parse_avro(text, referenced)
    try:
        convert = _fit(root, record_type.root, record_type.name)
    except UnfitError as error:
        raise UnfitError(error.path, f"{error.reason} (it is {root})") from None
    check_limits = avro_limits(root, record_type.name)
    wire = fastavro.parse_schema(wire_schema(root))

    def decode(value: bytes) -> Any:
        if check_limits is not None:
            check_limits(value)
        data = BytesIO(value)
        data.seek(5)
        datum = fastavro.schemaless_reader(data, wire, None)
        if data.tell() != len(value):
            raise UnfitError(record_type.name, f"{len(value) - data.tell()} bytes are left after it")
        return datum if convert is None else convert(datum)

    return decode


def misfit(avro_type: AvroType, value: ValueType, path: str) -> UnfitError:
    """The error for a type of a schema that is none of a type in Python."""
    return UnfitError(path, f"the schema has {avro_type}, not {value}")


def branches_that_fit(
    union: AvroType, value: ValueType, path: str, fit: Callable[[AvroType, ValueType, str], Convert | None]
) -> tuple[dict[int, Convert | None], dict[int, UnfitError]]:
    """Returns how the branches of a union fit a type, by their numbers, and why the others do not; null is neither.

    Of several records those with the name of the class fit, or else the only one with all its fields. An Enum is
    rather an ``enum`` than a ``string``, bytes are rather ``bytes`` than a ``fixed``, and a UUID is rather a logical
    type.
    """
    fitting: dict[int, Convert | None] = {}
    faults: dict[int, UnfitError] = {}
    branches = {number: part for number, part in enumerate(union.parts) if part.kind != "null"}
    own_name = value.python_type.__name__
    namesakes = {number for number, part in branches.items() if part.kind == "record" and part.short_name == own_name}
    for number, part in branches.items():
        try:
            if namesakes and part.kind == "record" and number not in namesakes:
                raise misfit(part, value, path)
            fitting[number] = fit(part, value, path)
        except UnfitError as error:
            faults[number] = error
    exact = {number for number in fitting if _is_exact(union.parts[number], value)}
    for number in [number for number in fitting if exact and number not in exact]:
        del fitting[number]
        faults[number] = misfit(union.parts[number], value, path)
    records = [union.parts[number] for number in fitting if union.parts[number].kind == "record"]
    if len(records) > 1:
        names = " and ".join(each.name for each in records)
        raise UnfitError(path, f"the schema has {names}, which both have the fields of {value}; its name says which")
    return fitting, faults


def _is_exact(avro_type: AvroType, value: ValueType) -> bool:
    kind = value.kind
    return (
        (kind is Kind.ENUM and avro_type.kind == "enum")
        or (kind is Kind.BYTES and avro_type.kind == "bytes")
        or (kind is Kind.UUID and avro_type.logical == "uuid")
        or (avro_type.kind == "record" and {field.column for field in value.columns} <= {*dict(avro_type.fields)})
    )


def _fit(avro_type: AvroType, value: ValueType, path: str) -> Convert | None:
    """Returns a function that makes plain values of those that fastavro reads; None: they are plain already."""
    if avro_type.kind != "union":
        is_null = avro_type.kind == "null" and value.nullable
        return None if is_null else _fit_branch(avro_type, value, path)
    has_null = any(part.kind == "null" for part in avro_type.parts)
    may_be_null = value.nullable or value.kind is Kind.NONE
    fitting, faults = branches_that_fit(avro_type, value, path, _fit_branch)
    if not fitting and not (has_null and may_be_null):
        raise next(iter(faults.values()), UnfitError(path, "the schema has null"))
    if avro_type.is_plain_union:
        # Where null alone is read, any other value is refused.
        convert = next(iter(fitting.values())) if fitting else partial(_refuse, next(iter(faults.values()), None))
    else:
        convert = _branch_reader(fitting, faults)
    if has_null and not may_be_null:
        return required(convert, path)
    return None if convert is None else mapped(convert, optional=has_null)


def _branch_reader(fitting: Mapping[int, Convert | None], faults: Mapping[int, UnfitError]) -> Convert:
    converters = {branch_field(number): convert for number, convert in fitting.items()}
    refusals = {branch_field(number): error for number, error in faults.items()}

    def convert_branch(branch: dict[str, Any]) -> Any:
        ((name, datum),) = branch.items()
        if name in refusals:
            _refuse(refusals[name], datum)
        convert = converters[name]
        return datum if convert is None else convert(datum)

    return convert_branch


def _refuse(fault: UnfitError | None, _: Any) -> None:
    if fault is not None:
        raise UnfitError(fault.path, f"the value is of another branch: {fault.reason}")


def _fit_branch(avro_type: AvroType, value: ValueType, path: str) -> Convert | None:
    name, logical, kind = avro_type.kind, avro_type.logical, value.kind
    if kind in (Kind.RECORD, Kind.TUPLE) and name == "record":
        return _fit_record(avro_type, value, path)
    if kind in COLLECTIONS and name == "array":
        item = _fit(avro_type.parts[0], value.arguments[0], f"{path}[]")
        return None if item is None else each_of(item)
    if kind is Kind.DICT and name == "map":
        item = _fit(avro_type.parts[0], value.arguments[1], f"{path}{{}}")
        return lambda entries: [(key, each if item is None else item(each)) for key, each in entries.items()]
    if kind is Kind.ENUM and name in (("enum", "string") if value.scalar_kind is Kind.STR else ("int", "long")):
        return _symbol(avro_type, value, path) if name == "enum" else partial(_member, _values(value), value, path)
    if kind is Kind.DATETIME and logical is not None and "timestamp" in logical:
        return _moment(avro_type, logical, value, path)
    if kind is Kind.DATE and logical == "date":
        return partial(exactly, value=value, path=path)
    if kind is Kind.DECIMAL and logical == "decimal":
        return partial(_decimal, avro_type, value, path)
    if kind is Kind.UUID and name == "string":
        return lambda text: str(uuid.UUID(text))
    if kind is Kind.UUID and logical == "uuid":
        return lambda raw: str(uuid.UUID(bytes=raw))
    if kind is Kind.FLOAT and name in ("int", "long") and logical is None:
        return partial(exactly, value=value, path=path)
    if name in _PLAIN.get(kind, ()) and (logical is None or kind is Kind.STR):
        return None
    raise misfit(avro_type, value, path)


def _fit_record(avro_type: AvroType, value: ValueType, path: str) -> Convert | None:
    written = dict(avro_type.fields)
    if written.keys().isdisjoint(field.column for field in value.columns):
        raise UnfitError(path, f"the schema has {avro_type}, which has no field of {value}")
    converters: list[tuple[str, Convert]] = []
    missing: list[tuple[str, Any]] = []
    for field in value.columns:
        where = f"{path}.{field.column}"
        if field.column in written:
            convert = _fit(written[field.column], field.column_type, where)
            converters += [] if convert is None else [(field.column, convert)]
        elif field.required:
            raise UnfitError(where, f"the schema has no such field in {avro_type}, and it has no default")
        else:
            missing.append((field.column, plain_default(field)))
    return record_converter(converters, missing)


def _values(value: ValueType) -> frozenset[Any]:
    return frozenset(member.value for member in value.python_type)  # type: ignore[attr-defined]  # an Enum class


def _member(values: frozenset[Any], value: ValueType, path: str, datum: Any) -> Any:
    if datum not in values:
        raise UnfitError(path, f"{short_repr(datum)} is no value of {value.python_type.__name__}")
    return datum


def _symbol(avro_type: AvroType, value: ValueType, path: str) -> Convert:
    """Returns what makes a value of an Enum of the number of a symbol; the schema may have a default for the others."""
    values, default = _values(value), avro_type.default

    def convert(number: int) -> Any:
        if not 0 <= number < len(avro_type.symbols):
            raise UnfitError(path, f"{avro_type} has no symbol {number}")
        symbol = avro_type.symbols[number]
        return default if symbol not in values and default in values else _member(values, value, path, symbol)

    return convert


def _moment(avro_type: AvroType, logical: str, value: ValueType, path: str) -> Convert:
    """Returns what makes a moment of a count of a unit of time; a local one is of the source's zone."""
    per_second, zone = _PER_SECOND[logical.rpartition("-")[2]], value.timezone
    micros_each = MICROS // per_second
    largest = _SOON // max(1, micros_each)
    if not logical.startswith("local-"):
        # Columns take microseconds, too; most moments are of the years that need no check.
        return lambda count: (
            count * micros_each if 0 <= count <= largest and micros_each else exactly(count, value, path, per_second)
        )
    if zone is None:
        raise UnfitError(path, f"the schema has {avro_type}, which names no moment; the source may say timezone=")

    def convert(count: int) -> Any:
        moment = exactly(count, value, path, per_second)
        return moment.replace(tzinfo=zone).astimezone(datetime.UTC)

    return convert


def _decimal(avro_type: AvroType, value: ValueType, path: str, raw: bytes) -> Any:
    digits = decimal.Decimal(int.from_bytes(raw, "big", signed=True))
    if len(digits.as_tuple().digits) > avro_type.precision:
        raise UnfitError(path, f"a decimal has more than the {avro_type.precision} digits that its schema says")
    return exactly(digits.scaleb(-avro_type.scale, _EXACT), value, path)
