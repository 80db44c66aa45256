"""Works on columns of a stream's elements: takes them from a source, computes expressions, makes Python values.

An expression is computed without a Python object for each element. It has a column form where Arrow gives, for every
element, what Python would give. Where it might differ (an int that grows beyond 64 bits, a division by zero, a
comparison across types) it is declined.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates import Binary, Constant, Element, Expression, Field, Item, Unary
from windrow.aggregates.expressions import COMPARISONS
from windrow_runtime.codecs.arrow.decoding import decode_batch, schema_faults
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type
from windrow_runtime.codecs.value_type import Field as RecordField
from windrow_runtime.codecs.value_type import Kind, RecordShape, RecordType, ValueType
from windrow_runtime.operators.errors import DeclinedError

# Any in this module: values are of every type.

_ORDERED: Final = frozenset(
    {Kind.INT, Kind.FLOAT, Kind.STR, Kind.BYTES, Kind.DECIMAL, Kind.DATETIME, Kind.DATE, Kind.TIMEDELTA}
)
_PLAIN: Final = _ORDERED | {Kind.BOOL}
"""Kinds whose values are all values of the column's Arrow type, years beyond 9999 left out."""

# The first and the last value of a column whose years are those of Python, 1 to 9999.
_MICROSECONDS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS: Final = tuple([(day - datetime.date(1970, 1, 1)).days for day in (datetime.date.min, datetime.date.max)])
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_LARGEST_EXACT: Final = 2**53
_FUNCTIONS: Final = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
}
"""Arrow's functions for operators."""


def clean_columns(batch: pa.RecordBatch, kind: RecordType) -> pa.RecordBatch | None:
    """The columns of a type's elements in a batch of a source, in its order and of its Arrow types.

    None if a record may be malformed, or a column has to be made of defaults: then records are decoded one by one.
    """
    if schema_faults(batch.schema, kind):
        return None  # a cast may take what decoding refuses
    schema = arrow_schema(kind)
    columns: list[pa.Array] = []
    for field, wanted in zip(kind.columns, schema, strict=True):
        place = batch.schema.get_field_index(field.column)
        if place < 0:
            return None
        column = batch.column(place)
        if column.null_count and not field.type.nullable:
            return None
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            return None  # Python knows where the clock is
        if column.type != wanted.type:
            try:
                column = column.cast(wanted.type)
            except pa.ArrowException:
                return None
        if field.type.kind in (Kind.DATETIME, Kind.DATE):
            days = pa.types.is_date(column.type)
            low, high = pc.min_max(column.view(pa.int32() if days else pa.int64())).values()
            first, last = _DAYS if days else _MICROSECONDS
            if low.is_valid and not first <= low.as_py() <= high.as_py() <= last:
                return None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """An expression over columns."""

    expression: Expression  # what it computes of an element whose fields are named as its columns
    value: ValueType  # the type of what it gives

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of what it gives."""
        return arrow_type(self.value)

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """An array with the value for each element."""
        return _evaluate(self.expression, columns)


@dataclass(frozen=True, slots=True)
class WholeElement:
    """The element itself, as a column of records."""

    kind: RecordType  # which is no single value

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the records."""
        return arrow_type(self.kind.root)

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """An array with the record of each element."""
        fields = list(self.arrow_type)
        return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)


def check_element(kind: RecordType) -> None:
    """Declines a type of elements if a value of a column may be none of its field, so that records have to be made."""
    for field in kind.columns:
        path = kind.name if kind.single else f"{kind.name}.{field.name}"
        if field.type.kind not in _PLAIN:
            raise DeclinedError(f"{path} is a {field.type}")
        if field.absent_allowed:
            raise DeclinedError(f"{path} may be absent")


def column_expression(expression: Expression, kind: RecordType) -> ColumnExpression:
    """An expression over elements of a type as one over their columns; declined where Arrow may give another value."""
    match expression:
        case Element():
            if not kind.single:
                raise DeclinedError("takes the whole element")
            return ColumnExpression(Field(Element(), kind.columns[0].column), kind.columns[0].type)
        case Field() | Item():
            field = _field_of(expression, kind)
            return ColumnExpression(Field(Element(), field.column), field.type)
        case Constant():
            return ColumnExpression(expression, _constant_type(expression))
        case Unary():
            of = column_expression(expression.of, kind)
            if of.value.kind is not Kind.FLOAT or of.value.nullable:
                raise DeclinedError(f"{expression} is computed in Python: only floats that are never None are not")
            return ColumnExpression(Unary(expression.operator, of.expression), of.value)
        case Binary():
            left, right = (column_expression(side, kind) for side in (expression.left, expression.right))
            by_column = Binary(expression.operator, left.expression, right.expression)
            return ColumnExpression(by_column, _binary(expression, left.value, right.value))
    raise DeclinedError(f"{expression} has no column form")


