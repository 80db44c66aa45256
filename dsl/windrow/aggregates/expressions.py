"""A tree of fields, constants and operators describes what a selector takes from an element."""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

__all__ = ["BINARY", "COMPARISONS", "UNARY", "Binary", "Constant", "Element", "Expression", "Field", "Item", "Unary"]

# Any in this module: elements and their fields are of every type.

Scalar: TypeAlias = "bool | int | float | str | None"

BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = types.MappingProxyType(
    {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "//": operator.floordiv,
        "%": operator.mod,
        "**": operator.pow,
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
"""The operators of two operands."""

UNARY: Final[Mapping[str, Callable[[Any], Any]]] = types.MappingProxyType({"-": operator.neg, "+": operator.pos})
"""The operators of one operand."""

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of the tree."""

    def evaluate(self, element: Any) -> Any:
        """Returns what the selector returns for ``element``, and raises what the selector would raise."""
        raise NotImplementedError

    def type_of(self, element_type: object) -> object | None:
        """The type of the value for elements of a type; None where annotations do not say."""
        return None

    def operand(self) -> str:
        """The text of the node, as a part of a longer one."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Element(Expression):
    """The element itself."""

    def evaluate(self, element: Any) -> Any:
        return element

    def type_of(self, element_type: object) -> object | None:
        return element_type

    def __str__(self) -> str:
        return "element"


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """A field of a record, by its name: ``r.celsius``. A property of the class looks the same."""

    of: Expression
    name: str

    def evaluate(self, element: Any) -> Any:
        return getattr(self.of.evaluate(element), self.name)

    def type_of(self, element_type: object) -> object | None:
        return _hints(self.of.type_of(element_type)).get(self.name)

    def __str__(self) -> str:
        return f"{'' if isinstance(self.of, Element) else self.of.operand()}.{self.name}"


@dataclass(frozen=True, slots=True)
class Item(Expression):
    """An item of a tuple, a list or a dict: ``r[0]``, ``r["k"]``."""

    of: Expression
    key: int | str

    def evaluate(self, element: Any) -> Any:
        return self.of.evaluate(element)[self.key]

    def type_of(self, element_type: object) -> object | None:
        kind = self.of.type_of(element_type)
        if isinstance(self.key, str) and typing.is_typeddict(kind):
            return _hints(kind).get(self.key)
        arguments = typing.get_args(kind)
        origin = typing.get_origin(kind)
        if origin is tuple and isinstance(self.key, int):
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return _known(arguments[0])
            return _known(arguments[self.key]) if -len(arguments) <= self.key < len(arguments) else None
        if origin in (list, dict):
            return _known(arguments[-1])
        return None

    def __str__(self) -> str:
        return f"{'' if isinstance(self.of, Element) else self.of.operand()}[{self.key!r}]"


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A constant of the selector's code."""

    value: Scalar

    def evaluate(self, element: Any) -> Any:
        return self.value

    def type_of(self, element_type: object) -> object | None:
        return type(self.value)

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Two operands and an operator between them; see ``BINARY``."""

    operator: str
    left: Expression
    right: Expression

    def evaluate(self, element: Any) -> Any:
        left = self.left.evaluate(element)
        return BINARY[self.operator](left, self.right.evaluate(element))

    def type_of(self, element_type: object) -> object | None:
        kinds = {self.left.type_of(element_type), self.right.type_of(element_type)}
        if not kinds <= {int, float}:
            return None
        if self.operator in COMPARISONS:
            return bool
        if self.operator == "**":
            return None
        return float if float in kinds or self.operator == "/" else int

    def operand(self) -> str:
        return f"({self})"

    def __str__(self) -> str:
        return f"{self.left.operand()} {self.operator} {self.right.operand()}"


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """An operand with an operator before it; see ``UNARY``."""

    operator: str
    of: Expression

    def evaluate(self, element: Any) -> Any:
        return UNARY[self.operator](self.of.evaluate(element))

    def type_of(self, element_type: object) -> object | None:
        kind = self.of.type_of(element_type)
        return kind if kind in (int, float) else None

    def operand(self) -> str:
        return f"({self})"

    def __str__(self) -> str:
        return f"{self.operator}{self.of.operand()}"


def _hints(kind: object | None) -> dict[str, object]:
    """The fields of a class by their annotations."""
    if not isinstance(kind, type):
        return {}
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):
        return {}
    return {name: hint for name, hint in hints.items() if _known(hint) is not None}


def _known(hint: object) -> object | None:
    # Type variables say nothing here, and neither does Any.
    open_ended = hint is Any or isinstance(hint, typing.TypeVar) or bool(getattr(hint, "__parameters__", ()))
    return None if open_ended else hint
