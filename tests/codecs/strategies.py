"""Hypothesis strategies that follow a record type."""

from __future__ import annotations

import datetime
import enum
from decimal import Decimal

from hypothesis import strategies as st

from windrow_runtime.codecs.value_type import Kind, RecordShape, RecordType, ValueType

_UTC = st.just(datetime.UTC)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_SCALARS: dict[Kind, st.SearchStrategy[object]] = {
    Kind.NONE: st.none(),
    Kind.BOOL: st.booleans(),
    Kind.INT: st.integers(-(2**63), 2**63 - 1),
    Kind.FLOAT: st.floats(allow_nan=False),
    Kind.STR: _TEXT,
    Kind.BYTES: st.binary(max_size=8),
    Kind.DECIMAL: st.decimals(-(10**19), 10**19, allow_nan=False, places=6).map(Decimal),
    Kind.UUID: st.uuids(),
    Kind.DATETIME: st.datetimes(timezones=_UTC),
    Kind.DATE: st.dates(),
    Kind.TIMEDELTA: st.timedeltas(datetime.timedelta(days=-90_000_000), datetime.timedelta(days=90_000_000)),
}


def values_of(value: ValueType) -> st.SearchStrategy[object]:
    """Values of a type, ``None`` among them where it is allowed."""
    valid = _valid(value)
    return st.none() | valid if value.nullable else valid


def elements_of(record_type: RecordType) -> st.SearchStrategy[object]:
    """Elements of a record type."""
    return values_of(record_type.root)


def _valid(value: ValueType) -> st.SearchStrategy[object]:
    kind = value.kind
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind is Kind.ENUM:
        return st.sampled_from(_members(value.python_type))
    if kind is Kind.RECORD:
        return _records(value)
    parts = [values_of(part) for part in value.arguments]
    if kind is Kind.TUPLE:
        return st.tuples(*parts)
    if kind is Kind.DICT:
        return st.dictionaries(parts[0], parts[1], max_size=3)
    return st.lists(parts[0], max_size=3).map(value.python_type)


def _members(kind: type) -> list[enum.Enum]:
    assert issubclass(kind, enum.Enum)
    return list(kind)


def _records(value: ValueType) -> st.SearchStrategy[object]:
    fields = {field.name: values_of(field.type) for field in value.fields}
    optional = {field.name for field in value.fields if field.absent_allowed}
    if value.shape is RecordShape.TYPED_DICT:
        required = {name: cell for name, cell in fields.items() if name not in optional}
        return st.fixed_dictionaries(required, optional={name: fields[name] for name in sorted(optional)})
    return st.builds(value.python_type, **fields)
