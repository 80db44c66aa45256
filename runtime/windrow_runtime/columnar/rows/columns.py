"""Columns of a stream's elements, and what plain expressions make of them, without a Python object for each.

An expression has a column form where Arrow gives, for every element, what Python would give. Where it might differ (an
int that grows beyond 64 bits, a division by zero, a comparison across types) there is none, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from windrow.aggregates import Binary, Constant, Element, Expression, Field, Item, Unary
from windrow.aggregates.expressions import COMPARISONS
from windrow_runtime.codecs.arrow.types import arrow_type
from windrow_runtime.codecs.value_type import Field as RecordField
from windrow_runtime.codecs.value_type import Kind, RecordShape, RecordType, ValueType
from windrow_runtime.columnar.declined import DeclinedError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnExpression", "WholeElement", "column_expression", "refused_element"]

# Any in this module: pyarrow has no types.

Columns: TypeAlias = Mapping[str, Any]
"""Arrow arrays of one length, by the names of the columns."""

_ORDERED: Final = frozenset(
    {Kind.INT, Kind.FLOAT, Kind.STR, Kind.BYTES, Kind.DECIMAL, Kind.DATETIME, Kind.DATE, Kind.TIMEDELTA}
)
_PLAIN: Final = _ORDERED | {Kind.BOOL}
"""Kinds of which every value of the column's Arrow type is a value, years beyond 9999 left out."""

_LARGEST_EXACT: Final = 2**53
_COMPARE: Final = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_ARITHMETIC: Final = {"+": "add", "-": "subtract", "*": "multiply"}


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """An expression over columns.

    Attributes:
        expression: What it computes of an element.
        value: What it gives.
        columns: The columns that it reads.
    """

    expression: Expression
    value: ValueType
    columns: frozenset[str]

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of what it gives."""
        return arrow_type(self.value)

    def evaluate(self, columns: Columns) -> Any:
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
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the records."""
        return arrow_type(self.kind.root)

    def evaluate(self, columns: Columns) -> Any:
        """An array with the record of each element."""
        import pyarrow as pa

        fields = list(self.arrow_type)
        return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)


def refused_element(kind: RecordType) -> str | None:
    """Why elements of a type have no columns that stand for them; None where they have.

    Each value of a column has to be a value of the field, so that nothing has to be made to know that a record is
    well-formed.
    """
    if kind.single:
        return _refused_value(kind.root, kind.name)
    for field in kind.columns:
        reason = _refused_value(field.type, f"{kind.name}.{field.name}")
        if reason is not None:
            return reason
        if field.absent_allowed:
            return f"{kind.name}.{field.name} may be absent"
    return None


def _refused_value(value: ValueType, path: str) -> str | None:
    return None if value.kind in _PLAIN else f"{path} is a {value}"


def column_expression(expression: Expression, kind: RecordType) -> ColumnExpression:
    """The column form of an expression over elements of a type.

    Raises:
        DeclinedError: If there is none.
    """
    value = _value_of(expression, kind)
    return ColumnExpression(_by_column(expression, kind), value, frozenset(_columns_of(expression, kind)))


def _value_of(expression: Expression, kind: RecordType) -> ValueType:
    if isinstance(expression, Element):
        if not kind.single:
            raise DeclinedError("takes the whole element")
        return kind.columns[0].type
    if isinstance(expression, (Field, Item)):
        return _field_of(expression, kind).type
    if isinstance(expression, Constant):
        return _constant_type(expression)
    if isinstance(expression, Unary):
        return _unary(expression, kind)
    if isinstance(expression, Binary):
        return _binary(expression, kind)
    raise DeclinedError(f"{expression} has no column form")


def _field_of(expression: Field | Item, kind: RecordType) -> RecordField:
    if not isinstance(expression.of, Element):
        raise DeclinedError(f"{expression} lies within a field")
    if kind.single:
        raise DeclinedError(f"{expression} is no column")
    if isinstance(expression, Field):
        if kind.root.kind is Kind.RECORD and kind.root.shape is not RecordShape.TYPED_DICT:
            for field in kind.columns:
                if field.name == expression.name:
                    return field
        raise DeclinedError(f"{expression} is no field")
    if isinstance(expression.key, str) and kind.root.shape is RecordShape.TYPED_DICT:
        for field in kind.columns:
            if field.name == expression.key:
                return field
    is_tuple = kind.root.kind is Kind.TUPLE or kind.root.shape is RecordShape.NAMED_TUPLE
    if (
        isinstance(expression.key, int)
        and is_tuple
        and -len(kind.columns) <= expression.key < len(kind.columns)
    ):
        return kind.columns[expression.key]
    raise DeclinedError(f"{expression} is no column")


