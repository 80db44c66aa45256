"""Writes values in Avro by fastavro, each as the schema says; nothing is rounded, cut or left out."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, Final

from windrow_kafka.registry.avro_reader import branches_that_fit, misfit
from windrow_kafka.registry.avro_schema import AvroType, branch_field, branch_record, parse_avro, wire_schema
from windrow_kafka.registry.datum import Convert, each_of
from windrow_runtime.codecs.exact import NumberForm, stored
from windrow_runtime.codecs.malformed import UnfitError, short_repr
from windrow_runtime.codecs.value_type import COLLECTIONS, Kind, RecordType, ValueType

# Any in this module: data are of every type.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO: Final = datetime.timedelta(microseconds=1)
_NULL: Final = ("null", None)

_PLAIN: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.NONE: ("null",),
    Kind.BOOL: ("boolean",),
    Kind.INT: ("long", "int"),
    Kind.FLOAT: ("double", "float"),
    Kind.STR: ("string",),
    Kind.BYTES: ("bytes", "fixed"),
    Kind.UUID: ("string",),
}
"""Avro's types that hold values of a kind as they are, if they are wide enough; the widest first."""


def avro_encoder(text: str, referenced: Iterable[str], record_type: RecordType, first: bytes) -> Callable[[Any], bytes]:
    """Returns what encodes a plain value, after the first bytes; ``UnfitError``: the schema does not fit the type."""
    import fastavro

    root = parse_avro(text, referenced)
    convert = _fit(root, record_type.root, record_type.name)
    wire = fastavro.parse_schema(wire_schema(root, names_all=True))

    def encode(value: Any) -> bytes:
        data = BytesIO()
        data.write(first)
        fastavro.schemaless_writer(data, wire, value if convert is None else convert(value))
        return data.getvalue()

    return encode


def _fit(avro_type: AvroType, value: ValueType, path: str) -> Convert | None:
    """Returns a function that makes data for fastavro of plain values; None: fastavro takes them as they are."""
    if avro_type.kind != "union":
        if value.nullable and avro_type.kind == "null":
            return None
        convert = _fit_branch(avro_type, value, path)
        return _not_null(convert, avro_type, path) if value.nullable else convert
    is_null = value.kind is Kind.NONE
    has_null = any(part.kind == "null" for part in avro_type.parts)
    if is_null and has_null:
        return lambda _: _NULL
    fitting, faults = branches_that_fit(avro_type, value, path, _fit_branch)
    if not fitting:
        raise next(iter(faults.values()), misfit(avro_type, value, path))
    order = _PLAIN.get(value.scalar_kind, ())
    number = min(fitting, key=lambda each: order.index(name) if (name := avro_type.parts[each].kind) in order else 0)
    write = partial(_branch, branch_record(avro_type, number), branch_field(number), fitting[number])
    if not value.nullable:
        return write
    return (lambda datum: _NULL if datum is None else write(datum)) if has_null else _not_null(write, avro_type, path)


def _branch(record: str, field: str, convert: Convert | None, datum: Any) -> tuple[str, dict[str, Any]]:
    return record, {field: datum if convert is None else convert(datum)}


def _not_null(convert: Convert | None, avro_type: AvroType, path: str) -> Convert:
    def check(datum: Any) -> Any:
        if datum is None:
            raise UnfitError(path, f"None, where the schema has {avro_type}")
        return datum if convert is None else convert(datum)

    return check


