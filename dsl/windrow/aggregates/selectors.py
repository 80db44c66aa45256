"""Recognises what a selector does: plain fields and simple expressions, without running it on an element.

A selector is called once with a proxy that records what is asked of it. A proxy alone could be deceived: by a selector
that reads a variable, asks ``is None`` or formats a text. So the code of the selector is looked at first, and must
consist of fields, constants and operators alone. Where in doubt the answer is *opaque*, and the selector is called.
"""

from __future__ import annotations

import dis
import operator
import typing
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, NoReturn

from windrow.aggregates.expressions import Binary, Constant, Element, Expression, Field, Item, Unary
from windrow.functions.names import function_name
from windrow.functions.rich import RichFunction
from windrow.plan.fitting import holds_none
from windrow.plan.types import result_type

__all__ = ["Opaque", "gives_none", "recognise", "selected_type", "selector_text", "selector_type"]

# Any in this module: selectors of elements of every type.


@dataclass(frozen=True, slots=True)
class Opaque:
    """A selector that must be called to know what it takes.

    Attributes:
        reason: What it does that is no plain expression.
    """

    reason: str


def recognise(selector: Callable[[Any], Any]) -> Expression | Opaque:
    """Recognises what ``selector`` takes from an element.

    Returns:
        An expression that gives for every element what the selector gives, and raises where it raises; or why there
        is none.
    """
    if isinstance(selector, RichFunction):
        return Opaque("is a rich function")
    if not isinstance(selector, (operator.attrgetter, operator.itemgetter)):
        if type(selector) is not FunctionType:
            return Opaque("is not a plain function")
        reason = _refusal(selector)
        if reason is not None:
            return Opaque(reason)
    try:
        result = selector(_Recorder(Element()))
    except _RefusedError as refused:
        return Opaque(str(refused))
    except Exception as error:
        # A selector that raises for a proxy is no plain expression of fields and constants.
        return Opaque(f"raises {type(error).__name__} when it is tried")
    if type(result) is not _Recorder:
        return Opaque("gives something else than a value of the element")
    return _expression_of(result)


def selector_text(selector: Callable[[Any], Any]) -> str:
    """How a selector is shown in a plan: ``.celsius``, ``.high - .low``, or the name of the function."""
    found = recognise(selector)
    return function_name(selector) if isinstance(found, Opaque) else str(found)


def selector_type(selector: Callable[[Any], Any], element_type: object | None) -> object | None:
    """The type of what a selector takes; None where annotations do not say."""
    kind = result_type(selector)
    if kind is None and element_type is not None:
        found = recognise(selector)
        kind = None if isinstance(found, Opaque) else found.type_of(element_type)
    return kind


def selected_type(selector: Callable[[Any], Any], element_type: object | None) -> object | None:
    """The type of what a selector takes, without None; None where annotations do not say."""
    return _present(selector_type(selector, element_type))


def gives_none(selector: Callable[[Any], Any], element_type: object | None) -> bool | None:
    """Whether a selector may give None; None where annotations do not say."""
    kind = selector_type(selector, element_type)
    return None if kind is None else holds_none(kind)


def _present(kind: object | None) -> object | None:
    """The type of the values that are there: ``X`` for ``X | None``."""
    arguments = typing.get_args(kind)
    if type(None) not in arguments:
        return kind
    others = [argument for argument in arguments if argument is not type(None)]
    return others[0] if len(others) == 1 else None


# The code

_PLAIN: Final = frozenset(
    {
        "BINARY_OP",
        "BINARY_SUBSCR",
        "CACHE",
        "COMPARE_OP",
        "LOAD_ATTR",
        "LOAD_CONST",
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_FAST_LOAD_FAST",
        "LOAD_SMALL_INT",
        "NOP",
        "RESUME",
        "RETURN_CONST",
        "RETURN_VALUE",
        "UNARY_NEGATIVE",
        "UNARY_POSITIVE",
    }
)
"""Instructions that do nothing but read the element, compute and return. A newer Python may have others: opaque."""


def _refusal(selector: FunctionType) -> str | None:
    """Why the code of a selector is more than an expression; None where it is none."""
    code = selector.__code__
    if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & _VARIADIC:
        return "takes other arguments than an element"
    formats = has_text = False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name not in _PLAIN:
            return _reason(name, instruction.argval)
        formats = formats or (name == "BINARY_OP" and instruction.argrepr == "%")
        # A docstring is among the code's constants too, and nobody loads it.
        has_text = has_text or ("CONST" in name and isinstance(instruction.argval, (str, bytes, tuple)))
    # A text does its own formatting, and never asks the proxy on its right.
    if formats and has_text:
        return "may format a text"
    return None


_VARIADIC: Final = 0x04 | 0x08


