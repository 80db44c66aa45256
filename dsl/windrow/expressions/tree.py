"""Defines the nodes of expressions, such as a field, a constant or a call, each with its type and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from windrow.expressions.built_in import CALLS, UNARY, UNARY_TYPES
from windrow.expressions.constant_texts import Scalar, collection_text, constant_text
from windrow.expressions.member_types import (
    attribute_type,
    binary_type,
    item_type,
    list_type,
    method_type,
    of_each,
    record_type,
    united,
)
from windrow.expressions.node import Expression, Texts, Types

# Any in this module: elements and their fields are of every type.


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Element(Expression):
    """The element itself."""

    @property
    def reads_same(self) -> bool:
        return True

    def _text(self, texts: Texts) -> str:
        return "element"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return "element"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Argument(Expression):
    """An argument of a function of several, by its name."""

    name: str

    @property
    def reads_same(self) -> bool:
        return True

    def _text(self, texts: Texts) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Expression):
    """A field of a record, by its name: ``r.celsius``. A property of the class looks the same.

    Attributes:
        of: The record.
        name: The name of the field.
    """

    of: Expression
    name: str

    @property
    def reads_same(self) -> bool:
        return self.of.reads_same

    def _type(self, types: Types) -> object | None:
        return attribute_type(types[self.of], self.name)

    def _text(self, texts: Texts) -> str:
        return f"{'' if isinstance(self.of, Element) else self.of._operand(texts)}.{self.name}"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"getattr({names[self.of]}, {self.name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Item(Expression):
    """An item of a tuple, a list or a dict: ``r[0]``, ``r["k"]``.

    Attributes:
        of: The tuple, the list or the dict.
        key: The index or the key.
        shown: The text of the key in plans and errors, as the name of its variable; None: the key itself.
    """

    of: Expression
    key: int | str
    shown: str | None = field(default=None, compare=False)

    @property
    def reads_same(self) -> bool:
        return self.of.reads_same

    def _type(self, types: Types) -> object | None:
        return item_type(types[self.of], self.key)

    def _text(self, texts: Texts) -> str:
        of = "" if isinstance(self.of, Element) else self.of._operand(texts)
        return f"{of}[{self.shown or constant_text(self.key)}]"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{names[self.of]}[{add(self.key)}]"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Expression):
    """A constant of the function's code, or of a variable around it.

    Attributes:
        value: The value.
        shown: Its text in plans and errors, as the name of its variable; None: the value itself may be shown.
    """

    # 1, 1.0 and True are equal, and so are both zeros, but they give other results: the identity tells them apart.
    value: Scalar
    shown: str | None = field(default=None, compare=False)

    @property
    def reads_same(self) -> bool:
        return True

    def _type(self, types: Types) -> object | None:
        return type(self.value)

    def _text(self, texts: Texts) -> str:
        return constant_text(self.value) if self.shown is None else self.shown

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return add(self.value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expression):
    """Two operands and an operator between them.

    Attributes:
        operator: The symbol of the operator.
        left: The left operand.
        right: The right operand.
        may_be_same: Whether the comparison may be that of a tuple or a list, which takes one object for equal to itself
            even where it is not, as NaN.
    """

    is_compound: ClassVar[bool] = True
    operator: str
    left: Expression
    right: Expression
    may_be_same: bool = False

    def _type(self, types: Types) -> object | None:
        left, right = types[self.left], types[self.right]
        if self.operator == "**" and left in (bool, int) and isinstance(self.right, Constant):
            exponent = self.right.value
            return None if type(exponent) is not int else int if exponent >= 0 else float
        return binary_type(self.operator, left, right)

    def _text(self, texts: Texts) -> str:
        return f"{self.left._operand(texts)} {self.operator} {self.right._operand(texts)}"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{names[self.left]} {self.operator} {names[self.right]}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Expression):
    """An operand with an operator or ``abs`` before it; see ``UNARY``.

    Attributes:
        operator: The symbol of the operator, or ``abs``.
        of: The operand.
    """

    operator: str
    of: Expression

    def _type(self, types: Types) -> object | None:
        return of_each(types[self.of], UNARY_TYPES.get)

    def _text(self, texts: Texts) -> str:
        return f"abs({texts[self.of]})" if self.operator == "abs" else f"{self.operator}{self.of._operand(texts)}"

    def _operand(self, texts: Texts) -> str:
        return texts[self] if self.operator == "abs" else f"({texts[self]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{add(UNARY[self.operator])}({names[self.of]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conditional(Expression):
    """A conditional expression ``a if test else b``; the value that is not chosen is not computed.

    Attributes:
        test: The value that decides.
        yes: The value where that is true.
        no: The value where it is not.
    """

    is_compound: ClassVar[bool] = True
    test: Expression
    yes: Expression
    no: Expression

    @property
    def sides(self) -> tuple[Expression, ...]:
        return self.yes, self.no

    def _text(self, texts: Texts) -> str:
        return f"{self.yes._operand(texts)} if {texts[self.test]} else {self.no._operand(texts)}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """A built-in function of one value; see ``CALLS``.

    Attributes:
        function: The name of the function.
        of: Its argument.
    """

    function: str
    of: Expression

    def _type(self, types: Types) -> object | None:
        return CALLS[self.function].result

    def _text(self, texts: Texts) -> str:
        return f"{self.function}({texts[self.of]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{add(CALLS[self.function].python)}({names[self.of]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Method(Expression):
    """A call of a method: ``r.url.split("/")``.

    Attributes:
        of: The object.
        name: The name of the method.
        arguments: Its arguments, by position.
    """

    of: Expression
    name: str
    arguments: tuple[Expression, ...]

    def _type(self, types: Types) -> object | None:
        return method_type(types[self.of], self.name)

    def _text(self, texts: Texts) -> str:
        of = "" if isinstance(self.of, Element) else self.of._operand(texts)
        return f"{of}.{self.name}({', '.join([texts[each] for each in self.arguments])})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"getattr({names[self.of]}, {self.name!r})({', '.join([names[each] for each in self.arguments])})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contains(Expression):
    """A test whether a text contains another one: ``"x" in r.url``.

    Attributes:
        of: The value that may contain the other one.
        item: The other one.
    """

    is_compound: ClassVar[bool] = True
    of: Expression
    item: Expression

    def _type(self, types: Types) -> object | None:
        return bool

    def _text(self, texts: Texts) -> str:
        return f"{self.item._operand(texts)} in {self.of._operand(texts)}"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{names[self.item]} in {names[self.of]}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Member(Expression):
    """Whether a value is in a set, or is a key of a dict, of the code or of a variable around it.

    Attributes:
        of: The value.
        values: The set or the dict.
        shown: Its text in plans and errors, as the name of its variable; None: it stands in the code.
    """

    is_compound: ClassVar[bool] = True
    of: Expression
    values: frozenset[Any] | set[Any] | Mapping[Any, Any]
    shown: str | None = field(default=None, compare=False)

    def _type(self, types: Types) -> object | None:
        return bool

    def _text(self, texts: Texts) -> str:
        return f"{self.of._operand(texts)} in {self.shown or collection_text(self.values)}"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{names[self.of]} in {add(self.values)}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lookup(Expression):
    """The value that a dict of a variable around the function has for a key.

    Attributes:
        table: The dict.
        key: The key.
        default: What is given for an absent key; None: there is nothing, and it raises KeyError.
        shown: The text of the dict in plans and errors, as the name of its variable.
    """

    table: Mapping[Any, Any]
    key: Expression
    default: Expression | None = None
    shown: str | None = field(default=None, compare=False)

    @property
    def reads_same(self) -> bool:
        return self.key.reads_same and (self.default is None or self.default.reads_same)

    def _type(self, types: Types) -> object | None:
        types_of = set(map(type, self.table.values()))
        class_ = types_of.pop() if len(types_of) == 1 else None
        if self.default is None or class_ is None:
            return class_
        default = types[self.default]
        return united([class_, default])

    def _text(self, texts: Texts) -> str:
        table, key = self.shown or collection_text(self.table), texts[self.key]
        return f"{table}[{key}]" if self.default is None else f"{table}.get({key}, {texts[self.default]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        table, key = add(self.table), names[self.key]
        return f"{table}[{key}]" if self.default is None else f"{table}.get({key}, {names[self.default]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Record(Expression):
    """A record of a dataclass or a named tuple, or a plain tuple or list, whose fields are named by their indices.

    Attributes:
        target: The class, or ``tuple``, or ``list``, of which only the type is asked.
        fields: The name of each field, with its value.
    """

    target: type[Any]
    fields: tuple[tuple[str, Expression], ...]

    def _type(self, types: Types) -> object | None:
        return self.type_with([types[of] for _, of in self.fields])

    def type_with(self, field_types: Sequence[object | None]) -> object | None:
        """The type of the record by the types of its fields; None where it is not known."""
        if self.target is list:
            return list_type(field_types)
        if self.target is tuple:
            return None if None in field_types else tuple.__class_getitem__(tuple(field_types))
        return record_type(self.target, [(name, of) for (name, _), of in zip(self.fields, field_types, strict=True)])

    def _text(self, texts: Texts) -> str:
        if self.target is tuple:
            return f"({', '.join([texts[of] for _, of in self.fields])}{',' if len(self.fields) == 1 else ''})"
        return f"{self.target.__name__}({', '.join([f'{name}={texts[of]}' for name, of in self.fields])})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        if self.target is tuple:
            return f"({''.join([f'{names[of]}, ' for _, of in self.fields])})"
        return f"{add(self.target)}({', '.join([f'{name}={names[of]}' for name, of in self.fields])})"