def _field_of(expression: Field | Item, kind: RecordType) -> RecordField:
    if not isinstance(expression.of, Element):
        raise DeclinedError(f"{expression} lies within a field")
    if kind.single:
        raise DeclinedError(f"{expression} is no column")
    is_field, is_dict = isinstance(expression, Field), kind.root.shape is RecordShape.TYPED_DICT
    name = expression.name if isinstance(expression, Field) else expression.key
    if kind.root.kind is Kind.RECORD and is_field != is_dict:
        for field in kind.columns:
            if field.name == name:
                return field
    is_tuple = kind.root.kind is Kind.TUPLE or kind.root.shape is RecordShape.NAMED_TUPLE
    if isinstance(name, int) and is_tuple and -len(kind.columns) <= name < len(kind.columns):
        return kind.columns[name]
    raise DeclinedError(f"{expression} is no {'field' if is_field else 'column'}")


def _constant_type(constant: Constant) -> ValueType:
    kinds = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.STR}
    kind = kinds.get(type(constant.value))
    if kind is None:
        raise DeclinedError(f"uses {constant}")
    if isinstance(constant.value, str):
        try:
            constant.value.encode()
        except UnicodeEncodeError:
            # Columns hold no such text, yet Python compares with it.
            raise DeclinedError(f"uses {constant}, which is no text of UTF-8") from None
    return ValueType(kind, type(constant.value))


def _binary(expression: Binary, left: ValueType, right: ValueType) -> ValueType:
    if left.nullable or right.nullable:
        raise DeclinedError(f"{expression} may meet None")
    if expression.operator in COMPARISONS:
        _check_comparison(expression, left, right)
        return ValueType(Kind.BOOL, bool)
    kinds, sides = {left.kind, right.kind}, (expression.left, expression.right)
    # A division by a column may fail at any element.
    by_number = isinstance(expression.right, Constant) and bool(expression.right.value)
    divides = expression.operator == "/" and left.kind is Kind.FLOAT and by_number
    if (divides or expression.operator in ("+", "-", "*")) and Kind.FLOAT in kinds and kinds <= {Kind.INT, Kind.FLOAT}:
        # An int that is added to a float becomes one first: in Arrow as in Python, where the float can hold it.
        if any(abs(_int_of(side) or 0) > _LARGEST_EXACT for side in sides):
            raise DeclinedError(f"{expression} has an int that no float can hold")
        return ValueType(Kind.FLOAT, float)
    raise DeclinedError(f"{expression} is computed in Python: ints may outgrow 64 bits, and divisions may fail")


def _check_comparison(expression: Binary, left: ValueType, right: ValueType) -> None:
    kinds, sides = {left.kind, right.kind}, ((expression.left, left), (expression.right, right))
    ints = [_int_of(side) for side, value in sides if value.kind is Kind.INT]
    if kinds == {Kind.INT, Kind.FLOAT}:
        # A float against a small int: Python compares exactly, and so does a float that can hold the int.
        if any(number is None or abs(number) > _LARGEST_EXACT for number in ints):
            raise DeclinedError(f"{expression} compares an int with a float")
        return
    is_same = len(kinds) == 1 and (kinds <= _ORDERED or (expression.operator in ("==", "!=") and kinds == {Kind.BOOL}))
    if not is_same or any(not -(2**63) <= (number or 0) < 2**63 for number in ints):
        raise DeclinedError(f"{expression} compares {left} with {right}")


def _int_of(side: Expression) -> int | None:
    """The int that is one side of an operator; None: it is something else."""
    return side.value if isinstance(side, Constant) and type(side.value) is int else None


def _evaluate(expression: Expression, columns: Mapping[str, pa.Array]) -> pa.Array:
    match expression:
        case Field():
            return columns[expression.name]
        case Constant():
            return pa.scalar(expression.value)
        case Unary():
            value = _evaluate(expression.of, columns)
            return value if expression.operator == "+" else pc.negate(value)
    assert isinstance(expression, Binary), "there are no other ones over columns"
    sides = [_evaluate(side, columns) for side in (expression.left, expression.right)]
    if expression.operator not in COMPARISONS:
        sides = [side if side.type == pa.float64() else side.cast(pa.float64(), safe=False) for side in sides]
    return pc.call_function(_FUNCTIONS[expression.operator], sides)


def python_values(column: pa.Array) -> list[Any]:
    """The Python values of a column; timestamps are datetimes in UTC, also within lists."""
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64()).to_pylist()
        return [None if value is None else _EPOCH + datetime.timedelta(microseconds=value) for value in micros]
    if pa.types.is_list(column.type) and pa.types.is_timestamp(column.type.value_type):
        items = iter(python_values(column.flatten()))
        lengths = column.value_lengths().to_pylist()
        return [None if length is None else [next(items) for _ in range(length)] for length in lengths]
    values: list[Any] = column.to_pylist()
    return values


def element_values(column: pa.Array, element: RecordType) -> list[Any]:
    """Returns the values of a column as :func:`python_values` does, but records as objects of the element's class."""
    kind = column.type
    if pa.types.is_struct(kind):
        value = replace(element.root, nullable=True)
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        value = ValueType(Kind.LIST, list, arguments=(element.root,))
    else:
        return python_values(column)
    whole = RecordType(None, str(value), value, (RecordField("value", "value", value),))
    return decode_batch(pa.RecordBatch.from_arrays([column], ["value"]), whole)