def _fit_branch(avro_type: AvroType, value: ValueType, path: str) -> Convert | None:
    name, logical, kind = avro_type.kind, avro_type.logical, value.kind
    if kind in (Kind.RECORD, Kind.TUPLE) and name == "record":
        return _fit_record(avro_type, value, path)
    if kind in COLLECTIONS and name == "array":
        item = _fit(avro_type.parts[0], value.arguments[0], f"{path}[]")
        return None if item is None else each_of(item)
    if kind is Kind.DICT and name == "map":
        item = _fit(avro_type.parts[0], value.arguments[1], f"{path}{{}}")
        return lambda entries: {key: each if item is None else item(each) for key, each in entries}
    if kind is Kind.ENUM:
        if name == "enum" and value.scalar_kind is Kind.STR:
            return partial(_number_of, {symbol: at for at, symbol in enumerate(avro_type.symbols)}, avro_type, path)
        return _fit_branch(avro_type, value.arguments[0], path)
    if kind is Kind.DATETIME and logical is not None and logical.startswith("timestamp"):
        return partial(_moment, logical, path)
    if kind is Kind.DATE and logical == "date":
        return lambda day: day.toordinal() - _EPOCH.toordinal()
    if kind is Kind.DECIMAL and logical == "decimal":
        return partial(_decimal, avro_type, path)
    if kind is Kind.UUID and logical == "uuid" and name == "fixed":
        return lambda text: uuid.UUID(text).bytes
    if name in _PLAIN.get(kind, ()) and (logical is None or logical == "uuid") and (logical, name) != ("uuid", "fixed"):
        check = _CHECKS.get("uuid" if logical == "uuid" and kind is Kind.STR else name)
        return None if check is None else partial(check, avro_type, path)
    raise misfit(avro_type, value, path)


def _fit_record(avro_type: AvroType, value: ValueType, path: str) -> Convert | None:
    written = dict(avro_type.fields)
    columns = {field.column for field in value.columns}
    for name, of_field in avro_type.fields:
        if name not in columns:
            raise UnfitError(f"{path}.{name}", f"{avro_type} has this field of {of_field}, and {value} lacks it")
    converters: list[tuple[str, Convert]] = []
    for field in value.columns:
        where = f"{path}.{field.column}"
        if field.column not in written:
            raise UnfitError(where, f"{avro_type} lacks this field of {field.type}")
        convert = _fit(written[field.column], field.column_type, where)
        converters += [] if convert is None else [(field.column, convert)]
    if not converters:
        return None
    # The record itself stays as it is, for errors to show.
    return lambda record: {**record, **{column: convert(record[column]) for column, convert in converters}}


def _number_of(numbers: Mapping[str, int], avro_type: AvroType, path: str, symbol: str) -> int:
    if symbol not in numbers:
        raise UnfitError(path, f"{symbol!r} is no symbol of {avro_type}, which has {', '.join(numbers)}")
    return numbers[symbol]


def _moment(logical: str, path: str, moment: datetime.datetime) -> int:
    micros = (moment - _EPOCH) // _MICRO
    if logical.endswith("micros"):
        return micros
    if logical.endswith("nanos"):
        return int(stored(micros * 1_000, NumberForm.INT64, path))
    millis, finer = divmod(micros, 1_000)
    if finer:
        raise UnfitError(path, f"{moment} is finer than a {logical}")
    return millis


def _decimal(avro_type: AvroType, path: str, value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "columns hold numbers alone"
    unscaled, rest = divmod(int("".join(map(str, digits))), 10 ** max(0, -exponent - avro_type.scale))
    unscaled = int(unscaled * 10 ** max(0, exponent + avro_type.scale))
    if rest or len(str(unscaled)) > avro_type.precision:
        digits_of = f"{avro_type.precision} digits, {avro_type.scale} of them after the point, of {avro_type}"
        raise UnfitError(path, f"{value} has more than the {digits_of}")
    unscaled = -unscaled if sign else unscaled
    size: int = avro_type.size if avro_type.kind == "fixed" else (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _fixed(avro_type: AvroType, path: str, value: bytes) -> bytes:
    if len(value) != avro_type.size:
        raise UnfitError(path, f"{len(value)} bytes, where {avro_type} has {avro_type.size}")
    return value


def _uuid_text(avro_type: AvroType, path: str, text: str) -> str:
    try:
        uuid.UUID(text)
    except ValueError:
        raise UnfitError(path, f"{short_repr(text)} is no {avro_type}") from None
    return text


_CHECKS: Final[Mapping[str, Callable[[AvroType, str, Any], Any]]] = {
    "int": lambda _, path, number: stored(number, NumberForm.INT32, path),
    "float": lambda _, path, number: stored(number, NumberForm.FLOAT32, path),
    "fixed": _fixed,
    "uuid": _uuid_text,
}
"""What checks values of Avro's types that are narrower than the values of columns."""
