"""Translates expressions over elements to columns; declines those for which Arrow may give other values.

An expression that is *total* is computed for every batch. Another one may meet elements for which Arrow gives no value
or another one than Python: then the caller computes the batch in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from windrow.aggregates import Expression
from windrow.errors import AggregateOverflowError
from windrow.expressions.built_in import CALLS as BUILT_IN_CALLS
from windrow.expressions.built_in import COMPARISONS, METHOD_TYPES
from windrow.expressions.constant_texts import collection_digest, collection_text
from windrow.expressions.tree import (
    Binary,
    Call,
    Conditional,
    Constant,
    Contains,
    Element,
    Field,
    Item,
    Lookup,
    Member,
    Method,
    Record,
    Unary,
)
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type
from windrow_runtime.codecs.value_type import Kind, RecordField, RecordShape, RecordType, ValueType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.expressions.built_in_on_columns import CALLS, METHODS, NotInColumnsError
from windrow_spark.columnar.expressions.compute import LARGEST_EXACT, Among, Evaluation, LookedUp

# Any in this module: values are of every type.

_ORDERED: Final = frozenset(
    {Kind.INT, Kind.FLOAT, Kind.STR, Kind.BYTES, Kind.DECIMAL, Kind.DATETIME, Kind.DATE, Kind.TIMEDELTA}
)
PLAIN: Final = _ORDERED | {Kind.BOOL}
"""Kinds whose values are all values of the column's Arrow type, years beyond 9999 left out."""

_INT: Final = ValueType(Kind.INT, int)
_FLOAT: Final = ValueType(Kind.FLOAT, float)
_BOOL: Final = ValueType(Kind.BOOL, bool)
_STR: Final = ValueType(Kind.STR, str)
_CONSTANTS: Final[dict[object, ValueType]] = {bool: _BOOL, int: _INT, float: _FLOAT, str: _STR}
_RESULTS: Final = {**_CONSTANTS, list[str]: ValueType(Kind.LIST, list, arguments=(_STR,))}
"""The types of what methods return."""

