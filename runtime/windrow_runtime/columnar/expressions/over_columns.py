"""Decides how an expression over elements is computed over columns; declined where Arrow may give other values.

An expression that is *total* is computed for every batch. Another one may meet elements for which Arrow gives no value
or another one than Python: then the caller computes the batch in Python.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from windrow.aggregates import (
    Binary,
    Call,
    Conditional,
    Constant,
    Contains,
    Element,
    Expression,
    Field,
    Item,
    Lookup,
    Member,
    Method,
    Record,
    Unary,
)
from windrow.errors import AggregateOverflowError
from windrow.expressions.tree import COMPARISONS, collection_digest, collection_text
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type
from windrow_runtime.codecs.value_type import Field as RecordField
from windrow_runtime.codecs.value_type import Kind, RecordShape, RecordType, ValueType
from windrow_runtime.columnar.expressions.compute import LARGEST_EXACT, Among, Evaluation, Found, NotInColumnsError
from windrow_runtime.operators.errors import DeclinedError

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
_CONSTANTS: Final = {bool: _BOOL, int: _INT, float: _FLOAT, str: _STR}
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
        return frozenset(part.name for part in self.expression.parts() if isinstance(part, Field))

    @property
    def stored_text(self) -> str:
        """The expression as it stands in a checkpoint: its text, and a digest if that does not show all of it."""
        parts = self.expression.parts()
        text = str(self.expression)
        hides = any(isinstance(part, (Among, Found)) or (isinstance(part, Constant) and part.shown) for part in parts)
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
                expected="ints from -2 ** 63 + 1 to 2 ** 63 - 1 behind a minus",
                hint="compare by something else, or let the runner do without columns: columnar=False",
            ) from None


@dataclass(frozen=True, slots=True)
class ColumnRecord:
    """A record that is made of expressions over columns."""

    kind: RecordType
    fields: tuple[ColumnExpression, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it takes."""
        return frozenset().union(*(field.columns for field in self.fields))

    def evaluate(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Returns the columns of the records; raises NotInColumnsError where an expression is not total."""
        evaluation = Evaluation(columns)
        arrays = [evaluation.array(field.expression, field.arrow_type) for field in self.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.kind))


def column_expression(expression: Expression, kind: RecordType) -> ColumnExpression:
    """Makes an expression over the columns of elements of a type; declined where Arrow may give other values."""
    known = _Known(kind)
    for part in expression.parts():
        # What lies below a part is known by then, so that nothing goes deep.
        known.add(part)
    return known.of(expression)


class _Known:
    """The expressions over columns of the parts of an expression, or the reasons why they have none."""

    def __init__(self, kind: RecordType) -> None:
        self.kind = kind
        self._found: dict[Expression, ColumnExpression | str] = {}

    def add(self, expression: Expression) -> None:
        """Finds out about a part; those below it are known."""
        try:
            self._found[expression] = _over_columns(expression, self)
        except DeclinedError as reason:
            self._found[expression] = str(reason)

    def of(self, expression: Expression) -> ColumnExpression:
        """The expression over columns of a part; declined where it has none."""
        if expression not in self._found:
            self.add(expression)  # a constant that stands for a part
        found = self._found[expression]
        if isinstance(found, str):
            raise DeclinedError(found)
        return found


def _over_columns(expression: Expression, known: _Known) -> ColumnExpression:
    kind = known.kind
    match expression:
        case Element():
            if not kind.single:
                raise DeclinedError("takes the whole element")
            return ColumnExpression(Field(Element(), kind.columns[0].column), kind.columns[0].type)
        case Item(of=Method(name="split")):
            return _part(expression, known)
        case Field() | Item():
            field = _field_of(expression, kind)
            return ColumnExpression(Field(Element(), field.column), field.type)
        case Constant():
            return ColumnExpression(expression, _constant_type(expression))
        case Unary():
            return _unary(expression, known)
        case Binary():
            return _binary(expression, known)
        case Conditional():
            return _conditional(expression, known)
        case Call():
            return _call(expression, known)
        case Method():
            return _method(expression, known)
        case Contains() | Member() | Lookup():
            return _in_collection(expression, known)
        case Record():
            return _tuple(expression, known)
    raise DeclinedError(f"{expression} has no column form")


def _tuple(expression: Record, known: _Known) -> ColumnExpression:
    if expression.target is not tuple or not expression.fields:
        raise DeclinedError(f"makes a {expression.target.__name__}")
    parts = [_present(expression, known.of(of)) for _, of in expression.fields]
    # The one int whose negative has more than 64 bits is refused when it comes.
    total = [part.is_total or _is_negative(part.expression) for part in parts]
    value = ValueType(Kind.TUPLE, tuple, arguments=tuple([part.value for part in parts]))
    names = [field.column for field in value.columns]
    of_columns = Record(tuple, tuple(zip(names, [part.expression for part in parts], strict=True)))
    return ColumnExpression(of_columns, value, all(total), any(part.may_outgrow for part in parts))


def _is_negative(expression: Expression) -> bool:
    return isinstance(expression, Unary) and expression.operator == "-" and isinstance(expression.of, Field)


def _in_collection(expression: Contains | Member | Lookup, known: _Known) -> ColumnExpression:
    if isinstance(expression, Lookup):
        return _lookup(expression, known)
    of = _present(expression, known.of(expression.of))
    if isinstance(expression, Member):
        _check_constants(expression, expression.values, of.value)
        values = pa.array(list(expression.values), arrow_type(of.value))
        text = expression.shown or collection_text(expression.values)
        among = Among(of.expression, values, collection_digest(expression.values), text)
        return replace(of, expression=among, value=_BOOL, may_outgrow=False)
    _constant_text(expression, expression.item)
    if of.value.kind is not Kind.STR:
        raise DeclinedError(f"{expression} looks into a {of.value}")
    return replace(of, expression=replace(expression, of=of.expression), value=_BOOL)


def _present(expression: Expression, of: ColumnExpression) -> ColumnExpression:
    if of.value.nullable:
        raise DeclinedError(f"{expression} may meet None")
    return of


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
    found = _CONSTANTS.get(type(constant.value))
    if found is None:
        raise DeclinedError(f"uses {constant}")
    if isinstance(constant.value, str):
        _check_text(constant.value, constant)
    elif type(constant.value) is int and not -(2**63) <= constant.value < 2**63:
        raise DeclinedError(f"uses {constant}, an int of more than 64 bits")
    return found


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


def _check_constants(expression: Expression, values: Collection[Any], kind: ValueType) -> ValueType:
    """Declines values that are not all of one plain type, which is the one of a column."""
    types = set(map(type, values)) or {kind.python_type}
    found = _CONSTANTS.get(types.pop()) if len(types) == 1 else None
    if found is None or found.kind is Kind.FLOAT or found.kind is not kind.kind:
        raise DeclinedError(f"{expression} looks for a {kind} among other values")
    for value in values:
        if isinstance(value, str):
            _check_text(value, expression)
        elif not -(2**63) <= value < 2**63:
            raise DeclinedError(f"{expression} has an int of more than 64 bits")
    return found


def _unary(expression: Unary, known: _Known) -> ColumnExpression:
    of = _present(expression, known.of(expression.of))
    if of.value.kind not in (Kind.INT, Kind.FLOAT):
        raise DeclinedError(f"{expression} is computed in Python")
    found = replace(of, expression=Unary(expression.operator, of.expression))
    if of.value.kind is Kind.INT and expression.operator != "+":
        return replace(found, is_total=False, may_outgrow=True)
    return found


def _binary(expression: Binary, known: _Known) -> ColumnExpression:
    left, right = (_present(expression, known.of(side)) for side in (expression.left, expression.right))
    found = ColumnExpression(
        Binary(expression.operator, left.expression, right.expression), _BOOL, left.is_total and right.is_total
    )
    kinds = {left.value.kind, right.value.kind}
    if expression.operator in COMPARISONS:
        _check_comparison(expression, left.value, right.value)
        if expression.may_be_same and kinds == {Kind.FLOAT} and not (_is_number(left) or _is_number(right)):
            raise DeclinedError(f"{expression} may be of parts of tuples, in which one NaN is equal to itself")
        return found
    sides = expression.left, expression.right
    if not kinds <= {Kind.INT, Kind.FLOAT} or any(abs(_int_of(side) or 0) > LARGEST_EXACT for side in sides):
        raise DeclinedError(f"{expression} is computed in Python")
    by_number = isinstance(expression.right, Constant) and bool(expression.right.value)
    if kinds == {Kind.INT}:
        divisor = _int_of(expression.right)
        if expression.operator in ("//", "%") and divisor is not None and divisor > 0:
            return replace(found, value=_INT, may_outgrow=expression.operator == "//" and left.may_outgrow)
        if expression.operator in ("+", "-", "*"):
            return replace(found, value=_INT, is_total=False, may_outgrow=True)
        if expression.operator == "/" and by_number:
            return replace(found, value=_FLOAT, is_total=False)
    # A division by a column may fail at any element.
    elif expression.operator in ("+", "-", "*") or (expression.operator == "/" and by_number):
        # An int that is added to a float becomes one first: in Arrow as in Python.
        return replace(found, value=_FLOAT)
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


def _conditional(expression: Conditional, known: _Known) -> ColumnExpression:
    test = _present(expression, known.of(expression.test))
    if test.value.kind is not Kind.BOOL:
        raise DeclinedError(f"{expression} asks whether a {test.value} is true")
    yes_or_no = (expression.yes, Constant(True)), (expression.no, Constant(False))
    # What `and` and `or` give is often what they asked for, whose value is known then.
    sides = [value if side == expression.test else side for side, value in yes_or_no]
    branches = [None if _is_none(side) else known.of(side) for side in sides]
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


def _call(expression: Call, known: _Known) -> ColumnExpression:
    of = _present(expression, known.of(expression.of))
    found = replace(of, expression=Call(expression.function, of.expression))
    if expression.function == "len" and of.value.kind is Kind.STR:
        return replace(found, value=_INT)
    if expression.function == "int" and of.value.kind in (Kind.BOOL, Kind.INT):
        return replace(found, value=_INT)
    if expression.function == "float" and of.value.kind in (Kind.BOOL, Kind.INT, Kind.FLOAT):
        return replace(found, value=_FLOAT, may_outgrow=False)
    raise DeclinedError(f"{expression} is computed in Python")


_TEXT_METHODS: Final = {"count": _INT, "endswith": _BOOL, "startswith": _BOOL}


def _method(expression: Method, known: _Known) -> ColumnExpression:
    if expression.name == "strftime":
        return _formatted(expression, known)
    of = _present(expression, known.of(expression.of))
    if of.value.kind is Kind.STR:
        found = replace(of, expression=Method(of.expression, expression.name, expression.arguments))
        if expression.name in ("lower", "upper") and not expression.arguments:
            return replace(found, is_total=False)
        if expression.name in _TEXT_METHODS and len(expression.arguments) == 1:
            _constant_text(expression, expression.arguments[0])
            return replace(found, value=_TEXT_METHODS[expression.name])
    raise DeclinedError(f"{expression} is computed in Python")


def _part(expression: Item, known: _Known) -> ColumnExpression:
    """A part of a text that is split; one that is not there fails in Python, too."""
    split = expression.of
    assert isinstance(split, Method), "asked by the caller"
    of = _present(expression, known.of(split.of))
    if of.value.kind is not Kind.STR or len(split.arguments) != 1:
        raise DeclinedError(f"{expression} is computed in Python")
    _constant_text(expression, split.arguments[0])
    if not isinstance(expression.key, int) or expression.key < 0:
        raise DeclinedError(f"{expression} is computed in Python: it counts from the end")
    by_column = Item(Method(of.expression, "split", split.arguments), expression.key)
    return ColumnExpression(by_column, _STR, is_total=False)


def _formatted(expression: Method, known: _Known) -> ColumnExpression:
    if len(expression.arguments) != 1:
        raise DeclinedError(f"{expression} is computed in Python")
    of, is_made = expression.of, False
    if isinstance(of, Call) and of.function == "utc":
        of, is_made = of.of, True
    # Seconds since 1970, or a column of datetimes, which are in UTC.
    seconds = _present(expression, known.of(of))
    text = _constant_text(expression, expression.arguments[0])
    if seconds.value.kind is not (Kind.INT if is_made else Kind.DATETIME):
        raise DeclinedError(f"{expression} formats a {seconds.value}")
    if not set(_DIRECTIVE.findall(text)) <= {"%Y", "%m", "%d", "%H", "%M", "%S"}:
        raise DeclinedError(f"{expression} has other directives than %Y, %m, %d, %H, %M and %S")
    by_column = Method(Call("utc", seconds.expression), "strftime", expression.arguments)
    return ColumnExpression(by_column, _STR, is_total=False)


def _lookup(expression: Lookup, known: _Known) -> ColumnExpression:
    key = _present(expression, known.of(expression.key))
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
            of_default = known.of(default)
            if of_default.value.kind is not value.kind:
                raise DeclinedError(f"{expression} gives values of several types")
            if not of_default.is_total:
                # Python computes it for each element, and fails where it fails.
                raise DeclinedError(f"{expression} has a default that is computed in Python for some elements")
            default, value, may_outgrow = of_default.expression, of_default.value, of_default.may_outgrow
    arrays = pa.array(list(expression.table), arrow_type(key.value)), pa.array(list(values), arrow_type(value))
    text = expression.shown or collection_text(expression.table)
    by_column = Found(key.expression, default, *arrays, collection_digest(expression.table), text)
    return ColumnExpression(by_column, value, is_total, may_outgrow)
