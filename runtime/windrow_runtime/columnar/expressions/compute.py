"""Computes expressions over the columns of a batch of elements.

Where Arrow cannot give, for each element of a batch, what Python gives (an int that grows beyond 64 bits, a part of a
text that is not there), :class:`NotInColumnsError` is raised, and the caller computes the batch in Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates import (
    Binary,
    Call,
    Conditional,
    Constant,
    Contains,
    Expression,
    Field,
    Item,
    Method,
    Record,
    Unary,
)
from windrow.expressions.tree import Texts, ordered
from windrow_runtime.columnar import Mask

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
"""Arrow's functions for operators."""

LARGEST_EXACT: Final = 2**53
"""Floats hold each int up to here, and not all beyond."""

_FIRST_SECOND: Final = -30_610_224_000  # of the year 1000: Python writes earlier years with fewer digits
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999


class NotInColumnsError(Exception):
    """Arrow cannot compute an expression for a batch as Python does."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Among(Expression):
    """Whether a value is among those of a set, or the keys of a dict, as they were when the plan was lowered."""

    of: Expression
    values: Any = field(compare=False)
    digest: str  # of the set or the dict; equal ones have the same
    shown: str = field(compare=False)  # their text in plans and errors

    def _text(self, texts: Texts) -> str:
        return f"{self.of._operand(texts)} in {self.shown}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Found(Expression):
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

    def __init__(self, columns: Mapping[str, Any], whole: Evaluation | None = None, chosen: Any = None) -> None:
        self._columns = columns
        self._whole_batch, self._chosen = whole, chosen  # where these are the columns of chosen elements
        self._found: dict[Expression, Any] = {}
        self._sides: dict[Expression, tuple[Evaluation, Evaluation]] = {}

    def array(self, expression: Expression, kind: Any) -> Any:
        """Returns the value of an expression for each element, as an array of an Arrow type."""
        found = self._value(expression)
        if isinstance(found, pa.Scalar) and found.type != kind:
            found = pa.scalar(found.as_py(), kind)
        found = self._whole(found)
        return found if found.type == kind else found.cast(kind)

    def _whole(self, found: Any) -> Any:
        """Returns an array, with a scalar repeated for each element."""
        return pa.repeat(found, len(next(iter(self._columns.values())))) if isinstance(found, pa.Scalar) else found

    def _value(self, expression: Expression) -> Any:
        """Returns an array; a scalar for a constant of the code, and for nothing else."""
        match expression:
            case Field():
                return self._columns[expression.name]
            case Constant():
                return pa.scalar(expression.value)
        found = self._found.get(expression)
        if found is None:
            for each in ordered([expression], self._not_found):
                if each not in self._found and not isinstance(each, _LEAVES):
                    self._found[each] = self._found_before(each)
            found = self._found[expression]
        return found

    def _not_found(self, expression: Expression) -> Collection[Expression]:
        """What has to be computed before an expression."""
        if expression in self._found or isinstance(expression, _LEAVES):
            return ()
        return [] if self._of_whole(expression) is not None else _computed_first(expression)

    def _of_whole(self, expression: Expression) -> Any:
        """What was found for the elements of which these are chosen; None: nothing was, or they are not chosen."""
        return None if self._whole_batch is None else self._whole_batch._found.get(expression)

    def _found_before(self, expression: Expression) -> Any:
        known = self._of_whole(expression)
        if known is not None:
            return known.filter(self._chosen)
        try:
            return self._computed(expression)
        except pa.ArrowException as error:
            raise NotInColumnsError(str(error)) from None

    def _computed(self, expression: Expression) -> Any:
        match expression:
            case Unary():
                return self._unary(expression)
            case Binary():
                return self._binary(expression)
            case Conditional():
                return self._conditional(expression)
            case Call():
                return self._call(expression)
            case Method():
                return self._method(expression)
            case Item(of=Method() as split, key=int() as place):
                parts = pc.split_pattern(self._value(split.of), pattern=_text_of(split))
                return pc.list_element(parts, place)
            case Contains():
                assert isinstance(expression.item, Constant), "others have no column form"
                return pc.match_substring(self._value(expression.of), pattern=expression.item.value)
            case Among():
                return pc.is_in(self._value(expression.of), value_set=expression.values)
            case Record():
                names = [name for name, _ in expression.fields]
                return pa.StructArray.from_arrays([self._whole(self._value(of)) for _, of in expression.fields], names)
        assert isinstance(expression, Found), "there are no other ones over columns"
        places = pc.index_in(self._whole(self._value(expression.key)), value_set=expression.keys)
        if expression.default is not None:
            default = self._value(expression.default)
            taken = expression.values.take(places)
            if default.type != taken.type:
                default = pa.scalar(None, taken.type)  # None has no type of its own
            return pc.if_else(places.is_valid(), taken, default) if places.null_count else taken
        if places.null_count:
            raise NotInColumnsError("a key is not in the dict")
        return expression.values.take(places)

    def _unary(self, expression: Unary) -> Any:
        of = self._value(expression.of)
        if expression.operator == "+":
            return of
        return pc.abs_checked(of) if expression.operator == "abs" else pc.negate_checked(of)

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
            # Of two constants that are None nothing has a type.
            return pa.nulls(len(test)) if yes.type == pa.null() else pc.if_else(test, yes, no)
        if mask.all():
            return self._whole(self._value(expression.yes))
        if not mask.any():
            return self._whole(self._value(expression.no))
        # Python computes the one or the other, which may fail where it is not asked for.
        sides = self._sides.get(expression.test)
        if sides is None:
            of_yes, of_no = [
                Evaluation(_Chosen(self._columns, chosen), self, chosen) for chosen in (test, pc.invert(test))
            ]
            sides = self._sides[expression.test] = of_yes, of_no
        found = [side._value(branch) for side, branch in zip(sides, (expression.yes, expression.no), strict=True)]
        # None has no type of its own.
        kind = next((each.type for each in found if each.type != pa.null()), pa.null())
        counts = np.count_nonzero(mask), np.count_nonzero(~mask)
        arrays = [
            pa.repeat(pa.scalar(each.as_py(), kind), count) if isinstance(each, pa.Scalar) else each.cast(kind)
            for each, count in zip(found, counts, strict=True)
        ]
        places = np.where(mask, np.cumsum(mask) - 1, counts[0] + np.cumsum(~mask) - 1)
        return pa.concat_arrays(arrays).take(pa.array(places))

    def _call(self, expression: Call) -> Any:
        of = self._value(expression.of)
        if expression.function == "len":
            return pc.utf8_length(of).cast(pa.int64())
        return of.cast(pa.int64() if expression.function == "int" else pa.float64(), safe=False)

    def _method(self, expression: Method) -> Any:
        name = expression.name
        if name == "strftime":
            assert isinstance(expression.of, Call), "others have no column form"
            seconds = self._value(expression.of.of)
            if pa.types.is_timestamp(seconds.type):
                micros = seconds.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
                seconds = pa.array(micros.to_numpy() // 1_000_000)
            return _formatted(seconds, _text_of(expression))
        of = self._value(expression.of)
        if name in ("lower", "upper"):
            if not pc.all(pc.string_is_ascii(of)).as_py() and len(of):
                raise NotInColumnsError("a text has other letters than those of ASCII")
            return pc.ascii_lower(of) if name == "lower" else pc.ascii_upper(of)
        text = _text_of(expression)
        if name == "count":
            return pc.count_substring(of, pattern=text).cast(pa.int64())
        return pc.starts_with(of, pattern=text) if name == "startswith" else pc.ends_with(of, pattern=text)


_LEAVES: Final = (Constant, Field)


def _computed_first(expression: Expression) -> tuple[Expression, ...]:
    """What is computed before an expression: neither a side of a decision, nor what has no column of its own."""
    match expression:
        case Conditional():
            return (expression.test,)
        case Item(of=Method() as split):
            return (split.of,)
        case Method(name="strftime", of=Call() as moment):
            return (moment.of,)
    return expression.children


class _Chosen(Mapping[str, Any]):
    """The columns of chosen elements; a column is filtered when it is asked for."""

    def __init__(self, columns: Mapping[str, Any], chosen: Any) -> None:
        self._columns = columns
        self._chosen = chosen
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = self._columns[name].filter(self._chosen)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _text_of(method: Method) -> str:
    (argument,) = method.arguments
    assert isinstance(argument, Constant), "others have no column form"
    assert isinstance(argument.value, str), "others have no column form"
    return argument.value


def _check_exact(numbers: Any) -> None:
    """Refuses ints that floats do not hold: Python divides them exactly, and rounds the result."""
    bounds = pc.min_max(numbers)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and not -LARGEST_EXACT <= low <= high <= LARGEST_EXACT:
        raise NotInColumnsError("an int is divided that no float holds")


def _formatted(seconds: Any, template: str) -> Any:
    """Formats times, each different one once: a batch has few of them."""
    encoded = seconds.dictionary_encode()
    distinct = encoded.dictionary
    bounds = pc.min_max(distinct)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and not _FIRST_SECOND <= low <= high <= _LAST_SECOND:
        raise NotInColumnsError("a time is in a year before 1000 or behind 9999")
    texts = pc.strftime(distinct.cast(pa.timestamp("s", tz="UTC")), format=template)
    return texts.take(encoded.indices)