_DIRECTIVE: Final = re.compile("%.?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """An expression over columns."""

    expression: Expression  # what it computes of an element whose fields are named as its columns
    value: ValueType  # the type of what it gives
    is_total: bool = True  # whether columns give it for every batch
    may_outgrow: bool = False  # whether Python may give an int of more than 64 bits

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of what it gives."""
        return arrow_type(self.value)

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it takes."""
        nodes = self.expression.parts()
        return frozenset(part.name for part in nodes if isinstance(part, Field) and isinstance(part.of, Element))

    @property
    def stored_text(self) -> str:
        """The text of the expression for a checkpoint, with a digest where the text leaves something out."""
        nodes = self.expression.parts()
        text = str(self.expression)
        hides = any(
            isinstance(part, (Among, LookedUp)) or (isinstance(part, Constant) and part.shown) for part in nodes
        )
        return f"{text} #{self.expression.identity.hex()[:12]}" if hides or "..." in text else text

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Returns an array with the value for each element; may raise NotInColumnsError if it is not total."""
        try:
            return Evaluation(columns).array(self.expression, self.arrow_type)
        except NotInColumnsError as error:
            if self.value.kind is not Kind.TUPLE or not self.is_total:
                raise
            raise AggregateOverflowError(
                "an int of a tuple does not fit into 64 bits",
                given=f"{self.expression}: {error}",
                expected="ints from -2 ** 63 + 1 to 2 ** 63 - 1 after a minus",
                hint="compare by something else, or let the runner do without columns: columnar=False",
            ) from None


@dataclass(frozen=True, slots=True)
class ColumnRecord:
    """A record that is made of expressions over columns."""

    record_type: RecordType
    fields: tuple[ColumnExpression, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it takes."""
        return frozenset().union(*(field.columns for field in self.fields))

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Returns the columns of the records; raises NotInColumnsError where an expression is not total."""
        evaluation = Evaluation(columns)
        arrays = [evaluation.array(field.expression, field.arrow_type) for field in self.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.record_type))


def column_expression(expression: Expression, record_type: RecordType) -> ColumnExpression:
    """Makes an expression over the columns of elements of a type; declined where Arrow may give other values."""
    parts = _Parts(record_type)
    for part in expression.parts():
        # The parts below it are decided by then, so that nothing goes deep.
        parts.decide(part)
    return parts.of(expression)


class _Parts:
    """Keeps the expressions over columns of the parts of an expression, or the reasons why they have none."""

    def __init__(self, record_type: RecordType) -> None:
        self.record_type = record_type
        self._decisions: dict[Expression, ColumnExpression | str] = {}

    def decide(self, part: Expression) -> ColumnExpression | str:
        """Decides about a part; those below it are decided."""
        try:
            decision: ColumnExpression | str = _over_columns(part, self)
        except DeclinedError as reason:
            decision = str(reason)
        self._decisions[part] = decision
        return decision

    def of(self, part: Expression) -> ColumnExpression:
        """Returns the expression over columns of a part; declined where it has none."""
        # A constant that stands for a part is not decided yet.
        decision = self._decisions.get(part) or self.decide(part)
        if isinstance(decision, str):
            raise DeclinedError(decision)
        return decision


def _over_columns(expression: Expression, parts: _Parts) -> ColumnExpression:
    record_type = parts.record_type
    match expression:
        case Element():
            if not record_type.single:
                raise DeclinedError("takes the whole element")
            return ColumnExpression(Field(Element(), record_type.columns[0].column), record_type.columns[0].type)
        case Item(of=Method(name="split") as split):
            return _part(expression, split, parts)
        case Field(of=Field() | Item() as record):
            return _within(expression, record, parts)
        case Field() | Item():
            field = _field_of(expression, record_type)
            return ColumnExpression(Field(Element(), field.column), field.type)
        case Constant():
            return ColumnExpression(expression, _constant_type(expression))
    decide = _DECISIONS.get(type(expression))
    if decide is None:
        raise DeclinedError(f"{expression} has no column form")
    return decide(expression, parts)


def _within(expression: Field, record: Expression, parts: _Parts) -> ColumnExpression:
    """Decides about the field of a record that is itself a field."""
    of = _present(expression, parts.of(record))
    for field in of.value.fields if of.value.shape is not RecordShape.TYPED_DICT else ():
        if field.name == expression.name:
            return replace(of, expression=Field(of.expression, field.column), value=field.type)
    raise DeclinedError(f"{expression} lies within a field that is a {of.value}")


def _tuple(expression: Record, parts: _Parts) -> ColumnExpression:
    if expression.target is not tuple or not expression.fields:
        raise DeclinedError(f"makes a {expression.target.__name__}")
    fields = [_present(expression, parts.of(of)) for _, of in expression.fields]
    # The one int whose negative has more than 64 bits is refused when it comes.
    total = [field.is_total or _is_negative(field.expression) for field in fields]
    value = ValueType(Kind.TUPLE, tuple, arguments=tuple([field.value for field in fields]))
    names = [field.column for field in value.columns]
    of_columns = Record(tuple, tuple(zip(names, [field.expression for field in fields], strict=True)))
    return ColumnExpression(of_columns, value, all(total), any(field.may_outgrow for field in fields))


def _is_negative(expression: Expression) -> bool:
    return isinstance(expression, Unary) and expression.operator == "-" and isinstance(expression.of, Field)


def _member(expression: Member, parts: _Parts) -> ColumnExpression:
    of = _present(expression, parts.of(expression.of))
    _check_constants(expression, expression.values, of.value)
    values = pa.array(list(expression.values), arrow_type(of.value))
    text = expression.shown or collection_text(expression.values)
    among = Among(of.expression, values, collection_digest(expression.values), text)
    return replace(of, expression=among, value=_BOOL, may_outgrow=False)


def _contains(expression: Contains, parts: _Parts) -> ColumnExpression:
    of = _present(expression, parts.of(expression.of))
    _constant_text(expression, expression.item)
    if of.value.kind is not Kind.STR:
        raise DeclinedError(f"{expression} looks into a {of.value}")
    return replace(of, expression=replace(expression, of=of.expression), value=_BOOL)


def _present(expression: Expression, of: ColumnExpression) -> ColumnExpression:
    if of.value.nullable:
        raise DeclinedError(f"{expression} may meet None")
    return of


def _field_of(expression: Field | Item, record_type: RecordType) -> RecordField:
    if not isinstance(expression.of, Element):
        raise DeclinedError(f"{expression} lies within a field")
    if record_type.single:
        raise DeclinedError(f"{expression} is no column")
    is_field, is_dict = isinstance(expression, Field), record_type.root.shape is RecordShape.TYPED_DICT
    name = expression.name if isinstance(expression, Field) else expression.key
    if record_type.root.kind is Kind.RECORD and is_field != is_dict:
        for field in record_type.columns:
            if field.name == name:
                return field
    is_tuple = record_type.root.kind is Kind.TUPLE or record_type.root.shape is RecordShape.NAMED_TUPLE
    if isinstance(name, int) and is_tuple and -len(record_type.columns) <= name < len(record_type.columns):
        return record_type.columns[name]
    raise DeclinedError(f"{expression} is no {'field' if is_field else 'column'}")


def _constant_type(constant: Constant) -> ValueType:
    value = _CONSTANTS.get(type(constant.value))
    if value is None:
        raise DeclinedError(f"uses {constant}")
    if isinstance(constant.value, str):
        _check_text(constant.value, constant)
    elif type(constant.value) is int and not -(2**63) <= constant.value < 2**63:
        raise DeclinedError(f"uses {constant}, an int of more than 64 bits")
    return value


def _check_text(text: str, expression: Expression) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Columns hold no such text, yet Python compares with it.
        raise DeclinedError(f"uses {expression}, which is no text of UTF-8") from None


def _constant_text(expression: Expression, argument: Expression) -> str:
    if not isinstance(argument, Constant) or not isinstance(argument.value, str) or not argument.value:
        raise DeclinedError(f"{expression} is not about a constant text")
    _check_text(argument.value, argument)
    return argument.value


def _check_constants(expression: Expression, values: Collection[Any], kind: ValueType) -> None:
    """Declines constants that are not all of one plain type, the type of the column beside them."""
    types = set(map(type, values)) or {kind.python_type}
    value_type = _CONSTANTS.get(types.pop()) if len(types) == 1 else None
    if value_type is None or value_type.kind is Kind.FLOAT or value_type.kind is not kind.kind:
        raise DeclinedError(f"{expression} looks for a {kind} among other values")
    for value in values:
        if isinstance(value, str):
            _check_text(value, expression)
        elif not -(2**63) <= value < 2**63:
            raise DeclinedError(f"{expression} has an int of more than 64 bits")


def _unary(expression: Unary, parts: _Parts) -> ColumnExpression:
    of = _present(expression, parts.of(expression.of))
    if of.value.kind not in (Kind.INT, Kind.FLOAT):
        raise DeclinedError(f"{expression} is computed in Python")
    grows = of.value.kind is Kind.INT and expression.operator != "+"
    is_total, may_outgrow = of.is_total and not grows, of.may_outgrow or grows
    return ColumnExpression(Unary(expression.operator, of.expression), of.value, is_total, may_outgrow)


def _binary(expression: Binary, parts: _Parts) -> ColumnExpression:
    left, right = (_present(expression, parts.of(side)) for side in (expression.left, expression.right))
    result = ColumnExpression(
        Binary(expression.operator, left.expression, right.expression), _BOOL, left.is_total and right.is_total
    )
    kinds = {left.value.kind, right.value.kind}
    if expression.operator in COMPARISONS:
        _check_comparison(expression, left.value, right.value)
        if expression.may_be_same and kinds == {Kind.FLOAT} and not (_is_number(left) or _is_number(right)):
            raise DeclinedError(f"{expression} may be of parts of tuples, in which one NaN is equal to itself")
        return result
    sides = expression.left, expression.right
    if not kinds <= {Kind.INT, Kind.FLOAT} or any(abs(_int_of(side) or 0) > LARGEST_EXACT for side in sides):
        raise DeclinedError(f"{expression} is computed in Python")
    by_number = isinstance(expression.right, Constant) and bool(expression.right.value)
    if kinds == {Kind.INT}:
        divisor = _int_of(expression.right)
        if expression.operator in ("//", "%") and divisor is not None and divisor > 0:
            return replace(result, value=_INT, may_outgrow=expression.operator == "//" and left.may_outgrow)
        if expression.operator in ("+", "-", "*"):
            return replace(result, value=_INT, is_total=False, may_outgrow=True)
        if expression.operator == "/" and by_number:
            return replace(result, value=_FLOAT, is_total=False)
    # A division by a column may fail at any element.
    elif expression.operator in ("+", "-", "*") or (expression.operator == "/" and by_number):
        # An int that is added to a float becomes one first: in Arrow as in Python.
        return replace(result, value=_FLOAT)
    reason = ": a division may fail" if expression.operator in ("/", "//", "%") and kinds != {Kind.FLOAT} else ""
    raise DeclinedError(f"{expression} is computed in Python{reason}")


def _check_comparison(expression: Binary, left: ValueType, right: ValueType) -> None:
    kinds, sides = {left.kind, right.kind}, ((expression.left, left), (expression.right, right))
    ints = [_int_of(side) for side, value in sides if value.kind is Kind.INT]
    if kinds == {Kind.INT, Kind.FLOAT}:
        # A float against a small int: Python compares exactly, and so does a float that can hold the int.
        if any(number is None or abs(number) > LARGEST_EXACT for number in ints):
            raise DeclinedError(f"{expression} compares an int with a float")
        return
    is_same = len(kinds) == 1 and (kinds <= _ORDERED or (expression.operator in ("==", "!=") and kinds == {Kind.BOOL}))
    if not is_same or any(not -(2**63) <= (number or 0) < 2**63 for number in ints):
        raise DeclinedError(f"{expression} compares {left} with {right}")


def _is_number(side: ColumnExpression) -> bool:
    """Whether one side of a comparison is a constant that equals itself."""
    return isinstance(side.expression, Constant) and side.expression.value == side.expression.value


def _int_of(side: Expression) -> int | None:
    """The int that is one side of an operator; None: it is something else."""
    return side.value if isinstance(side, Constant) and type(side.value) is int else None


def _conditional(expression: Conditional, parts: _Parts) -> ColumnExpression:
    test = _present(expression, parts.of(expression.test))
    if test.value.kind is not Kind.BOOL:
        raise DeclinedError(f"{expression} asks whether a {test.value} is true")
    yes_or_no = (expression.yes, Constant(True)), (expression.no, Constant(False))
    # The value of `and` and `or` is often the operand that they test, whose truth is known then.
    sides = [value if side == expression.test else side for side, value in yes_or_no]
    branches = [None if _is_none(side) else parts.of(side) for side in sides]
    present = [branch for branch in branches if branch is not None]
    if not present or len({branch.value.kind for branch in present}) > 1:
        raise DeclinedError(f"{expression} gives values of several types")
    may_be_none = len(present) < 2 or any(branch.value.nullable for branch in present)
    yes, no = (Constant(None) if branch is None else branch.expression for branch in branches)
    return ColumnExpression(
        Conditional(test.expression, yes, no),
        replace(present[0].value, nullable=may_be_none),
        test.is_total and all(branch.is_total for branch in present),
        any(branch.may_outgrow for branch in present),
    )


def _is_none(expression: Expression) -> bool:
    return isinstance(expression, Constant) and expression.value is None


def _call(expression: Call, parts: _Parts) -> ColumnExpression:
    of, row = _present(expression, parts.of(expression.of)), CALLS[expression.function]
    if of.value.kind not in row.kinds:
        raise DeclinedError(f"{expression} is computed in Python")
    value = _CONSTANTS[BUILT_IN_CALLS[expression.function].result]
    outgrows = of.may_outgrow and value.kind is Kind.INT
    return replace(of, expression=Call(expression.function, of.expression), value=value, may_outgrow=outgrows)


def _method(expression: Method, parts: _Parts) -> ColumnExpression:
    if expression.name == "strftime":
        return _formatted(expression, parts)
    method = _method_of_text(expression, expression, parts)
    if method.value.kind is Kind.LIST:
        raise DeclinedError(f"{expression} is computed in Python")
    return method


def _method_of_text(expression: Expression, method: Method, parts: _Parts) -> ColumnExpression:
    """Decides about a method of a text that an expression calls; the reasons show the expression."""
    of, row = _present(expression, parts.of(method.of)), METHODS.get(method.name)
    if row is None or of.value.kind not in row.kinds or len(method.arguments) != row.texts:
        raise DeclinedError(f"{expression} is computed in Python")
    for argument in method.arguments:
        _constant_text(expression, argument)
    value = _RESULTS[METHOD_TYPES[of.value.python_type, method.name]]
    return replace(of, expression=replace(method, of=of.expression), value=value, is_total=of.is_total and row.is_total)


def _part(expression: Item, split: Method, parts: _Parts) -> ColumnExpression:
    """Decides how columns compute an item of ``text.split(...)``; a missing item fails, as in Python."""
    texts = _method_of_text(expression, split, parts)
    if not isinstance(expression.key, int) or expression.key < 0:
        raise DeclinedError(f"{expression} is computed in Python: it counts from the end")
    return replace(texts, expression=Item(texts.expression, expression.key), value=_STR)


def _formatted(expression: Method, parts: _Parts) -> ColumnExpression:
    """Decides about a time as a text: that of seconds since 1970, or of a column of datetimes, which are in UTC."""
    if len(expression.arguments) != METHODS["strftime"].texts:
        raise DeclinedError(f"{expression} is computed in Python")
    of, kinds = expression.of, METHODS["strftime"].kinds
    if isinstance(of, Call) and of.function == "utc":
        of, kinds = of.of, frozenset({Kind.INT})
    seconds = _present(expression, parts.of(of))
    template = _constant_text(expression, expression.arguments[0])
    if seconds.value.kind not in kinds:
        raise DeclinedError(f"{expression} formats a {seconds.value}")
    if not set(_DIRECTIVE.findall(template)) <= {"%Y", "%m", "%d", "%H", "%M", "%S"}:
        raise DeclinedError(f"{expression} has other directives than %Y, %m, %d, %H, %M and %S")
    by_column = Method(Call("utc", seconds.expression), "strftime", expression.arguments)
    return ColumnExpression(by_column, _STR, is_total=False)


def _lookup(expression: Lookup, parts: _Parts) -> ColumnExpression:
    key = _present(expression, parts.of(expression.key))
    _check_constants(expression, expression.table, key.value)
    values = expression.table.values()
    types = set(map(type, values))
    value = _CONSTANTS.get(types.pop()) if len(types) == 1 else None
    if value is None:
        raise DeclinedError(f"{expression} gives values of several types")
    if value.kind is not Kind.FLOAT:
        _check_constants(expression, values, value)
    default, is_total, may_outgrow = None, False, False
    if expression.default is not None:
        is_total = key.is_total
        default = expression.default
        if _is_none(default):
            value = replace(value, nullable=True)
        else:
            of_default = parts.of(default)
            if of_default.value.kind is not value.kind:
                raise DeclinedError(f"{expression} gives values of several types")
            if not of_default.is_total:
                # Python computes it for each element, and fails where it fails.
                raise DeclinedError(f"{expression} has a default that is computed in Python for some elements")
            default, value, may_outgrow = of_default.expression, of_default.value, of_default.may_outgrow
    arrays = pa.array(list(expression.table), arrow_type(key.value)), pa.array(list(values), arrow_type(value))
    text = expression.shown or collection_text(expression.table)
    by_column = LookedUp(key.expression, default, *arrays, collection_digest(expression.table), text)
    return ColumnExpression(by_column, value, is_total, may_outgrow)


_DECISIONS: Final[Mapping[type[Expression], Callable[[Any, _Parts], ColumnExpression]]] = {
    Binary: _binary,
    Call: _call,
    Conditional: _conditional,
    Contains: _contains,
    Lookup: _lookup,
    Member: _member,
    Method: _method,
    Record: _tuple,
    Unary: _unary,
}
