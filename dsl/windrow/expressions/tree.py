"""A tree of fields, constants, operators and decisions describes what a function computes of an element."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import operator
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = [
    "BINARY",
    "CALLS",
    "COMPARISONS",
    "UNARY",
    "Binary",
    "Call",
    "Conditional",
    "Constant",
    "Contains",
    "Element",
    "Expression",
    "Field",
    "Item",
    "Lookup",
    "Member",
    "Method",
    "Record",
    "Unary",
    "collection_text",
]

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

UNARY: Final[Mapping[str, Callable[[Any], Any]]] = types.MappingProxyType(
    {"-": operator.neg, "+": operator.pos, "abs": operator.abs}
)
"""The operators of one operand."""

COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})

CALLS: Final[Mapping[str, Callable[[Any], Any]]] = types.MappingProxyType(
    {
        "int": int,
        "float": float,
        "len": len,
        "utc": lambda seconds: datetime.datetime.fromtimestamp(seconds, datetime.UTC),
    }
)
"""The functions of one argument; ``utc`` is ``datetime.fromtimestamp(seconds, UTC)``."""

_CALL_TYPES: Final = {"int": int, "float": float, "len": int, "utc": datetime.datetime}

_METHOD_TYPES: Final[Mapping[tuple[object, str], object]] = types.MappingProxyType(
    {
        (str, "count"): int,
        (str, "endswith"): bool,
        (str, "lower"): str,
        (str, "split"): list[str],
        (str, "startswith"): bool,
        (str, "upper"): str,
        (datetime.datetime, "strftime"): str,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A node of the tree. Nodes that hold a collection are equal to themselves alone."""

    def evaluate(self, element: Any) -> Any:
        """Returns what the selector returns for ``element``, and raises what the selector would raise."""
        raise NotImplementedError

    def type_of(self, element_type: object) -> object | None:
        """The type of the value for elements of a type; None where annotations do not say."""
        return None

    def parts(self) -> Iterator[Expression]:
        """The node and all nodes below it."""
        yield self
        for each in dataclasses.fields(self):
            below = getattr(self, each.name)
            if isinstance(below, Expression):
                yield from below.parts()
            elif isinstance(below, tuple):
                for item in below:
                    # The fields of a record have names.
                    part = item[1] if isinstance(item, tuple) else item
                    if isinstance(part, Expression):
                        yield from part.parts()

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
    """A constant of the function's code, or of a variable around it."""

    value: Scalar = field(compare=False)
    # 1, 1.0 and True are equal, and so are both zeros, but they give other results.
    _text: tuple[type, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_text", (type(self.value), repr(self.value)))

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
    """An operand with an operator or ``abs`` before it; see ``UNARY``."""

    operator: str
    of: Expression

    def evaluate(self, element: Any) -> Any:
        return UNARY[self.operator](self.of.evaluate(element))

    def type_of(self, element_type: object) -> object | None:
        kind = self.of.type_of(element_type)
        return kind if kind in (int, float) else None

    def operand(self) -> str:
        return str(self) if self.operator == "abs" else f"({self})"

    def __str__(self) -> str:
        return f"abs({self.of})" if self.operator == "abs" else f"{self.operator}{self.of.operand()}"


@dataclass(frozen=True, slots=True)
class Conditional(Expression):
    """One of two values, by whether a third one is true; the other one is not computed."""

    test: Expression
    yes: Expression
    no: Expression

    def evaluate(self, element: Any) -> Any:
        return (self.yes if self.test.evaluate(element) else self.no).evaluate(element)

    def type_of(self, element_type: object) -> object | None:
        yes, no = self.yes.type_of(element_type), self.no.type_of(element_type)
        if yes == no or no is None:
            return yes if yes == no else None
        if yes is type(None):
            return _or_none(no)
        return _or_none(yes) if no is type(None) else None

    def operand(self) -> str:
        return f"({self})"

    def __str__(self) -> str:
        return f"{self.yes.operand()} if {self.test} else {self.no.operand()}"


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A built-in function of one value; see ``CALLS``."""

    function: str
    of: Expression

    def evaluate(self, element: Any) -> Any:
        return CALLS[self.function](self.of.evaluate(element))

    def type_of(self, element_type: object) -> object | None:
        return _CALL_TYPES[self.function]

    def __str__(self) -> str:
        return f"{self.function}({self.of})"


@dataclass(frozen=True, slots=True)
class Method(Expression):
    """A call of a method: ``r.url.split("/")``."""

    of: Expression
    name: str
    arguments: tuple[Expression, ...]

    def evaluate(self, element: Any) -> Any:
        found = getattr(self.of.evaluate(element), self.name)
        return found(*[argument.evaluate(element) for argument in self.arguments])

    def type_of(self, element_type: object) -> object | None:
        return _METHOD_TYPES.get((self.of.type_of(element_type), self.name))

    def __str__(self) -> str:
        of = "" if isinstance(self.of, Element) else self.of.operand()
        return f"{of}.{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Contains(Expression):
    """Whether a value contains another one: ``"x" in r.url``."""

    of: Expression
    item: Expression

    def evaluate(self, element: Any) -> Any:
        item = self.item.evaluate(element)
        return item in self.of.evaluate(element)

    def type_of(self, element_type: object) -> object | None:
        return bool

    def operand(self) -> str:
        return f"({self})"

    def __str__(self) -> str:
        return f"{self.item.operand()} in {self.of.operand()}"


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expression):
    """Whether a value is in a set, or is a key of a dict, of the code or of a variable around it."""

    of: Expression
    values: frozenset[Any] | set[Any] | Mapping[Any, Any]

    def evaluate(self, element: Any) -> Any:
        return self.of.evaluate(element) in self.values

    def type_of(self, element_type: object) -> object | None:
        return bool

    def operand(self) -> str:
        return f"({self})"

    def __str__(self) -> str:
        return f"{self.of.operand()} in {collection_text(self.values)}"


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Expression):
    """The value that a dict of a variable around the function has for a key."""

    table: Mapping[Any, Any]
    key: Expression
    default: Expression | None = None  # None: there is none, and an absent key raises KeyError

    def evaluate(self, element: Any) -> Any:
        key = self.key.evaluate(element)
        if self.default is None:
            return self.table[key]
        default = self.default.evaluate(element)
        return self.table.get(key, default)

    def type_of(self, element_type: object) -> object | None:
        kinds = set(map(type, self.table.values()))
        kind = kinds.pop() if len(kinds) == 1 else None
        if self.default is None or kind is None:
            return kind
        default = self.default.type_of(element_type)
        return kind if default is kind else _or_none(kind) if default is type(None) else None

    def __str__(self) -> str:
        table = collection_text(self.table)
        return f"{table}[{self.key}]" if self.default is None else f"{table}.get({self.key}, {self.default})"


@dataclass(frozen=True, slots=True)
class Record(Expression):
    """A record of a dataclass or a named tuple, or a plain tuple, whose fields are named by their places."""

    target: type[Any]
    fields: tuple[tuple[str, Expression], ...]

    def evaluate(self, element: Any) -> Any:
        values = {name: of.evaluate(element) for name, of in self.fields}
        return tuple(values.values()) if self.target is tuple else self.target(**values)

    def type_of(self, element_type: object) -> object | None:
        if self.target is not tuple:
            return self.target
        kinds = [of.type_of(element_type) for _, of in self.fields]
        # Any: a tuple of the types that were found.
        return None if None in kinds else tuple.__class_getitem__(tuple(kinds))

    def __str__(self) -> str:
        if self.target is tuple:
            return f"({', '.join(str(of) for _, of in self.fields)}{',' if len(self.fields) == 1 else ''})"
        return f"{self.target.__name__}({', '.join(f'{name}={of}' for name, of in self.fields)})"


def _or_none(kind: object) -> object:
    # Any: a union of types that are known when the program runs.
    present: Any = kind
    return present | None


def collection_text(values: typing.Collection[Any]) -> str:
    """The text of a set or a dict: equal ones have the same, and others have others."""
    items = values.items() if isinstance(values, Mapping) else None
    shown = sorted(map(repr, values) if items is None else (f"{key!r}: {value!r}" for key, value in items))
    if len(shown) <= 4:
        return f"{{{', '.join(shown)}}}"
    digest = hashlib.sha256(repr(shown).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{{{', '.join(shown[:3])}, ... {len(shown)} in all, {digest}}}"


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