def _constant_type(constant: Constant) -> ValueType:
    kinds = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.STR}
    kind = kinds.get(type(constant.value))
    if kind is None:
        raise DeclinedError(f"uses {constant}")
    if isinstance(constant.value, str) and not _is_utf8(constant.value):
        # Columns hold no such text, yet Python compares with it.
        raise DeclinedError(f"uses {constant}, which is no text of UTF-8")
    return ValueType(kind, type(constant.value))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unary(expression: Unary, kind: RecordType) -> ValueType:
    value = _value_of(expression.of, kind)
    if value.kind is not Kind.FLOAT or value.nullable:
        raise DeclinedError(f"{expression} is computed in Python: only floats that are never None are not")
    return value


def _binary(expression: Binary, kind: RecordType) -> ValueType:
    left, right = (_value_of(side, kind) for side in (expression.left, expression.right))
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
    elif expression.operator in _ARITHMETIC and Kind.FLOAT in kinds and kinds <= {Kind.INT, Kind.FLOAT}:
        # An int that is added to a float becomes one first: in Arrow as in Python, where the float can hold it.
        for side in (expression.left, expression.right):
            _check_exact(side, expression)
        return ValueType(Kind.FLOAT, float)
    raise DeclinedError(
        f"{expression} is computed in Python: ints may outgrow 64 bits, and divisions may fail"
    )


def _check_exact(side: Expression, whole: Expression) -> None:
    if isinstance(side, Constant) and type(side.value) is int and abs(side.value) > _LARGEST_EXACT:
        raise DeclinedError(f"{whole} has an int that no float can hold")


def _check_comparison(expression: Binary, left: ValueType, right: ValueType) -> None:
    kinds = {left.kind, right.kind}
    if len(kinds) == 1:
        if kinds <= _ORDERED or (expression.operator in ("==", "!=") and kinds == {Kind.BOOL}):
            sides = (expression.left, expression.right)
            if kinds != {Kind.INT} or all(_fits(side) for side in sides):
                return
    elif kinds == {Kind.INT, Kind.FLOAT}:
        # A float against a small int: Python compares exactly, and so does a float that can hold the int.
        for side, value in ((expression.left, left), (expression.right, right)):
            if value.kind is Kind.INT and not (
                isinstance(side, Constant) and abs(_int(side)) <= _LARGEST_EXACT
            ):
                raise DeclinedError(f"{expression} compares an int with a float")
        return
    raise DeclinedError(f"{expression} compares {left} with {right}")


def _fits(side: Expression) -> bool:
    return not isinstance(side, Constant) or -(2**63) <= _int(side) < 2**63


def _int(constant: Constant) -> int:
    assert isinstance(constant.value, int)
    return constant.value


def _columns_of(expression: Expression, kind: RecordType) -> set[str]:
    if isinstance(expression, Element):
        return {kind.columns[0].column}
    if isinstance(expression, (Field, Item)):
        return {_field_of(expression, kind).column}
    if isinstance(expression, Unary):
        return _columns_of(expression.of, kind)
    if isinstance(expression, Binary):
        return _columns_of(expression.left, kind) | _columns_of(expression.right, kind)
    return set()


def _by_column(expression: Expression, kind: RecordType) -> Expression:
    """The same with fields and items by the names of their columns."""
    if isinstance(expression, Element):
        return Field(Element(), kind.columns[0].column)
    if isinstance(expression, (Field, Item)):
        return Field(Element(), _field_of(expression, kind).column)
    if isinstance(expression, Unary):
        return Unary(expression.operator, _by_column(expression.of, kind))
    if isinstance(expression, Binary):
        return Binary(
            expression.operator, _by_column(expression.left, kind), _by_column(expression.right, kind)
        )
    return expression


def _evaluate(expression: Expression, columns: Columns) -> Any:
    import pyarrow.compute as pc

    if isinstance(expression, Field):
        return columns[expression.name]
    if isinstance(expression, Unary):
        value = _evaluate(expression.of, columns)
        return value if expression.operator == "+" else pc.negate(value)
    assert isinstance(expression, Binary), "constants stand beside columns"
    left, right = (_operand(side, columns) for side in (expression.left, expression.right))
    if expression.operator in COMPARISONS:
        return pc.call_function(_COMPARE[expression.operator], [left, right])
    name = _ARITHMETIC.get(expression.operator, "divide")
    return pc.call_function(name, [_as_float(left), _as_float(right)])


def _operand(expression: Expression, columns: Columns) -> Any:
    import pyarrow as pa

    if isinstance(expression, Constant):
        return pa.scalar(expression.value)
    return _evaluate(expression, columns)


def _as_float(value: Any) -> Any:
    import pyarrow as pa

    return value if value.type == pa.float64() else value.cast(pa.float64(), safe=False)
