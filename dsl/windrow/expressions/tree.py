"""A tree of fields, constants, operators and decisions describes what a function computes of an element.

Several nodes may share one below them. What goes through a tree takes each different node once, and does not call
itself for what lies below: a function of a hundred lines makes a deep tree, in which each uses the one before twice.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import itertools
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

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
    "collection_digest",
    "collection_text",
    "constant_text",
    "ordered",
    "shortened_text",
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

_LONGEST: Final = 200  # characters of a text; that of a tree whose parts are used twice would double with each
_LONGEST_CONSTANT: Final = 40
_LONGEST_INT: Final = 128  # bits; longer ones take time to write, and Python refuses the longest

Types: TypeAlias = "Mapping[Expression, object | None]"
"""The types of the values of the nodes below a node; None where annotations do not say."""

Texts: TypeAlias = "Mapping[Expression, str]"
"""The texts of the nodes below a node."""


def shortened_text(text: str, longest: int = _LONGEST) -> str:
    """A text, or its beginning and three dots."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expression:
    """A node of the tree.

    Nodes are equal if they say the same; those of sets and dicts, if they hold the same one.

    Attributes:
        identity: The digest of what the node and all nodes below say. A class, a dict and a set that can change count
            by where they are in memory.
        children: The nodes right below.
    """

    identity: bytes = field(init=False, compare=False)
    children: tuple[Expression, ...] = field(init=False, compare=False)
    _compiled: Callable[[Any], Any] | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        kind = type(self)
        below: list[Expression] = []
        said = [kind.__name__.encode()]
        for each in _saying(kind):
            value = getattr(self, each)
            for part in _flat(value) if type(value) is tuple else (value,):
                if isinstance(part, Expression):
                    below.append(part)
                    said.append(b"\0" + part.identity)
                else:
                    said.append(b"\1" + _key_of(part).encode("utf-8", "surrogatepass"))
            said.append(b"\2")
        digest = hashlib.blake2b(b"".join(said), digest_size=16)
        object.__setattr__(self, "identity", digest.digest())
        object.__setattr__(self, "children", tuple(below))
        object.__setattr__(self, "_compiled", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # As a list of nodes: pickle calls itself for what is within, which is too deep for a deep tree.
        places: dict[Expression, int] = {}
        rows: list[tuple[type[Expression], tuple[Any, ...]]] = []
        for part in self.parts():
            values = [getattr(part, each.name) for each in dataclasses.fields(part) if each.init]
            rows.append((type(part), tuple([_replaced(value, lambda node: _Place(places[node])) for value in values])))
            places[part] = len(places)
        return _rebuilt, (rows,)

    def stored_digest(self) -> str:
        """A digest of what the tree says, with the contents of sets and dicts, that is the same in each process."""
        digests: dict[Expression, bytes] = {}
        for part in self.parts():
            said = [type(part).__name__.encode()]
            for each in _saying(type(part)):
                for value in _flat(getattr(part, each)):
                    text = "" if isinstance(value, Expression) else _stored_key_of(value)
                    said.append(digests[value] if isinstance(value, Expression) else text.encode("utf-8", "replace"))
                said.append(b";")
            digests[part] = hashlib.blake2b(b"\0".join(said), digest_size=16).digest()
        return digests[self].hex()

    def parts(self) -> list[Expression]:
        """All different nodes: each behind those below it, and this one at the end."""
        return ordered([self], lambda node: node.children)

    def evaluate(self, element: Any) -> Any:
        """Returns what the selector returns for ``element``, and raises what the selector would raise."""
        compiled = self._compiled
        if compiled is None:
            compiled = _Code(self).function()
            object.__setattr__(self, "_compiled", compiled)
        return compiled(element)

    def type_of(self, element_type: object) -> object | None:
        """The type of the value for elements of a type; None where annotations do not say."""
        kinds: dict[Expression, object | None] = {}
        for part in self.parts():
            kinds[part] = part._type(kinds, element_type)
        return kinds[self]

    def __str__(self) -> str:
        texts: dict[Expression, str] = {}
        for part in self.parts():
            texts[part] = shortened_text(part._text(texts))
        return texts[self]

    def with_children(self, children: Mapping[Expression, Expression]) -> Self:
        """The node with others in place of those right below it."""
        if all(children[each] is each for each in self.children):
            return self
        changes = {
            each: _replaced(getattr(self, each), children.__getitem__)
            for each in _saying(type(self))
            if any(isinstance(part, Expression) for part in _flat(getattr(self, each)))
        }
        return dataclasses.replace(self, **changes) if changes else self

    @property
    def reads_same(self) -> bool:
        """Whether the value is the same object each time that it is computed of one element."""
        return False

    def _type(self, kinds: Types, element_type: object) -> object | None:
        """The type of the value, from those of the nodes below."""
        return None

    def _text(self, texts: Texts) -> str:
        """The text of the node, from those of the nodes below."""
        raise NotImplementedError

    def _operand(self, texts: Texts) -> str:
        """The text of the node, as a part of a longer one."""
        return texts[self]

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        """The Python code that computes the value.

        Args:
            names: The variables that have the values of the nodes below.
            add: Returns the name by which the code has an object.
        """
        raise NotImplementedError


def ordered(roots: Iterable[Expression], below: Callable[[Expression], Collection[Expression]]) -> list[Expression]:
    """All different nodes of several trees, each behind those that ``below`` gives for it."""
    found: dict[Expression, None] = {}
    waiting: list[tuple[Expression, bool]] = [(root, False) for root in roots][::-1]
    while waiting:
        node, is_ready = waiting.pop()
        if node in found:
            continue
        under = () if is_ready else below(node)
        if not under:
            found[node] = None
            continue
        waiting.append((node, True))
        waiting.extend([(each, False) for each in under][::-1])
    return list(found)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Element(Expression):
    """The element itself."""

    @property
    def reads_same(self) -> bool:
        return True

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return element_type

    def _text(self, texts: Texts) -> str:
        return "element"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return "element"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Expression):
    """A field of a record, by its name: ``r.celsius``. A property of the class looks the same."""

    of: Expression
    name: str

    @property
    def reads_same(self) -> bool:
        return self.of.reads_same

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return _hints(kinds[self.of]).get(self.name)

    def _text(self, texts: Texts) -> str:
        return f"{'' if isinstance(self.of, Element) else self.of._operand(texts)}.{self.name}"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"getattr({names[self.of]}, {self.name!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Item(Expression):
    """An item of a tuple, a list or a dict: ``r[0]``, ``r["k"]``.

    Attributes:
        of: The tuple, the list or the dict.
        key: The place or the key.
        shown: The text of the key in plans and errors, as the name of its variable; None: the key itself.
    """

    of: Expression
    key: int | str
    shown: str | None = field(default=None, compare=False)

    @property
    def reads_same(self) -> bool:
        return self.of.reads_same

    def _type(self, kinds: Types, element_type: object) -> object | None:
        kind = kinds[self.of]
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

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return type(self.value)

    def _text(self, texts: Texts) -> str:
        return constant_text(self.value) if self.shown is None else self.shown

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return add(self.value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expression):
    """Two operands and an operator between them; see ``BINARY``.

    Attributes:
        operator: The symbol of the operator.
        left: The left operand.
        right: The right operand.
        may_be_same: Whether the comparison may be that of a tuple or a list, which takes one object for equal to itself
            even where it is not, as NaN.
    """

    operator: str
    left: Expression
    right: Expression
    may_be_same: bool = False

    def _type(self, kinds: Types, element_type: object) -> object | None:
        sides = {kinds[self.left], kinds[self.right]}
        if not sides <= {int, float}:
            return None
        if self.operator in COMPARISONS:
            return bool
        if self.operator == "**":
            return None
        return float if float in sides or self.operator == "/" else int

    def _text(self, texts: Texts) -> str:
        return f"{self.left._operand(texts)} {self.operator} {self.right._operand(texts)}"

    def _operand(self, texts: Texts) -> str:
        return f"({texts[self]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{names[self.left]} {self.operator} {names[self.right]}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Expression):
    """An operand with an operator or ``abs`` before it; see ``UNARY``."""

    operator: str
    of: Expression

    def _type(self, kinds: Types, element_type: object) -> object | None:
        kind = kinds[self.of]
        return kind if kind in (int, float) else None

    def _text(self, texts: Texts) -> str:
        return f"abs({texts[self.of]})" if self.operator == "abs" else f"{self.operator}{self.of._operand(texts)}"

    def _operand(self, texts: Texts) -> str:
        return texts[self] if self.operator == "abs" else f"({texts[self]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{add(UNARY[self.operator])}({names[self.of]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conditional(Expression):
    """One of two values, by whether a third one is true; the other one is not computed."""

    test: Expression
    yes: Expression
    no: Expression

    def _type(self, kinds: Types, element_type: object) -> object | None:
        yes, no = kinds[self.yes], kinds[self.no]
        if yes == no or no is None:
            return yes if yes == no else None
        if yes is type(None):
            return _or_none(no)
        return _or_none(yes) if no is type(None) else None

    def _text(self, texts: Texts) -> str:
        return f"{self.yes._operand(texts)} if {texts[self.test]} else {self.no._operand(texts)}"

    def _operand(self, texts: Texts) -> str:
        return f"({texts[self]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """A built-in function of one value; see ``CALLS``."""

    function: str
    of: Expression

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return _CALL_TYPES[self.function]

    def _text(self, texts: Texts) -> str:
        return f"{self.function}({texts[self.of]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"{add(CALLS[self.function])}({names[self.of]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Method(Expression):
    """A call of a method: ``r.url.split("/")``."""

    of: Expression
    name: str
    arguments: tuple[Expression, ...]

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return _METHOD_TYPES.get((kinds[self.of], self.name))

    def _text(self, texts: Texts) -> str:
        of = "" if isinstance(self.of, Element) else self.of._operand(texts)
        return f"{of}.{self.name}({', '.join([texts[each] for each in self.arguments])})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        return f"getattr({names[self.of]}, {self.name!r})({', '.join([names[each] for each in self.arguments])})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contains(Expression):
    """Whether a value contains another one: ``"x" in r.url``."""

    of: Expression
    item: Expression

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return bool

    def _text(self, texts: Texts) -> str:
        return f"{self.item._operand(texts)} in {self.of._operand(texts)}"

    def _operand(self, texts: Texts) -> str:
        return f"({texts[self]})"

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

    of: Expression
    values: frozenset[Any] | set[Any] | Mapping[Any, Any]
    shown: str | None = field(default=None, compare=False)

    def _type(self, kinds: Types, element_type: object) -> object | None:
        return bool

    def _text(self, texts: Texts) -> str:
        return f"{self.of._operand(texts)} in {self.shown or collection_text(self.values)}"

    def _operand(self, texts: Texts) -> str:
        return f"({texts[self]})"

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

    def _type(self, kinds: Types, element_type: object) -> object | None:
        types_of = set(map(type, self.table.values()))
        kind = types_of.pop() if len(types_of) == 1 else None
        if self.default is None or kind is None:
            return kind
        default = kinds[self.default]
        return kind if default is kind else _or_none(kind) if default is type(None) else None

    def _text(self, texts: Texts) -> str:
        table, key = self.shown or collection_text(self.table), texts[self.key]
        return f"{table}[{key}]" if self.default is None else f"{table}.get({key}, {texts[self.default]})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        table, key = add(self.table), names[self.key]
        return f"{table}[{key}]" if self.default is None else f"{table}.get({key}, {names[self.default]})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Record(Expression):
    """A record of a dataclass or a named tuple, or a plain tuple, whose fields are named by their places."""

    target: type[Any]
    fields: tuple[tuple[str, Expression], ...]

    def _type(self, kinds: Types, element_type: object) -> object | None:
        if self.target is not tuple:
            return self.target
        found = [kinds[of] for _, of in self.fields]
        # Any: a tuple of the types that were found.
        return None if None in found else tuple.__class_getitem__(tuple(found))

    def _text(self, texts: Texts) -> str:
        if self.target is tuple:
            return f"({', '.join([texts[of] for _, of in self.fields])}{',' if len(self.fields) == 1 else ''})"
        return f"{self.target.__name__}({', '.join([f'{name}={texts[of]}' for name, of in self.fields])})"

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        if self.target is tuple:
            return f"({''.join([f'{names[of]}, ' for _, of in self.fields])})"
        return f"{add(self.target)}({', '.join([f'{name}={names[of]}' for name, of in self.fields])})"


class _Code:
    """Writes a function that computes an expression, a variable for each node."""

    def __init__(self, root: Expression) -> None:
        self._root = root
        self._objects: dict[str, object] = {"getattr": getattr}
        self._numbers = itertools.count()

    def function(self) -> Callable[[Any], Any]:
        """The function of an element."""
        names: dict[Expression, str] = {}
        lines = self._lines(self._root, names)
        text = "\n    ".join(["def evaluate(element):", *lines, f"return {names[self._root]}"])
        exec(text, self._objects)
        # Any: what exec made.
        made: Any = self._objects["evaluate"]
        return typing.cast(Callable[[Any], Any], made)

    def _lines(self, root: Expression, names: dict[Expression, str]) -> list[str]:
        """The lines that compute a node and what it needs; ``names`` has the variables, and gets those of the lines."""
        lines: list[str] = []
        for node in ordered([root], lambda node: () if node in names else _computed_first(node)):
            if node in names:
                continue
            name = f"v{next(self._numbers)}"
            if isinstance(node, Conditional):
                # What one side computes is not there if the other one is taken.
                for header, side in ((f"if {names[node.test]}:", node.yes), ("else:", node.no)):
                    inner = dict(names)
                    within = self._lines(side, inner)
                    lines += [header, *[f"    {line}" for line in [*within, f"{name} = {inner[side]}"]]]
            else:
                lines.append(f"{name} = {node.code(names, self._add)}")
            names[node] = name
        return lines

    def _add(self, value: object) -> str:
        name = f"c{next(self._numbers)}"
        self._objects[name] = value
        return name


def _computed_first(node: Expression) -> tuple[Expression, ...]:
    """The nodes that are computed before a node; the sides of a decision are not."""
    return (node.test,) if isinstance(node, Conditional) else node.children


@dataclass(frozen=True, slots=True)
class _Place:
    """Stands for a node by its place in a list."""

    number: int


def _rebuilt(rows: list[tuple[type[Expression], tuple[Any, ...]]]) -> Expression:
    """The tree whose nodes are those of a list, the last one at its top."""
    nodes: list[Expression] = []

    def at_place(place: Any) -> Expression:
        number: int = place.number
        return nodes[number]

    for kind, values in rows:
        nodes.append(kind(*[_replaced(value, at_place) for value in values]))
    return nodes[-1]


def _replaced(value: Any, replacement: Callable[[Any], Any]) -> Any:
    """A value of a node with others in place of the nodes, or of their places, in it."""
    if isinstance(value, (Expression, _Place)):
        return replacement(value)
    if type(value) is tuple:
        return tuple([_replaced(part, replacement) for part in value])
    return value


def _flat(value: object) -> Iterable[object]:
    """A value of a node, or the parts of a tuple of values, and of tuples in it."""
    if type(value) is not tuple:
        return (value,)
    return [inner for part in value for inner in _flat(part)]


_SAYING: Final[dict[type[Expression], tuple[str, ...]]] = {}


def _saying(kind: type[Expression]) -> tuple[str, ...]:
    """The fields of a class of nodes that count where two nodes are compared."""
    found = _SAYING.get(kind)
    if found is None:
        found = tuple([each.name for each in dataclasses.fields(kind) if each.init and each.compare])
        _SAYING[kind] = found
    return found


def _key_of(value: object) -> str:
    """A text that tells a value of a node from others."""
    kind = type(value)
    if kind is int:
        return f"int {value:x}"
    if kind in (str, float, bool, types.NoneType) or value is tuple:
        return f"{kind.__name__} {value!r}"
    if kind is frozenset and all(type(each) in (str, int, bool, float) for each in typing.cast(Any, value)):
        return collection_digest(typing.cast(Any, value))
    return f"at {id(value)}"


def _stored_key_of(value: object) -> str:
    """The same, for other processes."""
    if isinstance(value, (set, frozenset, Mapping)):
        return collection_digest(value)
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else _key_of(value)


def _or_none(kind: object) -> object:
    # Any: a union of types that are known when the program runs.
    present: Any = kind
    return present | None


def constant_text(value: Scalar) -> str:
    """The text of a constant, shortened."""
    if type(value) is int and value.bit_length() > _LONGEST_INT:
        return f"an int of {value.bit_length()} bits"
    # A slice: the text of a long one would be made for nothing.
    shown = value[: _LONGEST_CONSTANT + 1] if type(value) is str else value
    return shortened_text(repr(shown), _LONGEST_CONSTANT)


def _item_texts(values: Collection[Any]) -> list[str]:
    items = values.items() if isinstance(values, Mapping) else None
    return sorted(map(repr, values) if items is None else (f"{key!r}: {value!r}" for key, value in items))


def collection_text(values: Collection[Any]) -> str:
    """The text of a set or a dict that stands in code, shortened."""
    if len(values) > _MOST_SORTED:
        return f"{{... {len(values)} in all}}"
    shown = [shortened_text(text, _LONGEST_CONSTANT) for text in _item_texts(values)]
    if len(shown) <= 4:
        return f"{{{', '.join(shown)}}}"
    return f"{{{', '.join(shown[:3])}, ... {len(shown)} in all}}"


_MOST_SORTED: Final = 10_000


def collection_digest(values: Collection[Any]) -> str:
    """A text for a set or a dict of constants: equal ones have the same, and others have others."""
    return hashlib.sha256(repr(_item_texts(values)).encode("utf-8", "surrogatepass")).hexdigest()


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
