"""Computes plain expressions on columns of a stream's elements, without a Python object for each.

An expression has a column form where Arrow gives, for every element, what Python would give. Where it might differ (an
int that grows beyond 64 bits, a division by zero, a comparison across types) it is declined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates import Binary, Constant, Element, Expression, Field, Item, Unary
from windrow.aggregates.expressions import COMPARISONS
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.value_type import Field as RecordField
from windrow_runtime.codecs.value_type import Kind, RecordShape, RecordType, ValueType
from windrow_runtime.columnar.array_types import Array, ArrowType
from windrow_runtime.operators.declined import DeclinedError

Columns: TypeAlias = Mapping[str, Array]
"""Arrow arrays of one length, by the names of the columns."""

_ORDERED: Final = frozenset(
    {Kind.INT, Kind.FLOAT, Kind.STR, Kind.BYTES, Kind.DECIMAL, Kind.DATETIME, Kind.DATE, Kind.TIMEDELTA}
)
_PLAIN: Final = _ORDERED | {Kind.BOOL}
"""Kinds whose values are all values of the column's Arrow type, years beyond 9999 left out."""

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


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """An expression over columns.

    Attributes:
        expression: What it computes of an element whose fields are named as its columns.
        value: The type of what it gives.
    """

    expression: Expression
    value: ValueType

    @property
    def arrow_type(self) -> ArrowType:
        """The Arrow type of what it gives."""
        return arrow_type(self.value)

    def evaluate(self, columns: Columns) -> Array:
        """An array with the value for each element."""
        return _evaluate(self.expression, columns)


@dataclass(frozen=True, slots=True)
class WholeElement:
    """The element itself, as a column of records.

    Attributes:
        kind: The type of the elements, which are no single values.
    """

    kind: RecordType

    @property
    def arrow_type(self) -> ArrowType:
        """The Arrow type of the records."""
        return arrow_type(self.kind.root)

    def evaluate(self, columns: Columns) -> Array:
        """An array with the record of each element."""
        fields = list(self.arrow_type)
        return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)


def check_element(kind: RecordType) -> None:
    """Declines a type of elements if a value of a column may be none of its field.

    Otherwise nothing has to be made to know that a record is well-formed.
    """
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
    kinds = {left.kind, right.kind}
    if expression.operator == "/" and isinstance(expression.right, Constant):
        # A division by a column may fail at any element.
        if left.kind is Kind.FLOAT and right.kind in (Kind.INT, Kind.FLOAT) and expression.right.value:
            _check_exact(expression.right, expression)
            return ValueType(Kind.FLOAT, float)
    elif expression.operator in ("+", "-", "*") and Kind.FLOAT in kinds and kinds <= {Kind.INT, Kind.FLOAT}:
        # An int that is added to a float becomes one first: in Arrow as in Python, where the float can hold it.
        for side in (expression.left, expression.right):
            _check_exact(side, expression)
        return ValueType(Kind.FLOAT, float)
    raise DeclinedError(f"{expression} is computed in Python: ints may outgrow 64 bits, and divisions may fail")


def _check_exact(side: Expression, whole: Expression) -> None:
    if isinstance(side, Constant) and type(side.value) is int and abs(side.value) > _LARGEST_EXACT:
        raise DeclinedError(f"{whole} has an int that no float can hold")


def _check_comparison(expression: Binary, left: ValueType, right: ValueType) -> None:
    kinds = {left.kind, right.kind}
    sides = ((expression.left, left), (expression.right, right))
    ints = [side for side, value in sides if value.kind is Kind.INT]
    if kinds == {Kind.INT, Kind.FLOAT}:
        # A float against a small int: Python compares exactly, and so does a float that can hold the int.
        if not all(isinstance(side, Constant) and abs(_int(side)) <= _LARGEST_EXACT for side in ints):
            raise DeclinedError(f"{expression} compares an int with a float")
        return
    is_same = len(kinds) == 1 and (kinds <= _ORDERED or (expression.operator in ("==", "!=") and kinds == {Kind.BOOL}))
    if not is_same or any(isinstance(side, Constant) and not -(2**63) <= _int(side) < 2**63 for side in ints):
        raise DeclinedError(f"{expression} compares {left} with {right}")


def _int(constant: Constant) -> int:
    assert isinstance(constant.value, int)
    return constant.value


def _evaluate(expression: Expression, columns: Columns) -> Array:
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
