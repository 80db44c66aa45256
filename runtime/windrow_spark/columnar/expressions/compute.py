"""Computes expressions over the columns of a batch of elements.

Where Arrow cannot give, for each element of a batch, what Python gives (an int that grows beyond 64 bits, a part of a
text that is not there), :class:`NotInColumnsError` is raised, and the caller computes the batch in Python.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates import Expression
from windrow.expressions.node import Texts, ordered
from windrow.expressions.tree import (
    Binary,
    Call,
    Conditional,
    Constant,
    Contains,
    Element,
    Field,
    Item,
    Method,
    Record,
    Unary,
)
from windrow_spark.columnar import Mask
from windrow_spark.columnar.expressions.built_in_on_columns import CALLS, METHODS, NotInColumnsError

# Any in this module: pyarrow has no types.

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
"""Arrow's functions for operators of two operands."""

_UNARY: Final = {"+": lambda of: of, "-": pc.negate_checked, "abs": pc.abs_checked}

LARGEST_EXACT: Final = 2**53
"""Floats hold each int up to here, and not all beyond."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Among(Expression):
    """A test whether a value is in a set, or is a key of a dict, as these were when the plan was lowered."""

    of: Expression
    values: Any = field(compare=False)
    digest: str  # of the set or the dict; equal ones have the same
    shown: str = field(compare=False)  # their text in plans and errors

    def _text(self, texts: Texts) -> str:
        return f"{self.of._operand(texts)} in {self.shown}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LookedUp(Expression):
    """The value that a dict had for a key when the plan was lowered.

    Attributes:
        key: The key.
        default: What is given for a key that is not in the dict; None: there is nothing, and Python raises KeyError.
        keys: The keys of the dict.
        values: Its values.
        digest: Its digest; equal dicts have the same.
        shown: Its text in plans and errors.
    """

    key: Expression
    default: Expression | None
    keys: Any = field(compare=False)
    values: Any = field(compare=False)
    digest: str
    shown: str = field(compare=False)

    def _text(self, texts: Texts) -> str:
        key = texts[self.key]
        return f"{self.shown}[{key}]" if self.default is None else f"{self.shown}.get({key}, {texts[self.default]})"


class Evaluation:
    """Computes expressions over the columns of a batch; what several expressions share is computed once."""

    def __init__(self, columns: Mapping[str, Any], of_all: Evaluation | None = None, chosen: Any = None) -> None:
        self._columns = dict(columns)
        self._of_all, self._chosen = of_all, chosen  # where it computes for chosen elements
        self._values: dict[Expression, Any] = {}
        self._sides: dict[Expression, list[Evaluation]] = {}

    def array(self, expression: Expression, kind: Any) -> Any:
        """Returns the value of an expression for each element, as an array of an Arrow type."""
        value = self._value(expression)
        if isinstance(value, pa.Scalar) and value.type != kind:
            value = pa.scalar(value.as_py(), kind)
        array = self._repeated(value)
        return array if array.type == kind else array.cast(kind)

    def _repeated(self, value: Any) -> Any:
        """Returns an array as it is, and a scalar repeated for each element."""
        if not isinstance(value, pa.Scalar):
            return value
        count = len(next(iter(self._columns.values()))) if self._of_all is None else self._chosen.true_count
        return pa.repeat(value, count)

    def _column(self, name: str) -> Any:
        """Returns the column of a field; that of chosen elements is filtered when it is asked for."""
        if self._of_all is not None and name not in self._columns:
            self._columns[name] = self._of_all._column(name).filter(self._chosen)
        return self._columns[name]

    def _column_within(self, field: Field) -> Any:
        """Returns the values of a field of records that are themselves a field."""
        if field not in self._values and self._of_all is not None:
            self._values[field] = self._of_all._value(field).filter(self._chosen)
        elif field not in self._values:
            self._values[field] = pc.struct_field(self._value(field.of), field.name)
        return self._values[field]

    def _value(self, expression: Expression) -> Any:
        """Computes an expression: a scalar for a literal of the code, an array for all else."""
        match expression:
            case Field(of=Element()):
                return self._column(expression.name)
            case Field():
                return self._column_within(expression)
            case Constant():
                return pa.scalar(expression.value)
        for part in () if expression in self._values else ordered([expression], self._uncomputed):
            if part not in self._values and not isinstance(part, _LEAVES):
                self._values[part] = self._chosen_or_computed(part)
        return self._values[expression]

    def _uncomputed(self, expression: Expression) -> Collection[Expression]:
        """Returns what has to be computed before an expression."""
        if expression in self._values or isinstance(expression, _LEAVES) or self._value_of_all(expression) is not None:
            return ()
        return expression.computed_first

    def _value_of_all(self, expression: Expression) -> Any:
        """Returns the values computed for all elements, if this evaluation covers a subset of them; else None."""
        return None if self._of_all is None else self._of_all._values.get(expression)

    def _chosen_or_computed(self, expression: Expression) -> Any:
        of_all = self._value_of_all(expression)
        if of_all is not None:
            return of_all.filter(self._chosen)
        try:
            return self._computed(expression)
        except pa.ArrowException as error:
            raise NotInColumnsError(str(error)) from None

    def _computed(self, expression: Expression) -> Any:
        match expression:
            case Unary():
                return _UNARY[expression.operator](self._value(expression.of))
            case Binary():
                return self._binary(expression)
            case Conditional():
                return self._conditional(expression)
            case Call():
                return CALLS[expression.function].arrow(self._value(expression.of))
            case Method():
                texts = [self._value(argument).as_py() for argument in expression.arguments]
                return METHODS[expression.name].arrow(self._value(expression.of), *texts)
            case Item():
                return pc.list_element(self._value(expression.of), expression.key)
            case Contains():
                return pc.match_substring(self._value(expression.of), pattern=self._value(expression.item).as_py())
            case Among():
                return pc.is_in(self._value(expression.of), value_set=expression.values)
            case Record():
                names = [name for name, _ in expression.fields]
                return pa.StructArray.from_arrays(
                    [self._repeated(self._value(of)) for _, of in expression.fields], names
                )
        assert isinstance(expression, LookedUp), "there are no other ones over columns"
        return self._looked_up(expression)

    def _looked_up(self, expression: LookedUp) -> Any:
        indices = pc.index_in(self._repeated(self._value(expression.key)), value_set=expression.keys)
        values = expression.values.take(indices)
        if not indices.null_count:
            return values
        if expression.default is None:
            raise NotInColumnsError("a key is not in the dict")
        default = self._value(expression.default)
        if default.type != values.type:
            default = pa.scalar(None, values.type)  # None has no type of its own
        return pc.if_else(indices.is_valid(), values, default)

    def _binary(self, expression: Binary) -> Any:
        symbol = expression.operator
        left, right = self._value(expression.left), self._value(expression.right)
        if symbol in ("//", "%"):
            return pa.array((np.floor_divide if symbol == "//" else np.mod)(left.to_numpy(), right.as_py()))
        if symbol in ("+", "-", "*", "/"):
            if left.type == right.type == pa.int64():
                if symbol != "/":
                    return pc.call_function(f"{_FUNCTIONS[symbol]}_checked", [left, right])
                _check_exact(left)
            left, right = (
                side if side.type == pa.float64() else side.cast(pa.float64(), safe=False) for side in (left, right)
            )
        return pc.call_function(_FUNCTIONS[symbol], [left, right])

    def _conditional(self, expression: Conditional) -> Any:
        test = self._value(expression.test)
        mask: Mask = test.to_numpy(zero_copy_only=False)
        if isinstance(expression.yes, _LEAVES) and isinstance(expression.no, _LEAVES):
            yes, no = self._value(expression.yes), self._value(expression.no)
            if yes.type != no.type:
                none = pa.scalar(None, no.type if yes.type == pa.null() else yes.type)
                yes, no = (none if each.type == pa.null() else each for each in (yes, no))
            # If both branches are the constant None, no value gives the result a type.
            return pa.nulls(len(test)) if yes.type == pa.null() else pc.if_else(test, yes, no)
        if mask.all():
            return self._repeated(self._value(expression.yes))
        if not mask.any():
            return self._repeated(self._value(expression.no))
        # Python computes the one or the other, which may fail where it is not asked for.
        sides = self._sides.get(expression.test)
        if sides is None:
            sides = [Evaluation({}, self, chosen) for chosen in (test, pc.invert(test))]
            self._sides[expression.test] = sides
        values = [side._value(branch) for side, branch in zip(sides, expression.sides, strict=True)]
        # None has no type of its own.
        arrow_type = next((each.type for each in values if each.type != pa.null()), pa.null())
        counts = np.count_nonzero(mask), np.count_nonzero(~mask)
        arrays = [
            pa.repeat(pa.scalar(each.as_py(), arrow_type), count)
            if isinstance(each, pa.Scalar)
            else each.cast(arrow_type)
            for each, count in zip(values, counts, strict=True)
        ]
        indices = np.where(mask, np.cumsum(mask) - 1, counts[0] + np.cumsum(~mask) - 1)
        return pa.concat_arrays(arrays).take(pa.array(indices))


_LEAVES: Final = (Constant, Field)


def _check_exact(numbers: Any) -> None:
    """Refuses ints that floats do not hold: Python divides them exactly, and rounds the result."""
    bounds = pc.min_max(numbers)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and not -LARGEST_EXACT <= low <= high <= LARGEST_EXACT:
        raise NotInColumnsError("an int is divided that no float holds")
