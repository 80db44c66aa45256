"""Defines the base class of nodes of expressions, and compiles an expression into a Python function.

Several nodes may share one below them. What goes through a tree takes each different node once, and does not call
itself for what lies below: a function of a hundred lines makes a deep tree, in which each uses the one before twice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self, TypeAlias

from windrow.expressions.constant_texts import collection_digest, shortened_text
from windrow.expressions.member_types import present

# Any in this module: elements and their fields are of every type.

Types: TypeAlias = "Mapping[Expression, object | None]"
"""The types of the values of the nodes below a node; None where annotations do not say."""

Texts: TypeAlias = "Mapping[Expression, str]"
"""The texts of the nodes below a node."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expression:
    """A node of the tree.

    Nodes are equal if they say the same; those of sets and dicts, if they hold the same one.

    Attributes:
        is_compound: Whether the text stands in brackets where it is a part of a longer one.
        identity: The digest of what the node and all nodes below say. A class, a dict and a set that can change count
            by where they are in memory.
        children: The nodes right below.
    """

    is_compound: ClassVar[bool] = False
    identity: bytes = field(init=False, compare=False)
    children: tuple[Expression, ...] = field(init=False, compare=False)
    _compiled: Callable[[Any], Any] | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        children: list[Expression] = []
        keys = [type(self).__name__.encode()]
        for name in _compared_fields(type(self)):
            for value in _flat(getattr(self, name)):
                if isinstance(value, Expression):
                    children.append(value)
                    keys.append(b"\0" + value.identity)
                else:
                    keys.append(b"\1" + _key_of(value).encode("utf-8", "surrogatepass"))
            keys.append(b"\2")
        object.__setattr__(self, "identity", _digest(b"".join(keys)))
        object.__setattr__(self, "children", tuple(children))
        object.__setattr__(self, "_compiled", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # Pickled as a list of nodes: pickle recurses into children, too deep for a deep tree.
        numbers: dict[Expression, _Number] = {}
        rows: list[tuple[type[Expression], tuple[Any, ...]]] = []
        for part in self.parts():
            values = [getattr(part, each.name) for each in dataclasses.fields(part) if each.init]
            rows.append((type(part), tuple([_replaced(value, numbers.__getitem__) for value in values])))
            numbers[part] = _Number(len(numbers))
        return _rebuilt, (rows,)

    def stored_digest(self) -> str:
        """A digest of what the tree says, with the contents of sets and dicts, that is the same in each process."""
        digests: dict[Expression, bytes] = {}
        for part in self.parts():
            keys = [type(part).__name__.encode()]
            for name in _compared_fields(type(part)):
                for value in _flat(getattr(part, name)):
                    text = "" if isinstance(value, Expression) else _stored_key_of(value)
                    keys.append(digests[value] if isinstance(value, Expression) else text.encode("utf-8", "replace"))
                keys.append(b";")
            digests[part] = _digest(b"\0".join(keys))
        return digests[self].hex()

    def parts(self) -> list[Expression]:
        """Returns the distinct nodes of the tree in post-order, this one last."""
        return ordered([self], lambda node: node.children)

    def evaluate(self, element: Any) -> Any:
        """Returns what the selector returns for ``element``, and raises what the selector would raise.

        Args:
            element: The element.
        """
        compiled = self._compiled
        if compiled is None:
            compiled = _Code(self).function()
            object.__setattr__(self, "_compiled", compiled)
        return compiled(element)

    def types(self, known_types: Types, true_parts: Collection[Expression] = ()) -> dict[Expression, object | None]:
        """Returns the types of the values of all nodes; None where annotations do not say.

        Args:
            known_types: The types of the element, and of other arguments of the function.
            true_parts: The nodes whose values are true where this one is computed, so that they are not None.
        """
        types: dict[Expression, object | None] = {}
        for part in self.parts():
            type_form = known_types[part] if part in known_types else part._type(types)
            types[part] = present(type_form) if part in true_parts else type_form
        return types

    def __str__(self) -> str:
        texts: dict[Expression, str] = {}
        for part in self.parts():
            texts[part] = shortened_text(part._text(texts))
        return texts[self]

    def with_children(self, children: Mapping[Expression, Expression]) -> Self:
        """Returns a copy of the node with other children.

        Args:
            children: For each of the nodes right below, that which takes its place.
        """
        if all(children[each] is each for each in self.children):
            return self
        values = {name: getattr(self, name) for name in _compared_fields(type(self))}
        changes = {name: _replaced(value, children.__getitem__) for name, value in values.items()}
        return dataclasses.replace(self, **changes)

    @property
    def reads_same(self) -> bool:
        """Whether the value is the same object each time that it is computed of one element."""
        return False

    @property
    def sides(self) -> tuple[Expression, ...]:
        """The last children, of which a decision computes one; empty for nodes that decide nothing."""
        return ()

    @property
    def computed_first(self) -> tuple[Expression, ...]:
        """The children that are always computed before this node."""
        return self.children[: len(self.children) - len(self.sides)]

    def _type(self, types: Types) -> object | None:
        """The type of the value, from those of the nodes below."""
        return None

    def _text(self, texts: Texts) -> str:
        """The text of the node, from those of the nodes below."""
        raise NotImplementedError

    def _operand(self, texts: Texts) -> str:
        """The text of the node, as a part of a longer one."""
        return f"({texts[self]})" if self.is_compound else texts[self]

    def code(self, names: Mapping[Expression, str], add: Callable[[object], str]) -> str:
        """The Python code that computes the value.

        Args:
            names: The variables that have the values of the nodes below.
            add: Returns the name by which the code has an object.
        """
        raise NotImplementedError


def ordered(roots: Iterable[Expression], below: Callable[[Expression], Collection[Expression]]) -> list[Expression]:
    """Returns all different nodes of several trees, each after those that ``below`` returns for it."""
    done: dict[Expression, None] = {}
    waiting: list[tuple[Expression, bool]] = [(root, False) for root in roots][::-1]
    while waiting:
        node, is_ready = waiting.pop()
        if node in done:
            continue
        under = () if is_ready else below(node)
        if not under:
            done[node] = None
            continue
        waiting.append((node, True))
        waiting.extend([(each, False) for each in under][::-1])
    return list(done)


class _Code:
    """Writes a function that computes an expression, a variable for each node."""

    def __init__(self, root: Expression) -> None:
        self._root = root
        self._objects: dict[str, object] = {"getattr": getattr}
        self._numbers = itertools.count()

    def function(self) -> Callable[[Any], Any]:
        """Returns the function of an element."""
        names: dict[Expression, str] = {}
        lines = self._lines(self._root, names)
        text = "\n    ".join(["def evaluate(element):", *lines, f"return {names[self._root]}"])
        exec(text, self._objects)
        return typing.cast(Callable[[Any], Any], self._objects["evaluate"])  # what exec defined

    def _lines(self, root: Expression, names: dict[Expression, str]) -> list[str]:
        """Writes the lines that compute a node; ``names`` has the variables, and gets those of the lines."""
        lines: list[str] = []
        for node in ordered([root], lambda node: () if node in names else node.computed_first):
            if node in names:
                continue
            name = f"v{next(self._numbers)}"
            if node.sides:
                (test,) = node.computed_first
                # Variables of one side do not exist if the other one is taken.
                for header, side in zip((f"if {names[test]}:", "else:"), node.sides, strict=True):
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


@dataclass(frozen=True, slots=True)
class _Number:
    """Stands for a node by its number in a list."""

    number: int


def _rebuilt(rows: list[tuple[type[Expression], tuple[Any, ...]]]) -> Expression:
    """Rebuilds a tree from a list of its nodes in post-order."""
    nodes: list[Expression] = []

    def of_number(number: _Number) -> Expression:
        return nodes[number.number]

    for class_, values in rows:
        nodes.append(class_(*[_replaced(value, of_number) for value in values]))
    return nodes[-1]


def _replaced(value: Any, replacement: Callable[[Any], Any]) -> Any:
    """Returns a value of a node with others in place of the nodes, or of their numbers, in it."""
    if isinstance(value, (Expression, _Number)):
        return replacement(value)
    if type(value) is tuple:
        return tuple([_replaced(part, replacement) for part in value])
    return value


def _flat(value: object) -> Iterable[object]:
    """Returns a value of a node, or the parts of a tuple of values, and of tuples in it."""
    if type(value) is not tuple:
        return (value,)
    return [inner for part in value for inner in _flat(part)]


_COMPARED_FIELDS: Final[dict[type[Expression], tuple[str, ...]]] = {}


def _compared_fields(class_: type[Expression]) -> tuple[str, ...]:
    """The fields of a class of nodes that count where two nodes are compared."""
    names = _COMPARED_FIELDS.get(class_)
    if names is None:
        names = tuple([each.name for each in dataclasses.fields(class_) if each.init and each.compare])
        _COMPARED_FIELDS[class_] = names
    return names


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()


def _key_of(value: object) -> str:
    """Returns a text that is the same for the same value of a node, in this process alone."""
    class_ = type(value)
    if class_ is int:
        return f"int {value:x}"
    if class_ in (str, bytes, float, bool, type(None)) or value is tuple:
        return f"{class_.__name__} {value!r}"
    if class_ is frozenset and all(type(each) in (str, int, bool, float) for each in typing.cast(Any, value)):
        return collection_digest(typing.cast(Any, value))
    return f"at {id(value)}"


def _stored_key_of(value: object) -> str:
    """Writes a text that tells a value of a node from others in each process."""
    if isinstance(value, (set, frozenset, Mapping)):
        return collection_digest(value)
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else _key_of(value)