def _reason(name: str, argument: object) -> str:
    if "GLOBAL" in name or "LOAD_NAME" in name:
        return f"uses {argument}"
    if "DEREF" in name or "FREE_VARS" in name or "CLOSURE" in name:
        return "uses a variable of the function around it"
    if "CALL" in name or "METHOD" in name:
        return "calls a function"
    if "JUMP" in name or name in ("UNARY_NOT", "TO_BOOL", "COPY"):
        return "decides something (if, and, or, not)"
    if name in ("IS_OP", "CONTAINS_OP"):
        return "asks `is` or `in`"
    if "STORE" in name or "DELETE" in name:
        return "changes something"
    return f"does more than take fields and compute ({name})"


# The proxy


class _RefusedError(Exception):
    """The proxy was asked for what no expression can tell."""


class _Recorder:
    """Stands for a value of the element, and answers what is asked of it with the expression that says so."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # refuses to be a key, whose hash would be recorded nowhere

    def __init__(self, expression: Expression) -> None:
        object.__setattr__(self, "expression", expression)

    def __getattribute__(self, name: str) -> _Recorder:
        if name.startswith("__") and name.endswith("__"):
            raise _RefusedError(f"reads {name}")
        return _Recorder(Field(_expression_of(self), name))

    def __getitem__(self, key: object) -> _Recorder:
        if type(key) is int or type(key) is str:
            return _Recorder(Item(_expression_of(self), key))
        raise _RefusedError("asks for an item by something else than a number or a text")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise _RefusedError("changes the element")

    def __bool__(self) -> NoReturn:
        raise _RefusedError("decides something (if, and, or, not)")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise _RefusedError("calls a function")

    def __iter__(self) -> NoReturn:
        raise _RefusedError("goes through a value")

    def __contains__(self, item: object) -> NoReturn:
        raise _RefusedError("asks `is` or `in`")

    def __str__(self) -> NoReturn:
        raise _RefusedError("makes a text")

    __repr__ = __str__

    def __format__(self, format_spec: str) -> NoReturn:
        raise _RefusedError("makes a text")

    def __add__(self, other: object) -> _Recorder:
        return _binary("+", self, other)

    def __radd__(self, other: object) -> _Recorder:
        return _binary("+", other, self)

    def __sub__(self, other: object) -> _Recorder:
        return _binary("-", self, other)

    def __rsub__(self, other: object) -> _Recorder:
        return _binary("-", other, self)

    def __mul__(self, other: object) -> _Recorder:
        return _binary("*", self, other)

    def __rmul__(self, other: object) -> _Recorder:
        return _binary("*", other, self)

    def __truediv__(self, other: object) -> _Recorder:
        return _binary("/", self, other)

    def __rtruediv__(self, other: object) -> _Recorder:
        return _binary("/", other, self)

    def __floordiv__(self, other: object) -> _Recorder:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: object) -> _Recorder:
        return _binary("//", other, self)

    def __mod__(self, other: object) -> _Recorder:
        return _binary("%", self, other)

    def __rmod__(self, other: object) -> _Recorder:
        return _binary("%", other, self)

    def __pow__(self, other: object) -> _Recorder:
        return _binary("**", self, other)

    def __rpow__(self, other: object) -> _Recorder:
        return _binary("**", other, self)

    def __neg__(self) -> _Recorder:
        return _Recorder(Unary("-", _expression_of(self)))

    def __pos__(self) -> _Recorder:
        return _Recorder(Unary("+", _expression_of(self)))

    def __eq__(self, other: object) -> _Recorder:  # type: ignore[override]  # a comparison is recorded, not made
        return _binary("==", self, other)

    def __ne__(self, other: object) -> _Recorder:  # type: ignore[override]  # as above
        return _binary("!=", self, other)

    # `3 < r.a` comes as `r.a > 3`: constants are scalars, and compare alike from either side.
    def __lt__(self, other: object) -> _Recorder:
        return _binary("<", self, other)

    def __le__(self, other: object) -> _Recorder:
        return _binary("<=", self, other)

    def __gt__(self, other: object) -> _Recorder:
        return _binary(">", self, other)

    def __ge__(self, other: object) -> _Recorder:
        return _binary(">=", self, other)


_SCALARS: Final = frozenset({bool, int, float, str, type(None)})


def _expression_of(recorder: _Recorder) -> Expression:
    expression: Expression = object.__getattribute__(recorder, "expression")
    return expression


def _binary(symbol: str, left: object, right: object) -> _Recorder:
    return _Recorder(Binary(symbol, _operand(left), _operand(right)))


def _operand(value: Any) -> Expression:
    kind = type(value)
    if kind is _Recorder:
        return _expression_of(value)
    if kind in _SCALARS:
        return Constant(value)
    raise _RefusedError(f"computes with a constant of type {kind.__name__}")
